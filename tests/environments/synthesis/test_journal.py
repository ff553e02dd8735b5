"""The record of a run goes to disk and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments.check.report import Finding
from environments.synthesis.journal import (
    EnvironmentRecord,
    RecordInvalid,
    Rejection,
    Repair,
    StageOutcome,
    read_record,
    write_record,
)
from environments.synthesis.makeup import Makeup


def test_a_record_is_a_line_for_each_environment(tmp_path: Path) -> None:
    made = [
        EnvironmentRecord(
            name="library",
            outcome="passed",
            stages=(
                StageOutcome(
                    stage="schema",
                    repairs=(Repair(problems=("no key",), changed="+ PRIMARY KEY"),),
                    rejected=(Rejection(what="lend", reason="no copies"),),
                ),
            ),
            makeup=Makeup(
                difficulties={"easy": 2},
                gates=(Finding("tools load", passed=True, hard=True, detail=""),),
            ),
        ),
        EnvironmentRecord(name="museum", outcome="rejected", reason="no task was left"),
    ]
    path = write_record(tmp_path, made)
    assert len(path.read_text().splitlines()) == 2
    assert list(read_record(tmp_path)) == made


def test_what_is_no_record_is_told_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(RecordInvalid, match=r"has no record\.jsonl"):
        list(read_record(tmp_path))
    write_record(tmp_path, [EnvironmentRecord(name="library", outcome="passed")])
    with (tmp_path / "record.jsonl").open("a") as file:
        file.write('{"name": "museum"}\n')
    with pytest.raises(RecordInvalid, match=r"line 2: .*outcome"):
        list(read_record(tmp_path))

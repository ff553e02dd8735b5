"""The report of a run of which nobody but the record knows."""

from __future__ import annotations

import re
from pathlib import Path

from environments.synthesis.journal import read_record
from environments.synthesis.offline.making import Made
from environments.synthesis.offline.recorded import diversity_of, write_made
from environments.synthesis.report import write_report

SCHEMA = tuple(f"table {number}" for number in range(20))


def made(number: int, **values: object) -> Made:
    given = {
        "number": number,
        "name": f"clinic-{number}",
        "domain": "clinic",
        "features": (),
        "passed": True,
        "tables": 8 + number,
        "tools": 20,
        "rows": 200 + 40 * number,
        "shapes": ("a", "b", "b"),
        "difficulties": {"easy": 2, "hard": 1},
        "schema": SCHEMA,
        "signatures": tuple(f"tool {place}" for place in range(20)),
    }
    return Made(**{**given, **values})  # type: ignore[arg-type]


RUN = [
    made(0),
    made(1, signatures=tuple(f"tool {place}" for place in range(1, 21))),
    made(2, schema=tuple(f"other {place}" for place in range(20)), dropped=2),
    made(3, passed=False, problems=("tools load: KeyError: <'south'>",), shapes=()),
]


def test_how_different_environments_are() -> None:
    found = diversity_of(RUN[:3])
    assert found.schemas == 2
    assert [(one.one, one.other) for one in found.duplicates] == [("clinic-0", "clinic-1")]
    assert found.nearest == (0.9512, 0.9512, 0.3333)
    assert found.same_tasks == 0.3333


def test_a_run_from_blueprints_has_the_same_report(tmp_path: Path) -> None:
    write_made(tmp_path, RUN)
    assert [one.outcome for one in read_record(tmp_path)] == ["passed"] * 3 + ["rejected"]
    page = write_report(tmp_path, "clinics").read_text()
    text = (tmp_path / "report.md").read_text()
    assert "# Synthesis clinics" in text
    assert "| check | 4 | 3 | 11 | 9 |" in text
    assert "| clinic-0 and clinic-1 | 0.95 |" in text
    assert "| clinic-3 | check | clinic-3 | tools load: KeyError: <'south'> |" in text
    assert "&lt;&#x27;south&#x27;&gt;" in page, "what others wrote is text in a page"
    assert page.count("<svg") == 7
    assert len(re.findall(r"https?://(?!www\.w3\.org/)", page)) == 0


def test_the_same_run_has_the_same_page(tmp_path: Path) -> None:
    write_made(tmp_path, RUN)
    first = write_report(tmp_path).read_bytes()
    assert write_report(tmp_path).read_bytes() == first

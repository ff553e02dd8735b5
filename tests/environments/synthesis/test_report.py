"""The report of a run of which nobody but the record knows."""

from __future__ import annotations

import re
from pathlib import Path

from environments.check.report import Finding
from environments.synthesis.diversity import diversity
from environments.synthesis.journal import (
    EnvironmentRecord,
    Rejection,
    StageOutcome,
    read_record,
    write_record,
)
from environments.synthesis.makeup import Makeup
from environments.synthesis.offline.making import Made
from environments.synthesis.report import write_report

SCHEMA = tuple(f"table {number}" for number in range(20))


TOOLS = tuple(f"tool {number}" for number in range(20))


def made(
    number: int,
    schema: tuple[str, ...] = SCHEMA,
    signatures: tuple[str, ...] = TOOLS,
    dropped: tuple[Rejection, ...] = (),
) -> Made:
    makeup = Makeup(
        tables=8 + number,
        tools=20,
        rows=200 + 40 * number,
        tasks=3,
        difficulties={"easy": 2, "hard": 1},
        tools_called=19,
        tables_changed=5,
        gates=(
            Finding("replay is identical", passed=True, hard=True, detail=""),
            Finding("oracles cover the tools", passed=number == 0, hard=False, detail=""),
        ),
        shapes=("a", "b", "b"),
        instructions=("Lend it to Ann, please.", f"Lend it to Bo on day {number}.", "Take it."),
        schema=schema,
        signatures=signatures,
    )
    return Made(
        number=number,
        name=f"clinic-{number}",
        domain="clinic",
        features=(),
        passed=True,
        dropped=dropped,
        makeup=makeup,
    )


LOST = tuple(Rejection(what=each, reason="it scores 0.5") for each in ("t04", "t07"))
RUN = [
    made(0),
    made(1, signatures=tuple(f"tool {place}" for place in range(1, 21))),
    made(2, schema=tuple(f"other {place}" for place in range(20)), dropped=LOST),
    Made(
        number=3,
        name="clinic-3",
        domain="clinic",
        features=(),
        passed=False,
        problems=("tools load: KeyError: <'south'>",),
    ),
]
RECORDS = [each.record for each in RUN]


def test_how_different_environments_are() -> None:
    found = diversity([(each.name, each.makeup) for each in RUN[:3]])
    assert found.schemas == 2
    assert [(one.one, one.other) for one in found.duplicates] == [("clinic-0", "clinic-1")]
    assert found.nearest == (0.9512, 0.9512, 0.3333)
    assert (found.same_shape, found.tasks) == (3, 9)
    assert (found.instructions, found.openings) == (5, 2)


def test_a_duplicate_is_told_with_the_earlier_one_that_it_is_most_like() -> None:
    parts = tuple(f"part {number}" for number in range(100))
    other = tuple(f"other {number}" for number in range(100))
    every = [("first", parts), ("far", other), ("near", (*parts[:-5], "x")), ("last", parts[:-4])]
    found = diversity([(name, Makeup(schema=schema)) for name, schema in every])
    assert [(one.one, one.other) for one in found.duplicates] == [
        ("first", "near"),
        ("near", "last"),
    ]
    assert found.nearest == (0.96, 0.0, 0.9794, 0.9794)


def test_a_run_from_blueprints_has_the_same_report(tmp_path: Path) -> None:
    write_record(tmp_path, RECORDS)
    assert [one.outcome for one in read_record(tmp_path)] == ["passed"] * 3 + ["rejected"]
    page = write_report(tmp_path, "clinics").read_text()
    text = (tmp_path / "report.md").read_text()
    assert "# Synthesis clinics" in text
    assert "| check | 4 | 3 | 11 | 9 |" in text
    assert "| clinic-0 and clinic-1 | 0.95 |" in text
    assert "| 2 easy, 1 hard | 19 of 20 | 5 of 8 | 0 |" in text
    assert "| replay is identical | 3 | 0 |\n| oracles cover the tools | 1 | 2 |" in text
    assert "| clinic-3 | check | clinic-3 | tools load: KeyError: <'south'> |" in text
    assert "| clinic-2 | check | t07 | it scores 0.5 |" in text
    assert "&lt;&#x27;south&#x27;&gt;" in page, "what others wrote is text in a page"
    assert page.count("<svg") == 7
    assert len(re.findall(r"https?://(?!www\.w3\.org/)", page)) == 0


def test_what_was_stopped_is_told_though_a_task_of_it_was_given_up(tmp_path: Path) -> None:
    lost = Rejection(what="lend", reason="no copies")
    done = StageOutcome(stage="oracle", into=2, out_of=1, rejected=(lost,))
    stopped = EnvironmentRecord(name="museum", outcome="unfinished", stages=(done,))
    write_record(tmp_path, [stopped])
    write_report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| museum | oracle | lend | no copies |" in text
    assert "| museum | unfinished |  | it was stopped |" in text


def test_the_same_run_has_the_same_page(tmp_path: Path) -> None:
    write_record(tmp_path, RECORDS)
    first = write_report(tmp_path).read_bytes()
    assert write_report(tmp_path).read_bytes() == first

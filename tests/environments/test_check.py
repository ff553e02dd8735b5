"""Every broken pack fails, at its own gate and with a readable reason."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from environments.check import CheckReport, Finding, check_pack, check_packs
from environments.check.probes import HUGE, breaking, mutated, plausible
from environments.spec import EnvironmentSpec, OracleCall, Task
from environments.synthesis.workshop import Draft

BROKEN = Path(__file__).parents[1] / "packs" / "broken"

FAILURES = {
    "manifest-typo": (
        "files are read",
        "environment.toml: line 3: Object contains unknown field `tittle` (did you mean title?)",
    ),
    "schema-error": ("schema and data are valid", 'schema.sql, line 1: near ")": syntax error'),
    "orphan-rows": ("schema and data are valid", "data.sql, line 3: FOREIGN KEY constraint failed"),
    "import-error": ("tools load", "KeyError: 'south'"),
    "assertion-typo": (
        "verifiers parse",
        "task ann: expect[0].set: unknown column of parcels: 'statuss' (did you mean status?)",
    ),
    "asks-for-nothing": ("verifiers parse", "task ann: the verifier pays for doing nothing"),
    "oracle-fails": (
        "oracle calls succeed",
        "task ann: oracle call 0 (hand_out) answered ALREADY_HANDED_OUT: P-33 was handed out",
    ),
    "oracle-unpaid": (
        "the oracle scores 1",
        "parcels P-32 was changed (status: 'held' -> 'handed_out'), which nothing allows",
    ),
    "pays-for-nothing": ("doing nothing scores 0", "task ann: doing nothing scores 0.5"),
    "too-wide": (
        "stray changes cost the reward",
        "task ann: a stray change still scores 1.0: parcels P-32 was changed (status: 'held' ->",
    ),
    "added-again": (
        "stray changes cost the reward",
        "task bo: a stray change still scores 1.0: notes 3 was added",
    ),
    "idle-write": (
        "every write matters",
        "task ann: scores 1 without oracle call 2 (add_note)",
    ),
    "guessed": ("random runs score next to nothing", "task ann: 50 random runs score 0."),
    "reading-writes": ("reading tools write nothing", "declared read-only wrote"),
    "keeps-half": (
        "failing calls change nothing",
        'hand_out {"parcel_id":"P-33"}: answered ALREADY_HANDED_OUT and changed notes',
    ),
    "remembers": ("replay is identical", "goes otherwise in a used worker: result.searches: 1"),
    "crashes": ("wrong calls are answered, not crashed", "KeyError: 'status'"),
}


def test_every_broken_pack_is_listed() -> None:
    assert {path.name for path in BROKEN.iterdir()} == set(FAILURES)


@pytest.fixture(scope="module")
async def reports(anyio_backend: object) -> dict[str, CheckReport]:
    found = await check_packs([BROKEN / name for name in sorted(FAILURES)])
    return {report.path.name: report for report in found}


@pytest.mark.parametrize("name", sorted(FAILURES))
def test_a_broken_pack_fails_at_its_gate(reports: dict[str, CheckReport], name: str) -> None:
    gate, reason = FAILURES[name]
    details = {finding.name: finding.detail for finding in reports[name].failures}
    assert gate in details, details
    assert reason in details[gate]
    assert not reports[name].passed


def test_the_report_is_a_table_and_json(reports: dict[str, CheckReport]) -> None:
    report = reports["oracle-unpaid"]
    console = Console(width=120)
    with console.capture() as capture:
        console.print(report)
    text = capture.get()
    assert "the oracle scores 1" in text
    assert re.search(r"oracle-unpaid fails \d of \d+ gates", text)
    data = json.loads(json.dumps(report.to_json()))
    assert data["passed"] is False
    assert data["environment"] == "oracle-unpaid"
    failed = [item["name"] for item in data["findings"] if item["hard"] and not item["passed"]]
    assert "the oracle scores 1" in failed


def the(report: CheckReport, name: str) -> Finding:
    (found,) = [finding for finding in report.findings if finding.name == name]
    return found


@pytest.mark.anyio
async def test_a_write_may_be_optional(tmp_path: Path) -> None:
    pack = tmp_path / "idle-write"
    shutil.copytree(BROKEN / "idle-write", pack)
    lines = (pack / "tasks.jsonl").read_text()
    optional = lines.replace('"tool": "add_note"', '"optional": true, "tool": "add_note"')
    (pack / "tasks.jsonl").write_text(optional)
    found = the(await check_pack(pack), "every write matters")
    assert (found.passed, found.detail) == (True, "1 writes, 1 optional")


def test_an_allowed_change_is_no_stray(reports: dict[str, CheckReport]) -> None:
    """What a task allows anywhere in a table may be added once more."""
    assert the(reports["idle-write"], "stray changes cost the reward").passed


@pytest.mark.anyio
async def test_many_packs_side_by_side_and_known_from_before(tmp_path: Path) -> None:
    packs = [BROKEN / "idle-write", BROKEN / "manifest-typo", BROKEN / "guessed"]
    told: list[tuple[str, bool]] = []
    kept = tmp_path / "checks"

    def tell(path: Path, one: Finding | None) -> None:
        told.append((path.name, one is None))

    first = await check_packs(packs, kept=kept, told=tell)
    assert [report.path for report in first] == packs
    assert {name for name, done in told if done} == {path.name for path in packs}
    assert ("guessed", False) in told
    assert not any(report.cached for report in first)
    second = await check_packs(packs, kept=kept)
    cached = [report.cached for report in second]
    assert cached == [True, False, True], "what has no digest is not kept"
    assert [report.findings for report in second] == [report.findings for report in first]
    again = await check_packs([BROKEN / "guessed"], kept=kept, again=True)
    assert not again[0].cached
    copy = tmp_path / "guessed"
    shutil.copytree(BROKEN / "guessed", copy)
    assert (await check_packs([copy], kept=kept))[0].cached, "it goes by the digest"
    (copy / "policy.md").write_text("Be kind.")
    assert not (await check_packs([copy], kept=kept))[0].cached


# --- what the probes are made of --------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "minLength": 20, "maxLength": 22},
        "quantity": {"type": "integer", "minimum": 2, "maximum": 9},
        "price": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
        "mode": {"$ref": "#/$defs/Mode"},
        "lines": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/Line"}},
    },
    "required": ["sku", "quantity", "mode", "lines"],
    "$defs": {
        "Mode": {"enum": ["air", "sea"]},
        "Line": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
}


def test_plausible_arguments_fit_the_schema_and_breaking_ones_do_not() -> None:
    closed = jsonschema.Draft202012Validator({**SCHEMA, "additionalProperties": False})
    assert [list(closed.iter_errors(found)) for found in plausible(SCHEMA)] == [[]] * 4
    assert not any(closed.is_valid(found) for found in breaking(SCHEMA))
    assert len(list(breaking(SCHEMA))) == 7


def test_one_argument_at_a_time_is_made_senseless() -> None:
    good = {"quantity": 5, "mode": "air"}
    assert dict(mutated(good, SCHEMA)) == {
        "quantity": {"quantity": 2, "mode": "air"},
        "quantity huge": {"quantity": 9, "mode": "air"},
        "mode huge": {"quantity": 5, "mode": "sea"},
    }
    assert dict(mutated({"n": 1}, {"properties": {"n": {"type": "integer"}}}))["n huge"] == {
        "n": HUGE
    }


TWO_LAMPS = '''from environments.authoring import Database, tool


@tool(read_only=False)
def light(db: Database, lamp: str) -> dict:
    """Light a lamp."""
    db.run("UPDATE lamps SET lit = 1 WHERE name = ?", lamp)
    return {"lit": lamp}
'''
STUMBLING = """def verify_both(initial, final, answer, trajectory):
    lit = {row["name"] for row in final.rows("SELECT name FROM lamps WHERE lit")}
    return lit == {"a", "b"} if lit != {"a"} else 1 / 0
"""


@pytest.mark.anyio
async def test_a_verifier_that_stumbles_over_half_a_solution_is_found(tmp_path: Path) -> None:
    task = Task(
        id="both",
        instruction="Light both lamps.",
        verifier={
            "code": {"kind": "native", "function": "verify_both"},
            "allow": [{"table": "lamps"}],
        },
        oracle=tuple(OracleCall(tool="light", arguments={"lamp": lamp}) for lamp in "ab"),
    )
    Draft(
        EnvironmentSpec(name="lamps", version="1", title="Lamps", summary="Two lamps."),
        schema="CREATE TABLE lamps (name TEXT PRIMARY KEY, lit INTEGER NOT NULL DEFAULT 0);",
        rows={"lamps": [{"name": name} for name in "abc"]},
        tools=TWO_LAMPS,
        tasks=(task,),
        verifiers=STUMBLING,
    ).write(tmp_path / "lamps")
    found = the(await check_pack(tmp_path / "lamps"), "every write matters")
    assert not found.passed
    assert "task both: cannot be scored without oracle call 1 (light)" in found.detail
    assert "ZeroDivisionError" in found.detail

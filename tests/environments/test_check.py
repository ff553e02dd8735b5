"""Every broken pack fails, at its own gate and with a readable reason."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from environments.check import check_pack
from environments.check.probes import HUGE, breaking, mutated, plausible
from environments.check.runs import first_difference

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
    "too-wide": ("stray changes cost the reward", "task ann: a stray change of parcels P-33"),
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


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(FAILURES))
async def test_a_broken_pack_fails_at_its_gate(name: str) -> None:
    gate, reason = FAILURES[name]
    report = await check_pack(BROKEN / name)
    details = {finding.name: finding.detail for finding in report.failures}
    assert gate in details, details
    assert reason in details[gate]
    assert not report.passed


@pytest.mark.anyio
async def test_the_report_is_a_table_and_json() -> None:
    report = await check_pack(BROKEN / "oracle-unpaid")
    console = Console(width=120)
    with console.capture() as capture:
        console.print(report)
    text = capture.get()
    assert "the oracle scores 1" in text
    assert "oracle-unpaid fails 1 of" in text
    data = json.loads(json.dumps(report.to_json()))
    assert data["passed"] is False
    assert data["environment"] == "oracle-unpaid"
    assert [item["name"] for item in data["findings"] if item["hard"] and not item["passed"]] == [
        "the oracle scores 1"
    ]


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


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, ""),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a.1.b: 2 and 3"),
        ({"a": 1}, {"a": 1.0}, "a: 1 and 1.0"),
        ({"a": [1]}, {"a": [1, 2]}, "a: [1] and [1, 2]"),
        ({"a": 1}, {}, "a: 1 and None"),
    ],
)
def test_a_difference_is_found_where_it_is(one: object, other: object, where: str) -> None:
    assert first_difference(one, other) == where

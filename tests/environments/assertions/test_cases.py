"""The language by cases: for each word a run that must pass and the nearest one that must fail.

A case is a line of ``cases/*.jsonl``: ``word`` and what it is ``about``, a ``verifier``, a run to
``pass`` and one to ``fail``, and ``why`` (a part of the reasons). ``worth`` is what the failing run
still earns as a fraction, ``ignore`` what the pack ignores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from environments.assertions import GATE_WEIGHT
from environments.assertions.matchers import BESIDE, TESTS
from environments.assertions.parts import ELSEWHERE, ENTRY_WORDS, GROUP_WORDS
from environments.assertions.schema import verifier_schema
from environments.trajectory import Component
from tests.environments.assertions.shop import Judge

FOLDER = Path(__file__).parent / "cases"
CASES = [
    pytest.param(json.loads(line), id=f"{file.stem}-{number}")
    for file in sorted(FOLDER.glob("*.jsonl"))
    for number, line in enumerate(file.read_text().splitlines(), start=1)
]
SCHEMA = jsonschema_rs.validator_for(verifier_schema())


def judged(judge: Judge, case: Mapping[str, Any], which: str) -> dict[str, Component]:
    run = case[which]
    if not isinstance(run, Mapping):
        run = {"run": run}
    return judge(case["verifier"], run["run"], run.get("answer"), case.get("ignore"))


def worth(components: Mapping[str, Component]) -> float:
    parts = components.values()
    if any(part.weight == GATE_WEIGHT and not part.passed for part in parts):
        return 0.0
    return sum(part.weight for part in parts if part.passed) / sum(part.weight for part in parts)


@pytest.mark.parametrize("case", CASES)
def test_a_run_passes_and_the_nearest_fails(judge: Judge, case: dict[str, Any]) -> None:
    SCHEMA.validate(case["verifier"])

    good = judged(judge, case, "pass")
    failed = {name: part.reason for name, part in good.items() if not part.passed}
    assert not failed
    assert not any(part.reason for part in good.values())
    assert worth(good) == pytest.approx(1.0)

    bad = judged(judge, case, "fail")
    reasons = "; ".join(f"{n}: {part.reason}" for n, part in bad.items() if not part.passed)
    assert case["why"] in reasons
    assert all(part.passed is not bool(part.reason) for part in bad.values())
    if "worth" in case:
        assert worth(bad) == pytest.approx(case["worth"])


def test_every_word_has_a_case() -> None:
    words = {*GROUP_WORDS, *TESTS, *BESIDE}
    words |= {word for entry in ENTRY_WORDS.values() for word in entry}
    covered = {param.values[0]["word"] for param in CASES}
    assert words - ELSEWHERE.keys() <= covered
    assert len(CASES) >= 60

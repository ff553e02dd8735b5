"""The language by cases: for each word a run that must pass and the nearest one that must fail.

A case is a line of ``cases/*.jsonl``: ``word`` and what it is ``about``, a ``verifier``, a run to
``pass`` and one to ``fail``, and ``why`` (a part of the reasons). ``worth`` is what the failing run
still earns as a fraction, ``ignore`` what the pack ignores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from environments.assertions.matchers import BESIDE, TESTS
from environments.assertions.parts import ELSEWHERE, ENTRY_WORDS, GROUP_WORDS
from environments.assertions.schema import verifier_schema
from tests.environments.assertions.shop import Judge, check_case

FOLDER = Path(__file__).parent / "cases"
CASES = [
    pytest.param(json.loads(line), id=f"{file.stem}-{number}")
    for file in sorted(FOLDER.glob("*.jsonl"))
    for number, line in enumerate(file.read_text().splitlines(), start=1)
]
SCHEMA = jsonschema_rs.validator_for(verifier_schema())


@pytest.mark.parametrize("case", CASES)
def test_a_run_passes_and_the_nearest_fails(judge: Judge, case: dict[str, Any]) -> None:
    SCHEMA.validate(case["verifier"])
    check_case(judge, case)


def test_every_word_has_a_case() -> None:
    words = {*GROUP_WORDS, *TESTS, *BESIDE}
    words |= {word for entry in ENTRY_WORDS.values() for word in entry}
    covered = {param.values[0]["word"] for param in CASES}
    assert words - ELSEWHERE.keys() <= covered
    assert len(CASES) >= 60

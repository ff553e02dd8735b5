"""Gates on the final answer, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from environments.assertions import Assertions
from environments.errors import PackInvalid
from tests.environments.assertions.shop import TABLES, Judge


@pytest.mark.parametrize(
    ("gate", "fits", "misfits"),
    [
        ({"exact": "PO-17"}, " PO-17\n", "po-17"),
        ({"norm": "Blue Ridge Ltd"}, "blue  ridge ltd.", "Blue Ridge"),
        ({"numeric": 1299.0}, "The total is $1,299.00.", "1298"),
        ({"numeric": 1299.0, "tolerance": 0.01}, "1299.01", "1299.02"),
        ({"numeric": -4.5}, "**-4.5**", "4.5"),
        ({"numeric": 3}, "PO-1009 of 2026-03-02 has 3 lines", "PO-3"),
        ({"numeric": 12.5}, "12.5%", "none"),
        ({"numeric": 3}, "3 (three), as I said: 3", "1, 2 or 3"),
        ({"contains_all": ["LT-14", 12]}, "There are 12 of lt-14", "There are 112 of LT-14"),
        ({"contains_all": ["12"]}, "It is 12.", "It is 12.5"),
        ({"contains_any": ["Monday", "Tuesday"]}, "on tuesday", "on Tuesdays"),
        ({"set_eq": ["A-1", "B-2"]}, "- b-2\n- A-1", "A-1"),
        ({"set_eq": ["A-1", "B-2"]}, "A-1, and B-2.", "A-1, B-2, C-3"),
        ({"set_eq": [3, 4]}, "4.0; 3", "3, 5"),
        ({"contains_all": ["a"], "numeric": 5}, "a 5", "b 5"),
    ],
)
def test_gates(judge: Judge, gate: dict[str, Any], fits: str, misfits: str) -> None:
    good = judge({"answer": gate}, "", fits)["answer"]
    assert (good.passed, good.reason, good.weight) == (True, "", 1.0)
    bad = judge({"answer": gate}, "", misfits)["answer"]
    assert not bad.passed
    assert bad.reason


@pytest.mark.parametrize("answer", [None, "", "  \n"])
def test_no_answer_fails_every_gate(judge: Judge, answer: str | None) -> None:
    for gate in ({"exact": "x"}, {"numeric": 0}, {"set_eq": ["a"]}, {"contains_any": ["x"]}):
        found = judge({"answer": gate}, "", answer)["answer"]
        assert (found.passed, found.reason) == (False, "no answer was given")


@pytest.mark.parametrize(
    ("gate", "answer", "reason"),
    [
        ({"numeric": 5}, "7", "the answer is 7, expected 5"),
        ({"numeric": 5}, "5 or 6", "the answer has several numbers (5, 6), expected only 5"),
        ({"numeric": 5}, "five", "the answer 'five' has no number, expected 5"),
        ({"contains_all": ["a", "b"]}, "a", "the answer lacks 'b'"),
        ({"set_eq": ["a", "b"]}, "b, c", "the answer lacks a and should not have c"),
        ({"norm": "Ann"}, "Bo", "the answer is 'Bo', expected 'Ann'"),
    ],
)
def test_reasons(judge: Judge, gate: dict[str, Any], answer: str, reason: str) -> None:
    assert judge({"answer": gate}, "", answer)["answer"].reason == reason


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({}, "answer: asks for nothing"),
        ("Bo", "answer: must be an object"),
        ({"nrom": "x"}, "answer: unknown gate 'nrom' (did you mean norm?)"),
        ({"numeric": "5"}, "answer.numeric: must be a number, not '5'"),
        ({"numeric": True}, "answer.numeric: must be a number, not true"),
        ({"norm": " "}, "answer.norm"),
        ({"set_eq": []}, "answer.set_eq"),
        ({"contains_all": [""]}, "answer.contains_all"),
        ({"numeric": 5, "tolerance": -1}, "answer.tolerance"),
        ({"norm": "x", "tolerance": 1}, "answer.tolerance"),
    ],
)
def test_a_gate_that_means_nothing_is_refused(gate: Any, message: str) -> None:
    with pytest.raises(PackInvalid) as refused:
        Assertions.parse({"answer": gate}, TABLES)
    assert message in str(refused.value)

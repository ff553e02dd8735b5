"""Every matcher, both ways, on cells that real statements changed."""

from __future__ import annotations

from typing import Any

import pytest

from environments.assertions import Assertions
from environments.errors import PackInvalid
from tests.environments.assertions.shop import TABLES, Judge

TOTAL = "UPDATE orders SET total = {} WHERE id = 'o_17'"
NOTE = "UPDATE orders SET note = {} WHERE id = 'o_17'"


def holds(judge: Judge, column: str, matcher: Any, value: str, row: str = "o_17") -> bool:
    verifier = {
        "expect": [{"table": "orders", "where": {"id": row}, "set": {column: matcher}}],
    }
    found = judge(verifier, f"UPDATE orders SET {column} = {value} WHERE id = '{row}'")
    expected = found["expect[0] orders changed"]
    assert expected.passed is found["frame"].passed, "a row is expected or collateral"
    assert bool(expected.reason) is not expected.passed
    return expected.passed


@pytest.mark.parametrize(
    ("matcher", "fits", "misfits"),
    [
        (30, "30.0", "31"),
        (0.3, "0.1 + 0.2", "0.30001"),
        (None, "NULL", "0"),
        ({"eq": 30}, "30", "29.99"),
        ({"ne": 30}, "31", "30.0"),
        ({"lt": 30}, "29.9", "30"),
        ({"le": 30}, "30", "30.1"),
        ({"gt": 30}, "30.1", "30"),
        ({"ge": 30}, "30", "29.9"),
        ({"ge": 30, "lt": 40}, "39", "40"),
        ({"in": [30, 31]}, "31", "32"),
        ({"approx": 12.5, "within": 0.1}, "12.6", "12.7"),
        ({"approx": 12.5}, "12.51", "12.52"),
        ({"delta": -2}, "23", "22"),
        ({"delta": {"ge": 1, "le": 3}}, "28", "29"),
        ({"null": True}, "NULL", "1"),
        ({"null": False}, "1", "NULL"),
    ],
)
def test_numbers(judge: Judge, matcher: Any, fits: str, misfits: str) -> None:
    assert holds(judge, "total", matcher, fits)
    assert not holds(judge, "total", matcher, misfits)


@pytest.mark.parametrize(
    ("matcher", "fits", "misfits"),
    [
        ("Call first", "'Call first'", "'call first'"),
        ("7", "'7'", "'7.0'"),
        ({"gt": "2026-01-01"}, "'2026-01-02'", "'2025-12-31'"),
        ({"contains": "late  DELIVERY"}, "'a Late delivery, sorry'", "'delivery late'"),
        ({"regex": r"^PO-\d+$"}, "'PO-17'", "'PO-17b'"),
        ({"norm": "Call First"}, "' call   first'", "'call first!'"),
        ({"old": "status"}, "'pending'", "'shipped'"),
        ({"set_eq": ["a", 2]}, """'[2.0, "a"]'""", """'["a"]'"""),
        ({"set_eq": []}, "'[]'", "'a'"),
        ({"eq": {"a": [1]}}, """'{"a": [1.0]}'""", """'{"a": 1}'"""),
        ({"ne": "x", "contains": "x"}, "'xy'", "'x'"),
    ],
)
def test_text(judge: Judge, matcher: Any, fits: str, misfits: str) -> None:
    assert holds(judge, "note", matcher, fits)
    assert not holds(judge, "note", matcher, misfits)


def test_any_takes_every_new_value_but_not_an_unchanged_one(judge: Judge) -> None:
    assert holds(judge, "note", {"any": True}, "'whatever'")
    assert holds(judge, "note", {"any": True}, "NULL", row="o_18")
    verifier = {
        "expect": [{"table": "orders", "where": {"id": "o_17"}, "set": {"status": {"any": True}}}]
    }
    found = judge(verifier, "UPDATE orders SET status = status WHERE id = 'o_17'")
    assert not found["expect[0] orders changed"].passed


def test_numbers_and_text_are_not_equal(judge: Judge) -> None:
    assert not holds(judge, "note", 7, "'7'")
    assert not holds(judge, "total", "30", "30")


def test_old_may_name_another_column_of_the_row_before(judge: Judge) -> None:
    verifier = {
        "expect": [
            {"table": "stock", "where": {"sku": "LT-14"}, "set": {"reserved": {"old": "on_hand"}}}
        ]
    }
    sql = "UPDATE stock SET reserved = {} WHERE sku = 'LT-14'"
    assert judge(verifier, sql.format(7))["expect[0] stock changed"].passed
    assert not judge(verifier, sql.format(8))["expect[0] stock changed"].passed


@pytest.mark.parametrize(
    ("matcher", "message"),
    [
        ({"contain": "x"}, "unknown matcher 'contain' (did you mean contains?)"),
        ({"deltta": 1}, "unknown matcher 'deltta' (did you mean delta?)"),
        ({}, "empty matcher"),
        (["a"], "a list is not a matcher"),
        ({"old": "totl"}, "unknown column 'totl' (did you mean total?)"),
        ({"regex": "("}, "not a regular expression"),
        ({"contains": 5}, "must be text, not 5"),
        ({"contains": " "}, "must be text"),
        ({"in": 5}, "must be a list, not 5"),
        ({"set_eq": "a"}, "must be a list"),
        ({"lt": None}, "must be a number or text, not null"),
        ({"null": 1}, "must be true or false"),
        ({"any": False}, "can only be true"),
        ({"approx": "x"}, "approx and within must be numbers"),
        ({"approx": 1, "within": -1}, "within not negative"),
        ({"within": 1}, "unknown matcher 'within'"),
        ({"delta": "2"}, "must be a number or a numeric matcher"),
        ({"delta": {"delta": 1}}, "must be a number or a numeric matcher"),
        ({"bind": ""}, "must be a name"),
        ({"var": "ghost"}, "unknown variable 'ghost'"),
    ],
)
def test_a_matcher_that_means_nothing_is_refused(matcher: Any, message: str) -> None:
    verifier = {"expect": [{"table": "orders", "set": {"note": matcher}}]}
    with pytest.raises(PackInvalid) as refused:
        Assertions.parse(verifier, TABLES)
    assert message in str(refused.value)
    assert str(refused.value).startswith("expect[0]")

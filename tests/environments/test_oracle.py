"""References from one oracle call to the answer of another."""

from __future__ import annotations

from typing import Any

import pytest

from environments.errors import PackInvalid
from environments.oracle import resolve_oracle
from environments.spec import OracleCall

RESULTS: list[Any] = [
    {"items": [{"sku": "LT-14", "price": 5.5}, {"sku": "MS-02"}], "total": 2},
    ["a", {"b": None}],
]


def resolved(value: Any) -> Any:
    return resolve_oracle(OracleCall(tool="t", arguments={"x": value}), RESULTS)["x"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${0.total}", 2),
        ("${0.items.0.sku}", "LT-14"),
        ("${0.items.-1.sku}", "MS-02"),
        ("${1.1.b}", None),
        ("${1}", ["a", {"b": None}]),
        ({"deep": ["${0.items.0.price}", 1]}, {"deep": [5.5, 1]}),
        ("id ${0.total}", "id ${0.total}"),
        ("${total}", "${total}"),
        (7, 7),
    ],
)
def test_a_reference_stands_for_the_value_it_leads_to(value: Any, expected: Any) -> None:
    assert resolved(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${2.x}", "there is no call 2 before this one (calls are counted from 0)"),
        ("${0.totl}", "there is no 'totl' in call 0's answer (there is keys items, total)"),
        ("${0.items.2.sku}", "there is no '2' in call 0's answer (there is a list of 2)"),
        ("${0.items.sku}", "there is no 'sku' in call 0's answer (there is a list of 2)"),
        ("${0.total.x}", "there is no 'x' in call 0's answer (there is 2)"),
    ],
)
def test_a_reference_that_leads_nowhere_says_what_is_there(value: str, message: str) -> None:
    with pytest.raises(PackInvalid) as refused:
        resolved(value)
    assert message in str(refused.value)

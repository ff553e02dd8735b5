"""Expectations, the frame, what is allowed and forbidden, bound values, and the words for them."""

from __future__ import annotations

from typing import Any

import pytest

from environments.assertions import GATE_WEIGHT, Assertions
from environments.errors import PackInvalid
from tests.environments.assertions.shop import TABLES, Judge

CANCEL = {"table": "orders", "where": {"id": "o_17"}, "set": {"status": "cancelled"}}
CANCELLED = "UPDATE orders SET status = 'cancelled' WHERE id = 'o_17';"
EXPECTED = "expect[0] orders changed"


def test_what_was_expected_holds(judge: Judge) -> None:
    found = judge({"expect": [CANCEL]}, CANCELLED)
    assert [(name, part.passed, part.reason) for name, part in found.items()] == [
        (EXPECTED, True, ""),
        ("frame", True, ""),
    ]
    assert (found[EXPECTED].weight, found["frame"].weight) == (1.0, GATE_WEIGHT)


def test_weights_are_those_declared(judge: Judge) -> None:
    assert judge({"expect": [{**CANCEL, "weight": 2.5}]})[EXPECTED].weight == 2.5


@pytest.mark.parametrize(
    ("entry", "sql", "reason"),
    [
        (CANCEL, "", "orders o_17: status is 'pending', expected 'cancelled'"),
        (
            CANCEL,
            "UPDATE orders SET status = 'refunded' WHERE id = 'o_17'",
            "orders o_17: status is 'refunded' (was 'pending'), expected 'cancelled'",
        ),
        (
            CANCEL,
            "UPDATE orders SET status = 'cancelled', note = 'x' WHERE id = 'o_17'",
            "orders o_17: note was changed too (null -> 'x')",
        ),
        (
            CANCEL,
            "UPDATE orders SET note = 'x' WHERE id = 'o_17'",
            (
                "orders o_17: status is 'pending', expected 'cancelled'; "
                "note was changed too (null -> 'x')"
            ),
        ),
        (
            CANCEL,
            "DELETE FROM orders WHERE id = 'o_17'",
            "orders o_17 was removed, expected to be changed",
        ),
        (
            {**CANCEL, "where": {"id": "o_99"}},
            "",
            "orders o_99: no such row in the initial state",
        ),
        (
            {**CANCEL, "where": {"user_id": "u_3"}},
            "",
            "no row of orders changed where user_id is 'u_3' to status 'cancelled'",
        ),
        (
            {"table": "stock", "where": {"sku": "LT-14"}, "set": {"on_hand": {"delta": -2}}},
            "UPDATE stock SET on_hand = 4 WHERE sku = 'LT-14'",
            "stock LT-14: on_hand is 4 (was 7), expected 2 less than before",
        ),
        (
            {"table": "orders", "change": "removed", "where": {"id": "o_17"}},
            "",
            "orders o_17: was not removed",
        ),
        (
            {"table": "lines", "change": "added", "where": {"sku": "MS-02", "quantity": 3}},
            "INSERT INTO lines VALUES ('o_17', 'MS-02', 2)",
            (
                "no row of lines added where sku is 'MS-02' and quantity is 3; "
                "nearest is lines o_17/MS-02: quantity is 2, expected 3"
            ),
        ),
        (
            {"table": "lines", "change": "added", "where": {"sku": "MS-02"}},
            "INSERT INTO lines VALUES ('o_17', 'MS-02', 2), ('o_18', 'MS-02', 1)",
            (
                "2 rows of lines added where sku is 'MS-02' "
                "(lines o_17/MS-02, lines o_18/MS-02), expected 1"
            ),
        ),
        (
            {"table": "lines", "change": "added", "count": {"ge": 2}},
            "INSERT INTO lines VALUES ('o_17', 'MS-02', 2)",
            "1 row of lines added (lines o_17/MS-02), expected at least 2",
        ),
        (
            {
                "table": "lines",
                "where": {"order_id": "o_17", "sku": "LT-14"},
                "set": {"quantity": 2},
            },
            "",
            "lines o_17/LT-14: quantity is 1, expected 2",
        ),
    ],
)
def test_what_fails_says_why_in_terms_of_rows(
    judge: Judge, entry: dict[str, Any], sql: str, reason: str
) -> None:
    name = f"expect[0] {entry['table']} {entry.get('change', 'changed')}"
    found = judge({"expect": [entry]}, sql)[name]
    assert (found.passed, found.reason) == (False, reason)


def test_where_speaks_of_the_row_before_and_set_of_the_row_after(judge: Judge) -> None:
    entry = {"table": "orders", "where": {"status": "pending", "user_id": "u_1"}}
    both = {**entry, "set": {"status": "cancelled"}}
    assert judge({"expect": [both]}, CANCELLED)[EXPECTED].passed
    after = {**entry, "where": {"status": "cancelled"}, "change": "changed"}
    assert not judge({"expect": [after]}, CANCELLED)[EXPECTED].passed


def test_set_on_an_added_row_is_a_further_condition(judge: Judge) -> None:
    entry = {"table": "lines", "change": "added", "where": {"sku": "A"}, "set": {"quantity": 1}}
    insert = "INSERT INTO lines VALUES ('o_17', 'A', {})"
    assert judge({"expect": [entry]}, insert.format(1))["expect[0] lines added"].passed
    assert not judge({"expect": [entry]}, insert.format(2))["expect[0] lines added"].passed


def test_a_count_of_several_rows(judge: Judge) -> None:
    entry = {
        "table": "orders",
        "where": {"status": "pending"},
        "set": {"status": "held"},
        "count": 2,
    }
    one = "UPDATE orders SET status = 'held' WHERE id = 'o_17'"
    assert judge({"expect": [entry]}, "UPDATE orders SET status = 'held' WHERE status = 'pending'")[
        EXPECTED
    ].passed
    assert not judge({"expect": [entry]}, one)[EXPECTED].passed


def test_only_and_also(judge: Judge) -> None:
    sql = "UPDATE orders SET status = 'cancelled', updated_at = 'now' WHERE id = 'o_17'"
    assert not judge({"expect": [CANCEL]}, sql)[EXPECTED].passed
    for extra in ({"also": ["updated_at"]}, {"only": False}):
        found = judge({"expect": [{**CANCEL, **extra}]}, sql)
        assert found[EXPECTED].passed
        assert found["frame"].passed
    more = (
        "UPDATE orders SET status = 'cancelled', updated_at = 'now', note = 'x' WHERE id = 'o_17'"
    )
    assert not judge({"expect": [{**CANCEL, "also": ["updated_at"]}]}, more)[EXPECTED].passed


# --- the frame --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "UPDATE users SET email = 'b@x.org' WHERE id = 'u_3'",
            "users u_3 was changed (email: 'bo@x.org' -> 'b@x.org'), which nothing allows",
        ),
        (
            "INSERT INTO log (what) VALUES ('hi')",
            "log 1 was added (id: 1, what: 'hi', order_id: null), which nothing allows",
        ),
        ("DELETE FROM stock WHERE sku = 'MS-02'", "stock MS-02 was removed, which nothing allows"),
        (
            "UPDATE orders SET status = 'cancelled' WHERE id = 'o_18'",
            "orders o_18 was changed (status: 'pending' -> 'cancelled'), which nothing allows",
        ),
        (
            "CREATE TABLE extra (id INTEGER PRIMARY KEY)",
            (
                "table extra of the schema was added "
                "(name: 'extra', sql: 'CREATE TABLE extra (id INTEGER PRIMARY KEY)'), "
                "which nothing allows"
            ),
        ),
    ],
)
def test_every_other_change_is_collateral(judge: Judge, sql: str, reason: str) -> None:
    found = judge({"expect": [CANCEL]}, CANCELLED + sql)
    assert found[EXPECTED].passed
    assert (found["frame"].passed, found["frame"].reason) == (False, reason)


def test_a_question_leaves_the_state_alone(judge: Judge) -> None:
    question = {"answer": {"norm": "bo"}}
    assert all(part.passed for part in judge(question, "", "Bo").values())
    assert not judge(question, CANCELLED, "Bo")["frame"].passed


def test_long_collateral_is_cut(judge: Judge) -> None:
    rows = ", ".join(f"('o_17', 'X{n}', 1)" for n in range(9))
    reason = judge({"expect": [CANCEL]}, f"INSERT INTO lines VALUES {rows}")["frame"].reason
    assert reason.endswith("; and 4 more, which nothing allows")


def test_allow_covers_what_it_names_and_no_more(judge: Judge) -> None:
    allow = [
        {"table": "log", "change": "added", "where": {"order_id": "o_17"}},
        {"table": "stock", "set": {"reserved": {"delta": {"ge": -1}}}},
    ]

    def frame(sql: str) -> bool:
        return judge({"expect": [CANCEL], "allow": allow}, CANCELLED + sql)["frame"].passed

    assert frame("INSERT INTO log (what, order_id) VALUES ('x', 'o_17')")
    assert not frame("INSERT INTO log (what, order_id) VALUES ('x', 'o_18')")
    assert frame("UPDATE stock SET reserved = reserved - 1 WHERE sku = 'LT-14'")
    assert not frame("UPDATE stock SET reserved = reserved - 2 WHERE sku = 'LT-14'")
    assert not frame("UPDATE stock SET reserved = 5, on_hand = 0 WHERE sku = 'LT-14'")


def test_schema_changes_may_be_allowed(judge: Judge) -> None:
    allow = [{"table": "$schema", "change": "added", "where": {"name": "extra"}}]
    verifier = {"expect": [CANCEL], "allow": allow}
    assert judge(verifier, CANCELLED + "CREATE TABLE extra (id PRIMARY KEY NOT NULL)")[
        "frame"
    ].passed


def test_forbid_beats_allow_and_expect(judge: Judge) -> None:
    verifier = {
        "expect": [CANCEL],
        "allow": [{"table": "stock"}],
        "forbid": [
            {"table": "stock", "where": {"sku": "MS-02"}},
            {"table": "orders", "set": {"status": "cancelled"}},
        ],
    }
    found = judge(verifier, CANCELLED + "UPDATE stock SET reserved = 2 WHERE sku = 'MS-02'")
    assert found["frame"].passed
    assert found["forbid[0] stock"].reason == (
        "stock MS-02 was changed (reserved: 0 -> 2), which is forbidden"
    )
    assert not found["forbid[1] orders"].passed
    assert found["forbid[0] stock"].weight == GATE_WEIGHT
    untouched = judge(verifier, "UPDATE stock SET reserved = 2 WHERE sku = 'LT-14'")
    assert untouched["forbid[0] stock"].passed
    assert untouched["forbid[1] orders"].passed


def test_changing_more_columns_is_no_way_around_forbid(judge: Judge) -> None:
    verifier = {
        "expect": [CANCEL],
        "forbid": [{"table": "orders", "set": {"status": "cancelled"}}],
    }
    sql = "UPDATE orders SET status = 'cancelled', note = 'x' WHERE id = 'o_18'"
    assert not judge(verifier, sql)["forbid[0] orders"].passed


# --- bound values -----------------------------------------------------------------------------

ORDER = {"table": "orders", "change": "added", "where": {"user_id": "u_1", "id": {"bind": "order"}}}
LINE = {"table": "lines", "change": "added", "where": {"order_id": {"var": "order"}, "sku": "A"}}
LOG = {"table": "log", "change": "added", "where": {"order_id": {"var": "order"}}}


def add_order(name: str, user: str = "u_1") -> str:
    return f"INSERT INTO orders (id, user_id, status) VALUES ('{name}', '{user}', 'new');"


def add_line(order: str) -> str:
    return f"INSERT INTO lines VALUES ('{order}', 'A', 1);"


def test_a_generated_id_is_followed_through_tables(judge: Judge) -> None:
    verifier = {"expect": [ORDER, LINE], "allow": [LOG]}
    good = judge(
        verifier, add_order("o_x") + add_line("o_x") + "INSERT INTO log VALUES (1, 'a', 'o_x')"
    )
    assert all(part.passed for part in good.values())
    wrong = judge(verifier, add_order("o_x") + add_line("o_17"))
    assert wrong["expect[0] orders added"].passed
    assert wrong["expect[1] lines added"].reason == (
        "no row of lines added where order_id is 'o_x' and sku is 'A'; "
        "nearest is lines o_17/A: order_id is 'o_17', expected 'o_x'"
    )
    other = judge(
        verifier, add_order("o_x") + add_line("o_x") + "INSERT INTO log VALUES (1, 'a', 'o_1')"
    )
    assert not other["frame"].passed


def test_the_choice_of_a_bound_value_is_the_one_that_holds(judge: Judge) -> None:
    """The line belongs to the second of two orders that both fit; the first is then collateral."""
    found = judge({"expect": [ORDER, LINE]}, add_order("o_a") + add_order("o_b") + add_line("o_b"))
    assert found["expect[0] orders added"].passed
    assert found["expect[1] lines added"].passed
    assert found["frame"].reason.startswith("orders o_a was added")


def test_a_value_bound_twice_must_be_the_same(judge: Judge) -> None:
    twice = {"table": "log", "change": "added", "where": {"order_id": {"bind": "order"}}}
    verifier = {"expect": [ORDER, twice]}
    assert all(
        part.passed
        for part in judge(
            verifier, add_order("o_x") + "INSERT INTO log VALUES (1, 'a', 'o_x')"
        ).values()
    )
    found = judge(verifier, add_order("o_x") + "INSERT INTO log VALUES (1, 'a', 'o_17')")
    assert sum(part.passed for name, part in found.items() if name.startswith("expect")) == 1


def test_bind_with_conditions_of_its_own(judge: Judge) -> None:
    entry = {"table": "orders", "change": "added", "where": {"id": {"bind": "x", "regex": "^o_"}}}
    assert judge({"expect": [entry]}, add_order("o_x"))["expect[0] orders added"].passed
    assert not judge({"expect": [entry]}, add_order("p_x"))["expect[0] orders added"].passed


def test_many_fitting_rows_do_not_take_for_ever(judge: Judge) -> None:
    rows = "".join(add_order(f"x_{n}") for n in range(200))
    found = judge({"expect": [ORDER, {**ORDER, "where": {"id": {"bind": "y"}}}, LINE]}, rows)
    assert not found["expect[2] lines added"].passed


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        ({"expekt": []}, "verifier: unknown section 'expekt' (did you mean expect?)"),
        ({"expect": {}}, "expect: must be a list"),
        ({"expect": ["x"]}, "expect[0]: must be an object"),
        (
            {"expect": [{"table": "order", "change": "added"}]},
            "expect[0].table: unknown table 'order' (did you mean orders?)",
        ),
        (
            {"expect": [CANCEL, {"table": "users", "change": "added", "wher": {}}]},
            "expect[1]: unknown key 'wher' (did you mean where?)",
        ),
        (
            {"expect": [{**CANCEL, "set": {"staus": "x"}}]},
            "expect[0].set: unknown column of orders: 'staus' (did you mean status or tags?)",
        ),
        (
            {"expect": [{**CANCEL, "also": ["update_at"]}]},
            "expect[0].also: unknown column of orders: 'update_at' (did you mean updated_at?)",
        ),
        (
            {"expect": [{"table": "users", "change": "add"}]},
            "expect[0].change: unknown kind of change 'add' (did you mean added?)",
        ),
        ({"expect": [{"table": "users"}]}, "expect[0]: has no change"),
        ({"expect": [{**CANCEL, "only": 1}]}, "expect[0].only: must be true or false"),
        ({"expect": [{**CANCEL, "where": []}]}, "expect[0].where: must be an object"),
        ({"expect": [{**CANCEL, "count": -1}]}, "expect[0].count: must be a whole number, not -1"),
        ({"expect": [{**CANCEL, "count": 1.5}]}, "expect[0].count: must be a whole number"),
        ({"expect": [{**CANCEL, "weight": 0}]}, "expect[0].weight: must be a number above 0"),
        ({"expect": [CANCEL], "allow": [{**CANCEL, "count": 1}]}, "allow[0]: unknown key 'count'"),
        (
            {"expect": [CANCEL], "forbid": [{"table": "userz"}]},
            "forbid[0].table: unknown table 'userz' (did you mean users?)",
        ),
        (
            {"expect": [{"table": "users", "change": "removed", "set": {"name": "x"}}]},
            "expect[0].set: a removed row has no values afterwards",
        ),
        (
            {"expect": [{**CANCEL, "where": {"total": {"delta": 1}}}]},
            "expect[0].where.total: delta and old compare with the row before",
        ),
        (
            {"expect": [{"table": "users", "change": "added", "set": {"name": {"old": "id"}}}]},
            "expect[0].set.name: delta and old compare with the row before",
        ),
        ({"expect": [LINE]}, "unknown variable 'order' (bind it in an earlier expect entry)"),
        (
            {"expect": [ORDER, {**LINE, "where": {"order_id": {"var": "ordr"}}}]},
            "unknown variable 'ordr' (did you mean order?)",
        ),
        ({"expect": [CANCEL], "allow": [ORDER]}, "allow[0]: bind stands only in expect entries"),
        ({}, "the verifier pays for doing nothing"),
        ({"expect": [{**CANCEL, "count": {"le": 3}}]}, "the verifier pays for doing nothing"),
        ({"forbid": [{"table": "users"}]}, "the verifier pays for doing nothing"),
    ],
)
def test_a_typo_is_refused_with_its_place(verifier: dict[str, Any], message: str) -> None:
    with pytest.raises(PackInvalid) as refused:
        Assertions.parse(verifier, TABLES)
    assert message in str(refused.value)

"""Reading a state: as much as is asked for, and at a cost that the database does not set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apsw
import pytest

from environments.assertions import Assertions, DatabaseState, Evidence, TableInfo
from snapshots import Changeset

TABLES = {
    "items": TableInfo(("id", "kind", "price", "data"), ("id",)),
    "pairs": TableInfo(("a", "b"), ("a", "b")),
    "loose": TableInfo(("_rowid_", "what"), ("_rowid_",)),
    "gone": TableInfo(("id",), ("id",)),
}


def filled(rows: int) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("""
        CREATE TABLE items (id TEXT PRIMARY KEY NOT NULL, kind TEXT, price, data BLOB);
        CREATE INDEX by_kind ON items (kind);
        CREATE TABLE pairs (a INTEGER, b TEXT, PRIMARY KEY (a, b));
        CREATE TABLE loose (what TEXT);
        INSERT INTO pairs VALUES (1, 'x'), (1, 'y');
        INSERT INTO loose VALUES ('first'), ('second');
    """)
    connection.executemany(
        "INSERT INTO items VALUES (?, ?, ?, x'00ff')",
        ((f"i{n}", f"k{n // 2}", n * 0.5) for n in range(rows)),
    )
    return connection


@pytest.fixture
def state() -> Iterator[DatabaseState]:
    connection = filled(10)
    yield DatabaseState(connection, TABLES)
    connection.close()


def test_a_row_by_its_key(state: DatabaseState) -> None:
    data = {"$blob": "AP8="}
    assert state.row("items", {"id": "i3"}) == {
        "id": "i3",
        "kind": "k1",
        "price": 1.5,
        "data": data,
    }
    assert state.row("items", {"id": "i99"}) is None
    assert state.row("pairs", {"a": 1, "b": "y"}) == {"a": 1, "b": "y"}
    assert state.row("loose", {"_rowid_": 2}) == {"_rowid_": 2, "what": "second"}
    assert state.row("items", {}) is None


def test_rows_like_some_values(state: DatabaseState) -> None:
    def ids(**like: str | int) -> list[Any]:
        return [row["id"] for row in state.rows("items", like)]

    assert ids(kind="k1") == ["i2", "i3"]
    assert ids(price=2) == ["i4"]
    assert ids(kind="k1", price=1) == ["i2"]
    assert len(ids()) == 10


def test_numbers_within_the_tolerance_of_matchers_are_not_sifted_out() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE items (id, kind, price, data)")
    connection.execute("INSERT INTO items VALUES ('a', '', 0.1 + 0.2 + 0.7, NULL)")
    state = DatabaseState(connection, TABLES)
    assert [row["id"] for row in state.rows("items", {"price": 1})] == ["a"]
    connection.close()


def test_what_was_dropped_has_no_rows(state: DatabaseState) -> None:
    assert state.row("gone", {"id": 1}) is None
    assert list(state.rows("gone", {})) == []
    assert list(state.rows("never heard of", {})) == []
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE items (id, kind, price); INSERT INTO items VALUES (1, 2, 3)")
    assert list(DatabaseState(connection, TABLES).rows("items", {})) == []
    connection.close()


# --- cost ---------------------------------------------------------------------------------------


def steps(connection: apsw.Connection, work: Callable[[], object]) -> int:
    """How many of its instructions SQLite carries out for ``work``, in tens."""
    count = 0

    def tick() -> bool:
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(tick, 10)
    work()
    connection.set_progress_handler(None)
    return count


def judged(connection: apsw.Connection) -> int:
    """The cost of a verdict on 20 changes."""
    entries = [
        {"key": {"id": f"i{n}"}, "before": {"price": n * 0.5}, "after": {"price": 99}}
        for n in range(20)
    ]
    rows = {"key": ["id"], "added": [], "removed": [], "changed": entries}
    assertions = Assertions.parse(
        {
            "expect": [
                {"table": "items", "where": {"kind": "k3"}, "set": {"price": 99}, "count": 2}
            ],
            "allow": [{"table": "items", "set": {"price": 99}}],
            "state": [
                {"table": "items", "where": {"id": "i7", "kind": "k3"}},
                {"table": "items", "where": {"kind": "k3", "price": {"lt": 0}}, "count": 0},
            ],
        },
        TABLES,
    )
    state = DatabaseState(connection, TABLES)
    evidence = Evidence(Changeset.from_json({"items": rows}), state, state, Changeset())

    def work() -> None:
        assert all(part.passed for part in assertions.evaluate(evidence))

    return steps(connection, work)


def test_a_verdict_costs_the_same_on_a_large_database() -> None:
    small, large = filled(100), filled(20_000)
    assert 0 < judged(large) <= judged(small) + 20
    assert steps(large, lambda: list(DatabaseState(large, TABLES).rows("items", {}))) > 1000
    small.close()
    large.close()

"""The algebra of changesets, and applying them to ordinary databases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots import Branch, Changeset, Workspace
from snapshots.errors import ChangesetConflict, ChangesetInvalid
from snapshots.rows import Row, Value, row_to_json
from tests.snapshots.conftest import contents, run

FIRST = {
    "t": {
        "key": ["id"],
        "added": [{"id": 1, "a": 1, "b": "x"}],
        "removed": [{"id": 2, "a": 2, "b": "y"}],
        "changed": [{"key": {"id": 3}, "before": {"a": 3}, "after": {"a": 4}}],
    }
}


def table(**kinds: object) -> Changeset:
    return Changeset.from_json(
        {"t": {"key": ["id"], "added": [], "removed": [], "changed": [], **kinds}}
    )


def changed(before: object, after: object, **more: object) -> dict[str, object]:
    return {"key": {"id": 3}, "before": {"a": before}, "after": {"a": after}, **more}


# --- algebra ------------------------------------------------------------------------------------


def test_truth_length_and_tables() -> None:
    changes = Changeset.from_json(FIRST)
    assert changes
    assert len(changes) == 3
    assert changes.tables == ("t",)
    assert changes.key_columns("t") == ("id",)
    assert [row.kind for row in changes.rows("t")] == ["added", "removed", "changed"]
    assert list(changes.rows("other")) == []
    assert not Changeset()
    assert not table()


@pytest.mark.parametrize(
    ("first", "later", "net"),
    [
        (table(added=[{"id": 1, "a": 1}]), table(removed=[{"id": 1, "a": 1}]), Changeset()),
        (table(changed=[changed(3, 4)]), table(changed=[changed(4, 3)]), Changeset()),
        (
            table(changed=[changed(3, 4)]),
            table(changed=[changed(4, 3.0)]),
            table(changed=[changed(3, 3.0)]),
        ),
        (
            table(changed=[changed(3, 4)]),
            table(changed=[{"key": {"id": 3}, "before": {"b": 0}, "after": {"b": 1}}]),
            table(
                changed=[{"key": {"id": 3}, "before": {"a": 3, "b": 0}, "after": {"a": 4, "b": 1}}]
            ),
        ),
        (
            table(added=[{"id": 3, "a": 1, "b": 2}]),
            table(changed=[changed(1, 9)]),
            table(added=[{"id": 3, "a": 9, "b": 2}]),
        ),
        (
            table(changed=[changed(1, 9)]),
            table(removed=[{"id": 3, "a": 9, "b": 2}]),
            table(removed=[{"id": 3, "a": 1, "b": 2}]),
        ),
        (
            table(removed=[{"id": 3, "a": 1, "b": 2}]),
            table(added=[{"id": 3, "a": 5, "b": 2}]),
            table(changed=[changed(1, 5)]),
        ),
        (table(removed=[{"id": 3, "a": 1}]), table(added=[{"id": 3, "a": 1}]), Changeset()),
        (
            table(changed=[changed(1, 2, indirect=True)]),
            table(changed=[changed(2, 3)]),
            table(changed=[changed(1, 3)]),
        ),
        (
            table(changed=[changed(1, 2, indirect=True)]),
            table(changed=[changed(2, 3, indirect=True)]),
            table(changed=[changed(1, 3, indirect=True)]),
        ),
    ],
)
def test_two_changes_of_a_row_net_to_one(
    first: Changeset, later: Changeset, net: Changeset
) -> None:
    assert first.concat(later) == net
    assert later.invert().concat(first.invert()) == net.invert()


def test_changes_that_do_not_follow_are_refused_unless_gaps_are_expected() -> None:
    added = table(added=[{"id": 3, "a": 1}])
    again = table(added=[{"id": 3, "a": 2}])
    with pytest.raises(ChangesetInvalid, match="added, then added"):
        added.concat(again)
    assert added.concat(again, gaps=True) == again


def test_invert_twice_is_the_same() -> None:
    changes = Changeset.from_json(FIRST)
    assert changes.invert() != changes
    assert changes.invert().invert() == changes
    assert not changes.concat(changes.invert())


def test_filter_drops_tables_and_columns() -> None:
    changes = Changeset.from_json({**FIRST, "log": FIRST["t"]})
    assert changes.filter(tables={"log"}).tables == ("t",)
    without = changes.filter(columns={"t": ["a", "id"]}).to_json()
    assert without["t"]["added"] == [{"id": 1, "b": "x"}]  # the key stays
    assert without["t"]["changed"] == []
    assert without["log"] == FIRST["t"]


ROWS = st.dictionaries(
    st.sampled_from(["id", "a"]),
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text("ab\0\"'ß雪")
    | st.binary(),
    min_size=2,
)


@given(st.lists(ROWS, max_size=6))
def test_json_gives_the_same_back(found: list[Row]) -> None:
    distinct = {row["id"]: row for row in found}  # 1 and 1.0 are one key, in SQLite too
    changes = table(added=[row_to_json(row) for row in distinct.values()])
    data = changes.to_json()
    again = Changeset.from_json(json.loads(json.dumps(data)))
    assert again.to_json() == data
    assert again == changes


def test_the_order_does_not_depend_on_the_order_of_events() -> None:
    keys: list[Value] = [None, 1.5, 3, "a", "b", b"\x01"]
    for order in (keys, keys[::-1]):
        changes = table(added=[row_to_json({"id": key}) for key in order])
        assert [change.key["id"] for change in changes.rows("t")] == keys


@pytest.mark.parametrize(
    "data",
    [
        {"t": []},
        {"t": {"added": []}},
        {"t": {"key": ["id"], "added": [{"a": 1}], "removed": [], "changed": []}},
        {"t": {"key": ["id"], "added": [{"id": [1]}], "removed": [], "changed": []}},
        {"t": {"key": ["id"], "added": [{"id": {"$blob": "!"}}], "removed": [], "changed": []}},
        {"t": {"key": ["id"], "added": [], "removed": [], "changed": [{"key": {"id": 1}}]}},
        {"$schema": [{"name": 1}]},
    ],
)
def test_what_is_no_changeset_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ChangesetInvalid):
        Changeset.from_json(data)


# --- applying ---------------------------------------------------------------------------------

BUSY = (
    "UPDATE item SET name = 'renamed', picture = x'00ff' WHERE id = 2",  # fires a trigger
    "DELETE FROM item WHERE id IN (4, 7)",  # cascades to sale
    "INSERT INTO item (name, stock) VALUES ('fresh', 3)",
    "UPDATE item SET name = 'swap' WHERE id = 10",
    "UPDATE item SET name = 'item 10' WHERE id = 11",
    "UPDATE item SET name = 'item 11' WHERE id = 10",  # two rows swap a unique value
    "INSERT INTO note VALUES ('new', 1)",
    "DELETE FROM note WHERE stars = 1",
    "UPDATE place SET shelf = 2 WHERE region = 'north'",  # a key changes
    "UPDATE tag SET uses = uses + 1 WHERE name = 'new'",
)


@pytest.mark.parametrize("library", [sqlite3, apsw])
def test_a_changeset_applies_to_a_plain_copy_and_inverted_takes_it_back(
    workspace: Workspace,
    branch: Branch,
    plain: Callable[[Branch], sqlite3.Connection],
    library: object,
) -> None:
    before = contents(plain(branch))
    copy: Any = plain(branch)
    if library is apsw:
        copy = apsw.Connection(copy.execute("PRAGMA database_list").fetchall()[0][2])
    copy.execute("PRAGMA foreign_keys = on").fetchall()
    run(workspace, branch, *BUSY)
    changes = Changeset.from_json(json.loads(json.dumps(branch.changes().to_json())))
    changes.apply(copy)
    assert contents(copy) == contents(plain(branch))
    tags = "SELECT rowid, * FROM tag ORDER BY rowid"
    assert copy.execute(tags).fetchall() == plain(branch).execute(tags).fetchall()
    assert copy.execute("PRAGMA foreign_keys").fetchall() == [(1,)]
    changes.invert().apply(copy)
    assert contents(copy) == before
    copy.close()


def test_a_new_row_takes_no_rowid_that_a_changed_one_has(
    workspace: Workspace, branch: Branch, plain: Callable[[Branch], sqlite3.Connection]
) -> None:
    copy = plain(branch)
    run(workspace, branch, "INSERT INTO tag VALUES ('a', 1)")
    run(workspace, branch, "UPDATE tag SET uses = 9 WHERE name = 'old'")
    branch.changes().apply(copy)
    assert contents(copy) == contents(plain(branch))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ("DELETE FROM tag WHERE name = 'new'", "is not there"),
        ("UPDATE tag SET uses = 50 WHERE name = 'new'", "has uses = 50, not 1"),
        ("UPDATE tag SET uses = 50 WHERE name = 'old'", "has uses = 50, not 2"),
        ("INSERT INTO tag VALUES ('hot', 1)", "is there already"),
        ("DROP TABLE tag", "no such table tag"),
        ("BEGIN", "inside a transaction"),
    ],
)
def test_a_conflict_is_named_and_changes_nothing(
    workspace: Workspace,
    branch: Branch,
    plain: Callable[[Branch], sqlite3.Connection],
    spoil: str,
    problem: str,
) -> None:
    copy = plain(branch)
    copy.execute(spoil)
    before = contents(copy)
    run(
        workspace,
        branch,
        "INSERT INTO note VALUES ('first', 1)",
        "UPDATE tag SET uses = 8 WHERE name = 'new'",
        "DELETE FROM tag WHERE name = 'old'",
        "INSERT INTO tag VALUES ('hot', 3)",
    )
    with pytest.raises(ChangesetConflict, match=problem):
        branch.changes().apply(copy)
    assert contents(copy) == before


def test_a_schema_that_differs_is_a_conflict(
    free_workspace: Workspace, branch: Branch, plain: Callable[[Branch], sqlite3.Connection]
) -> None:
    copy = plain(branch)
    copy.execute("ALTER TABLE tag ADD COLUMN other")
    run(free_workspace, branch, "ALTER TABLE tag ADD COLUMN kind")
    with pytest.raises(ChangesetConflict, match="not what the changes begin with"):
        branch.changes().apply(copy)

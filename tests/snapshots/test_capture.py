"""Row changes: what SQLite's sessions leave out or add is put right."""

from __future__ import annotations

import pytest

from snapshots import Branch, Recipe, SnapshotStore, Workspace
from snapshots.errors import NullInKey
from tests.snapshots.conftest import rows, run


def test_rows_added_removed_and_changed(workspace: Workspace, branch: Branch) -> None:
    changes = run(
        workspace,
        branch,
        "INSERT INTO tag VALUES ('hot', 3)",
        "DELETE FROM tag WHERE name = 'old'",
        "UPDATE tag SET uses = 8 WHERE name = 'new'",
    )
    assert changes == {
        "tag": {
            "key": ["name"],
            "added": [{"name": "hot", "uses": 3}],
            "removed": [{"name": "old", "uses": 2}],
            "changed": [{"key": {"name": "new"}, "before": {"uses": 1}, "after": {"uses": 8}}],
        }
    }


def test_a_statement_prepared_in_an_unrecorded_mount_is_recorded_later(
    workspace: Workspace, branch: Branch
) -> None:
    update = "UPDATE tag SET uses = uses + 1 WHERE name = 'new'"
    with workspace.mount(branch, record=False) as mount:
        mount.connection.execute(update)
    assert not mount.changes
    assert branch.dirty_pages
    for _ in range(2):
        with workspace.mount(branch) as mount:
            mount.connection.execute(update)
        assert len(mount.changes) == 1


def test_a_table_without_a_primary_key_is_keyed_by_rowid(
    workspace: Workspace, branch: Branch
) -> None:
    changes = run(
        workspace,
        branch,
        "UPDATE note SET stars = 4 WHERE rowid = 3",
        "DELETE FROM note WHERE rowid = 2",
        "INSERT INTO note VALUES ('fine', 3)",
    )
    assert changes["note"] == {
        "key": ["_rowid_"],
        "added": [{"_rowid_": 4, "text": "fine", "stars": 3}],
        "removed": [{"_rowid_": 2, "text": "bad", "stars": 1}],
        "changed": [{"key": {"_rowid_": 3}, "before": {"stars": 5}, "after": {"stars": 4}}],
    }


def test_keys_of_several_columns_are_whole(workspace: Workspace, branch: Branch) -> None:
    changes = run(workspace, branch, "UPDATE place SET item = 9 WHERE region = 'south'")
    assert changes["place"]["changed"] == [
        {"key": {"region": "south", "shelf": 1}, "before": {"item": 2}, "after": {"item": 9}}
    ]


def test_generated_columns_do_not_shift_the_others(workspace: Workspace, branch: Branch) -> None:
    changes = run(
        workspace,
        branch,
        "UPDATE item SET stock = 50, picture = x'ff00' WHERE id = 7",
        "INSERT INTO item (id, name, stock, price) VALUES (900, 'last', 1, 1e999)",
    )
    assert changes["item"] == {
        "key": ["id"],
        "added": [
            {"id": 900, "name": "last", "stock": 1, "price": {"$real": "inf"}, "picture": None}
        ],
        "removed": [],
        "changed": [
            {
                "key": {"id": 7},
                "before": {"stock": 0, "picture": {"$blob": "Bw=="}},
                "after": {"stock": 50, "picture": {"$blob": "/wA="}},
            }
        ],
    }


def test_shadow_and_system_tables_are_left_out(workspace: Workspace, branch: Branch) -> None:
    changes = run(
        workspace,
        branch,
        "INSERT INTO words VALUES ('a lamp')",
        "INSERT INTO sale (item) VALUES (2)",  # AUTOINCREMENT writes sqlite_sequence
    )
    assert list(changes) == ["sale"]
    assert rows(workspace, branch, "SELECT count(*) FROM words('lamp')") == [(1,)]


def test_what_triggers_and_cascades_do_is_indirect(workspace: Workspace, branch: Branch) -> None:
    changes = run(
        workspace,
        branch,
        "UPDATE item SET name = 'renamed' WHERE id = 2",
        "DELETE FROM item WHERE id = 4",
        "INSERT INTO audit VALUES (50, 'by hand')",
    )
    assert "indirect" not in changes["item"]
    assert changes["audit"]["indirect"] == {"added": [0]}
    assert [row["id"] for row in changes["audit"]["added"]] == [1, 50]
    assert changes["sale"]["indirect"] == {"removed": [0]}


def test_an_indirectly_changed_row_says_so(store: SnapshotStore) -> None:
    script = """
        CREATE TABLE a (id INTEGER PRIMARY KEY, n INT);
        CREATE TABLE total (id INTEGER PRIMARY KEY, n INT);
        INSERT INTO total VALUES (1, 0);
        CREATE TRIGGER add_up AFTER INSERT ON a BEGIN UPDATE total SET n = n + new.n; END;
    """
    snapshot = store.build(Recipe((script,)))
    workspace = Workspace(snapshot)
    changes = run(workspace, Branch(snapshot), "INSERT INTO a VALUES (1, 5)")
    workspace.close()
    assert changes["total"]["changed"] == [
        {"key": {"id": 1}, "before": {"n": 0}, "after": {"n": 5}, "indirect": True}
    ]


def test_changes_that_cancel_are_none(workspace: Workspace, branch: Branch) -> None:
    changes = run(
        workspace,
        branch,
        "INSERT INTO tag VALUES ('x', 1)",
        "DELETE FROM tag WHERE name = 'x'",
        "UPDATE tag SET uses = 77 WHERE name = 'new'",
        "UPDATE tag SET uses = 1 WHERE name = 'new'",
        "BEGIN",
        "DELETE FROM note",
        "ROLLBACK",
    )
    assert changes == {}


def test_a_type_that_changes_is_a_change(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "INSERT INTO note VALUES (1, 1)")
    changes = run(workspace, branch, "UPDATE note SET stars = '1.5' WHERE rowid = 4")
    (change,) = changes["note"]["changed"]
    assert change["after"] == {"stars": 1.5}


def test_a_null_in_a_key_is_refused_since_it_would_not_be_recorded(
    workspace: Workspace, branch: Branch
) -> None:
    head = branch.head
    with pytest.raises(NullInKey, match="NOT NULL") as caught, workspace.mount(branch) as mount:
        mount.connection.execute("INSERT INTO tag VALUES (NULL, 1)")
    assert caught.value.details["table"] == "tag"
    assert branch.head is head
    run(workspace, branch, "INSERT INTO tag VALUES ('fine', 1)")


def test_a_null_in_a_key_is_refused_where_the_schema_changes_too(
    free_workspace: Workspace, branch: Branch
) -> None:
    body = "CREATE TABLE t (a TEXT PRIMARY KEY)", "INSERT INTO t VALUES (NULL)"
    with pytest.raises(NullInKey):
        run(free_workspace, branch, *body)
    assert branch.dirty_pages == 0

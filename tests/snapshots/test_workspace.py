"""One connection, many branches: nothing may pass from one to another."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from snapshots import PAGE_SIZE, Branch, Changeset, Recipe, Snapshot, SnapshotStore, Workspace
from snapshots.errors import (
    AlreadyMounted,
    BranchMoved,
    NotMounted,
    ReadOnlyViolated,
    SnapshotMismatch,
    StatementForbidden,
    UncleanMount,
    WorkspaceBroken,
)
from tests.snapshots.conftest import Raised, contents, rows, run, run_and_raise, shop

STOCK = "SELECT stock FROM item WHERE id = 1"
ALL = "SELECT count(*) FROM item"


# --- siblings ---------------------------------------------------------------------------------


def test_siblings_with_the_same_file_version_do_not_read_each_other(
    workspace: Workspace, branch: Branch
) -> None:
    other = branch.fork()
    run(workspace, branch, "UPDATE item SET stock = 100 WHERE id = 1")
    run(workspace, other, "UPDATE item SET stock = 200 WHERE id = 1")
    # Both wrote once: the 16 bytes by which SQLite knows a stale cache are the same.
    assert branch.head.pages[0][24:40] == other.head.pages[0][24:40]
    for _ in range(3):
        assert rows(workspace, branch, STOCK) == [(100,)]
        assert rows(workspace, other, STOCK) == [(200,)]


def test_a_mount_that_reads_nothing_does_not_pass_the_cache_on(
    workspace: Workspace, branch: Branch
) -> None:
    other = branch.fork()
    run(workspace, branch, "UPDATE item SET stock = 100 WHERE id = 1")
    run(workspace, other, "UPDATE item SET stock = 200 WHERE id = 1")
    with workspace.mount(branch):
        pass
    assert rows(workspace, branch, STOCK) == [(100,)]


def test_after_a_failed_body_the_same_branch_reads_its_old_rows(
    workspace: Workspace, branch: Branch
) -> None:
    assert rows(workspace, branch, STOCK) == [(1,)]
    with pytest.raises(Raised):
        run_and_raise(workspace, branch, "UPDATE item SET stock = 9 WHERE id = 1", STOCK)
    assert rows(workspace, branch, STOCK) == [(1,)]


def test_full_text_indexes_follow_their_branch(workspace: Workspace, branch: Branch) -> None:
    found = "SELECT body FROM words WHERE words MATCH 'lamp'"
    other = branch.fork()
    run(workspace, branch, "INSERT INTO words VALUES ('a lamp here')")
    assert rows(workspace, other, found) == []
    run(workspace, other, "INSERT INTO words VALUES ('another lamp there')")
    assert rows(workspace, branch, found) == [("a lamp here",)]
    assert rows(workspace, other, found) == [("another lamp there",)]


def test_ten_thousand_interleaved_calls_never_mix_rows(
    workspace: Workspace, branch: Branch
) -> None:
    branches = [branch.fork() for _ in range(8)]
    counts = [0] * len(branches)
    for call in range(10_000):
        index = (call * 5 + call // 7) % len(branches)
        with workspace.mount(branches[index]) as mount:
            if call % 3:
                mount.connection.execute("UPDATE tag SET uses = uses + 1 WHERE name = 'new'")
                counts[index] += 1
            got = mount.connection.execute("SELECT uses FROM tag WHERE name = 'new'").fetchall()
        assert got == [(1 + counts[index],)]


# --- a body's end -----------------------------------------------------------------------------


def test_a_body_that_commits_twice_and_raises_leaves_the_branch_as_it_was(
    workspace: Workspace, branch: Branch
) -> None:
    head = branch.head
    with pytest.raises(Raised):
        run_and_raise(workspace, branch, *["BEGIN; DELETE FROM sale WHERE id < 9; COMMIT"] * 2)
    assert branch.head is head
    assert not branch.entries()
    assert not workspace.broken
    assert rows(workspace, branch, "SELECT count(*) FROM sale") == [(20,)]


def test_keep_on_error_keeps_what_was_committed(workspace: Workspace, branch: Branch) -> None:
    body = "DELETE FROM note WHERE stars = 1", "BEGIN; DELETE FROM tag"
    with pytest.raises(Raised):
        run_and_raise(workspace, branch, *body, keep=True)
    assert [change.before for change in branch.changes().rows("note")] == [
        {"_rowid_": 2, "text": "bad", "stars": 1}
    ]
    assert rows(workspace, branch, "SELECT count(*) FROM note") == [(2,)]
    assert rows(workspace, branch, "SELECT count(*) FROM tag") == [(2,)]
    assert not workspace.broken


def test_keep_on_error_keeps_nothing_when_the_process_is_told_to_stop(
    workspace: Workspace, branch: Branch
) -> None:
    head = branch.head
    with pytest.raises(KeyboardInterrupt):
        run_and_raise(workspace, branch, "DELETE FROM note", keep=True, error=KeyboardInterrupt)
    assert branch.head is head


def test_delta_and_changes_tell_what_the_branch_took(workspace: Workspace, branch: Branch) -> None:
    before = branch.fork()
    with workspace.mount(branch, label="event") as mount:
        mount.connection.execute("UPDATE tag SET uses = 5 WHERE name = 'new'")
    assert mount.delta.pages
    assert mount.delta.size_bytes == branch.head.size_bytes
    before.commit(mount.delta, [("event", mount.changes)])
    assert before.head.pages == branch.head.pages
    assert before.entries() == branch.entries() == [("event", mount.changes)]


def test_a_read_only_mount_that_writes_is_refused(workspace: Workspace, branch: Branch) -> None:
    head = branch.head
    with pytest.raises(ReadOnlyViolated), workspace.mount(branch, read_only=True) as mount:
        mount.connection.execute("DELETE FROM note")
    assert branch.head is head
    assert rows(workspace, branch, "SELECT count(*) FROM note") == [(3,)]


def test_a_write_that_is_rolled_back_is_no_write(workspace: Workspace, branch: Branch) -> None:
    with workspace.mount(branch, read_only=True) as mount:
        mount.connection.execute("BEGIN; DELETE FROM note; ROLLBACK").fetchall()
    assert branch.dirty_pages == 0


# --- what must not leak -------------------------------------------------------------------------


@pytest.mark.parametrize("begin", ["BEGIN", "SAVEPOINT here"])
def test_an_open_transaction_breaks_the_workspace_and_reaches_no_branch(
    workspace: Workspace, branch: Branch, begin: str
) -> None:
    head = branch.head
    with pytest.raises(UncleanMount, match="open transaction"), workspace.mount(branch) as mount:
        mount.connection.execute(f"{begin}; DELETE FROM note").fetchall()
    assert branch.head is head
    assert workspace.broken
    with pytest.raises(WorkspaceBroken), workspace.mount(branch.fork()):
        pass


def test_an_exception_in_a_transaction_is_an_ordinary_end(
    workspace: Workspace, branch: Branch
) -> None:
    with pytest.raises(Raised):
        run_and_raise(workspace, branch, "BEGIN; DELETE FROM note")
    assert not workspace.broken
    assert rows(workspace, branch, "SELECT count(*) FROM note") == [(3,)]


def test_a_half_read_cursor_ends_with_its_mount(workspace: Workspace, branch: Branch) -> None:
    other = branch.fork()
    run(workspace, other, "DELETE FROM item WHERE id > 1")
    with workspace.mount(branch) as mount:
        cursor = mount.connection.execute("SELECT id FROM item ORDER BY id")
        assert cursor.fetchone() == (1,)
    with workspace.mount(other) as mount:
        with pytest.raises(apsw.CursorClosedError):
            cursor.fetchone()
        assert mount.connection.execute(ALL).fetchall() == [(1,)]


def test_a_half_read_cursor_held_by_a_traceback_does_not_break_the_workspace(
    workspace: Workspace, branch: Branch
) -> None:
    def body(connection: apsw.Connection) -> None:
        cursor = connection.execute("SELECT id FROM item")
        for _ in cursor:
            raise Raised

    with pytest.raises(Raised) as caught, workspace.mount(branch) as mount:
        body(mount.connection)
    assert caught.value.__traceback__
    assert not workspace.broken
    assert rows(workspace, branch, ALL) == [(60,)]


def test_an_insert_whose_answer_is_read_half_counts(workspace: Workspace, branch: Branch) -> None:
    with workspace.mount(branch) as mount:
        cursor = mount.connection.execute(
            "INSERT INTO tag VALUES ('x', 1), ('y', 2) RETURNING name"
        )
        assert cursor.fetchone() == ("x",)
    assert len(mount.changes) == 2
    assert rows(workspace, branch, "SELECT count(*) FROM tag") == [(4,)]


def test_an_open_blob_breaks_the_workspace(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "INSERT INTO audit VALUES (1, 'x')")
    with pytest.raises(UncleanMount, match="blob"), workspace.mount(branch) as mount:
        blob = mount.connection.blob_open("main", "audit", "what", 1, False)
    assert workspace.broken
    blob.close()


def test_the_connection_of_an_ended_mount_reads_nothing(
    workspace: Workspace, branch: Branch
) -> None:
    with workspace.mount(branch) as mount:
        pass
    with pytest.raises(NotMounted):
        mount.connection.execute(ALL).fetchall()


@pytest.mark.parametrize(
    "leak",
    [
        "CREATE TEMP TABLE leak (a)",
        "CREATE TABLE temp.leak (a)",
        "CREATE TEMP TRIGGER leak AFTER INSERT ON note BEGIN DELETE FROM tag; END",
        "CREATE TEMP VIEW leak AS SELECT 1",
        "CREATE VIRTUAL TABLE temp.leak USING fts5 (a)",
        "PRAGMA locking_mode = exclusive",
        "PRAGMA query_only = on",
        "PRAGMA reverse_unordered_selects = on",
        "PRAGMA defer_foreign_keys = on",
        "PRAGMA case_sensitive_like = on",
        "PRAGMA recursive_triggers = off",
        "PRAGMA cache_size = 1",
    ],
)
def test_settings_and_temporary_objects_cannot_be_left_behind(
    free_workspace: Workspace, branch: Branch, leak: str
) -> None:
    with free_workspace.mount(branch) as mount:
        with pytest.raises(StatementForbidden) as caught:
            mount.connection.execute(leak).fetchall()
        assert caught.value.details["what"]
    assert not free_workspace.broken
    with free_workspace.mount(branch) as mount:
        mount.connection.execute("INSERT INTO note VALUES ('after', 2)")
        assert mount.connection.execute("SELECT rowid FROM note").fetchall() == [
            (1,), (2,), (3,), (4,),
        ]  # fmt: skip
        assert mount.connection.execute("SELECT name FROM temp.sqlite_schema").fetchall() == []


def test_counts_of_another_mount_do_not_show(workspace: Workspace, branch: Branch) -> None:
    counts = "SELECT last_insert_rowid(), changes(), total_changes()"
    run(workspace, branch.fork(), "INSERT INTO note VALUES ('x', 1), ('y', 1)")
    with workspace.mount(branch) as mount:
        assert mount.connection.execute(counts).fetchall() == [(0, 0, 0)]
        mount.connection.execute("UPDATE note SET stars = 2 WHERE stars = 5")
        assert mount.connection.execute(counts).fetchall() == [(0, 2, 2)]
        mount.connection.execute("INSERT INTO note VALUES ('x', 1)")
        assert mount.connection.execute(counts).fetchall() == [(4, 1, 3)]


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c.create_scalar_function("f", lambda: 1),
        lambda c: c.set_authorizer(None),
        lambda c: setattr(c, "authorizer", None),
        lambda c: setattr(c, "row_trace", lambda *_: None),
        lambda c: c.set_update_hook(lambda *_: None),
        lambda c: c.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0),
        lambda c: c.limit(apsw.SQLITE_LIMIT_LENGTH, 10),
        lambda c: c.load_extension("x"),
        lambda c: c.deserialize("main", b""),
        lambda c: c.close(),
    ],
)
def test_the_connection_keeps_its_settings(
    workspace: Workspace, branch: Branch, use: Callable[[Any], object]
) -> None:
    with workspace.mount(branch) as mount, pytest.raises(StatementForbidden):
        use(mount.connection)
    assert rows(workspace, branch, ALL) == [(60,)]


# --- changes of the schema ------------------------------------------------------------------------


def test_siblings_that_created_different_tables_keep_them_apart(
    free_workspace: Workspace, branch: Branch
) -> None:
    workspace, other = free_workspace, branch.fork()
    run(workspace, branch, "CREATE TABLE mine (a)", "INSERT INTO mine VALUES ('mine')")
    run(workspace, other, "CREATE TABLE yours (a)", "INSERT INTO yours VALUES ('yours')")
    assert branch.head.pages[0][40:44] == other.head.pages[0][40:44]  # the same schema cookie
    for _ in range(2):
        assert rows(workspace, branch, "SELECT * FROM mine") == [("mine",)]
        assert rows(workspace, other, "SELECT * FROM yours") == [("yours",)]
        with pytest.raises(apsw.SQLError, match="no such table"):
            rows(workspace, branch, "SELECT * FROM yours")


def test_a_rewind_to_a_mark_with_the_same_cookie_finds_its_own_schema(
    free_workspace: Workspace, branch: Branch
) -> None:
    workspace, start = free_workspace, branch.mark()
    run(workspace, branch, "CREATE TABLE first (a)", "INSERT INTO first VALUES (1)")
    first = branch.mark()
    branch.rewind(start)
    run(workspace, branch, "CREATE TABLE second (b)", "INSERT INTO second VALUES (2)")
    branch.rewind(first)
    assert rows(workspace, branch, "SELECT a FROM first") == [(1,)]
    branch.reset()
    with pytest.raises(apsw.SQLError, match="no such table"):
        rows(workspace, branch, "SELECT * FROM first")


def test_a_failed_body_takes_its_tables_along(free_workspace: Workspace, branch: Branch) -> None:
    with pytest.raises(Raised):
        run_and_raise(free_workspace, branch, "CREATE TABLE gone (a)")
    with pytest.raises(apsw.SQLError, match="no such table"):
        rows(free_workspace, branch, "SELECT * FROM gone")
    run(free_workspace, branch, "CREATE TABLE gone (b)")


def test_schema_changes_are_changes_of_a_kind_of_their_own(
    free_workspace: Workspace, branch: Branch
) -> None:
    changes = run(
        free_workspace,
        branch,
        "UPDATE tag SET uses = 9",  # a session would fail on this,
        "ALTER TABLE tag ADD COLUMN kind TEXT DEFAULT 'plain'",  # followed by this
        "UPDATE tag SET kind = 'odd' WHERE name = 'old'",
        "CREATE TABLE colour (name TEXT PRIMARY KEY NOT NULL)",
        "INSERT INTO colour VALUES ('red')",
        "DELETE FROM note",
        "DROP TABLE note",
        "CREATE INDEX tag_by_use ON tag (uses)",
    )
    schema = changes.pop("$schema")
    assert [(c["type"], c["name"], bool(c["before"]), bool(c["after"])) for c in schema] == [
        ("index", "tag_by_use", False, True),
        ("table", "colour", False, True),
        ("table", "note", True, False),
        ("table", "tag", True, True),
    ]
    assert list(changes) == ["colour", "note", "tag"]
    assert len(changes["note"]["removed"]) == 3
    assert changes["tag"]["changed"] == [
        {"key": {"name": "new"}, "before": {"uses": 1}, "after": {"kind": "plain", "uses": 9}},
        {"key": {"name": "old"}, "before": {"uses": 2}, "after": {"kind": "odd", "uses": 9}},
    ]


@pytest.mark.parametrize(
    "statements",
    [
        ("UPDATE tag SET uses = 9", "DROP TABLE tag"),
        ("UPDATE tag SET uses = 9", "ALTER TABLE tag RENAME TO label"),
        ("UPDATE tag SET uses = 9", "ALTER TABLE tag RENAME COLUMN uses TO used"),
        ("UPDATE item SET stock = 9 WHERE id = 3", "ALTER TABLE item DROP COLUMN price"),
        ("CREATE TABLE t (a)", "DROP TABLE t", "UPDATE tag SET uses = 9"),
        ("BEGIN", "UPDATE tag SET uses = 9", "ALTER TABLE tag ADD COLUMN b", "ROLLBACK"),
        ("ALTER TABLE tag ADD COLUMN b INT NOT NULL DEFAULT 7", "INSERT INTO tag VALUES ('z',1,2)"),
        ("CREATE VIRTUAL TABLE more USING fts5 (x)", "INSERT INTO more VALUES ('hello')"),
        ("DROP TRIGGER item_renamed", "UPDATE item SET name = 'x' WHERE id = 1"),
        ("CREATE VIEW stars AS SELECT stars FROM note", "DELETE FROM note WHERE stars = 1"),
    ],
)
def test_changes_with_their_schema_apply_to_a_plain_copy(
    free_workspace: Workspace,
    branch: Branch,
    plain: Callable[[Branch], sqlite3.Connection],
    statements: tuple[str, ...],
) -> None:
    copy = plain(branch)
    run(free_workspace, branch, *statements)
    branch.changes().apply(copy)
    expected, got = contents(plain(branch)), contents(copy)
    for name in ("more", "words"):  # what a full-text index holds is not among the changes
        for found in (expected, got):
            found.pop(f"{name}_content", None)
    assert got == expected
    assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(
    "mounts",
    [
        ("INSERT INTO tag VALUES ('a', 1)", "ALTER TABLE tag RENAME COLUMN uses TO used"),
        ("UPDATE tag SET uses = 7", "ALTER TABLE tag DROP COLUMN uses"),
        (
            "INSERT INTO tag VALUES ('a', 1)",
            "ALTER TABLE tag RENAME COLUMN uses TO used",
            "ALTER TABLE tag RENAME COLUMN used TO uses",
        ),
        ("DELETE FROM tag WHERE name = 'old'", "ALTER TABLE tag DROP COLUMN uses"),
        ("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2)", "ALTER TABLE t DROP COLUMN a"),
        ("INSERT INTO tag VALUES ('a', 1)", "ALTER TABLE tag ADD COLUMN kind DEFAULT 'plain'"),
        ("INSERT INTO note VALUES ('x', 1)", "DROP TABLE note", "CREATE TABLE note (text)"),
        ("ALTER TABLE tag ADD COLUMN kind DEFAULT 'plain'", "UPDATE tag SET kind = 'odd'"),
        (
            "ALTER TABLE tag ADD COLUMN kind DEFAULT 'plain'",
            "UPDATE tag SET kind = 'odd'",
            "DELETE FROM tag WHERE name = 'old'",
            "INSERT INTO tag VALUES ('old', 2, 'new')",
        ),
        (
            "ALTER TABLE tag ADD COLUMN kind DEFAULT 'plain'",
            "DELETE FROM tag",
            "ALTER TABLE tag DROP COLUMN kind",
        ),
    ],
)
def test_changes_before_and_after_an_alteration_net(
    free_workspace: Workspace,
    branch: Branch,
    plain: Callable[[Branch], sqlite3.Connection],
    mounts: tuple[str, ...],
) -> None:
    copy = plain(branch)
    for body in mounts:
        run(free_workspace, branch, body)
    Changeset.from_json(branch.changes().to_json()).apply(copy)
    assert contents(copy) == contents(plain(branch))


def test_vacuum_shows_no_page_beyond_the_end(
    store: SnapshotStore, plain: Callable[[Branch], sqlite3.Connection]
) -> None:
    snapshot = store.build(shop(3000))
    workspace, branch = Workspace(snapshot, allow_ddl=True), Branch(snapshot)
    grow = [f"INSERT INTO note VALUES (hex(zeroblob(9000)), {n})" for n in range(40)]
    run(workspace, branch, *grow)
    assert branch.head.size_bytes > snapshot.size_bytes
    run(workspace, branch, "DELETE FROM note", "DELETE FROM item", "VACUUM")
    small = branch.head
    assert small.size_bytes < snapshot.size_bytes / 2
    assert max(small.pages) < small.size_bytes // PAGE_SIZE
    assert small.base_pages == small.size_bytes // PAGE_SIZE
    run(workspace, branch, *grow)
    assert branch.head.size_bytes > small.size_bytes
    assert branch.head.base_pages == small.base_pages
    assert rows(workspace, branch, "PRAGMA integrity_check") == [("ok",)]
    copy = plain(branch)
    assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert copy.execute("SELECT count(*) FROM note").fetchall() == [(40,)]
    workspace.close()


# --- clock and randomness -------------------------------------------------------------------------


def test_now_is_the_mounts_clock(workspace: Workspace, branch: Branch) -> None:
    with workspace.mount(branch, clock_ms=1_000_000_000_123) as mount:
        now = mount.connection.execute(
            "SELECT CURRENT_TIMESTAMP, strftime('%f', 'now'), unixepoch()"
        ).fetchall()
        mount.connection.execute("INSERT INTO sale (item) VALUES (1)")
    assert now == [("2001-09-09 01:46:40", "40.123", 1_000_000_000)]
    (sale,) = mount.changes.rows("sale")
    assert sale.after is not None
    assert sale.after["sold_at"] == "2001-09-09 01:46:40"


def test_two_workspaces_have_clocks_of_their_own(workspace: Workspace, snapshot: Snapshot) -> None:
    other = Workspace(snapshot)
    with (
        workspace.mount(Branch(snapshot), clock_ms=1000) as one,
        other.mount(Branch(snapshot), clock_ms=2000) as two,
    ):
        assert one.connection.execute("SELECT unixepoch()").fetchall() == [(1,)]
        assert two.connection.execute("SELECT unixepoch()").fetchall() == [(2,)]
    other.close()


def test_random_draws_come_from_the_seed(workspace: Workspace, branch: Branch) -> None:
    def draws(seed: int) -> list[tuple[object, ...]]:
        with workspace.mount(branch, seed=seed) as mount:
            return mount.connection.execute(
                "SELECT random(), hex(randomblob(8)), length(randomblob(0)) FROM tag"
            ).fetchall()

    first = draws(1)
    assert draws(2) != first
    assert draws(1) == first
    assert first[0] != first[1]  # once a row, not once a statement
    assert first[0][2] == 1


def test_a_default_may_use_random(store: SnapshotStore) -> None:
    recipe = Recipe(("CREATE TABLE t (id INTEGER PRIMARY KEY, r INT DEFAULT (random()));",))
    snapshot = store.build(recipe)
    workspace, branches = Workspace(snapshot), [Branch(snapshot), Branch(snapshot)]
    for branch in branches:
        with workspace.mount(branch, seed=7) as mount:
            mount.connection.execute("INSERT INTO t (id) VALUES (1)")
    assert branches[0].changes() == branches[1].changes()
    workspace.close()


# --- out of order -----------------------------------------------------------------------------


def test_misuse_is_refused(workspace: Workspace, branch: Branch, store: SnapshotStore) -> None:
    foreign = Branch(store.build(Recipe(("CREATE TABLE t (a);",))))
    with pytest.raises(SnapshotMismatch), workspace.mount(foreign):
        pass
    with workspace.mount(branch), pytest.raises(AlreadyMounted), workspace.mount(branch.fork()):
        pass
    mount = workspace.mount(branch)
    mount.__enter__()
    mount.connection.execute("DELETE FROM note")
    branch.reset()
    with pytest.raises(BranchMoved):
        mount.__exit__(None, None, None)
    assert branch.dirty_pages == 0
    workspace.close()
    workspace.close()
    with pytest.raises(WorkspaceBroken), workspace.mount(branch):
        pass


def test_pages_that_are_no_database_break_the_workspace(
    free_workspace: Workspace, branch: Branch
) -> None:
    run(free_workspace, branch, "CREATE TABLE t (a)")
    head = branch.head
    root = max(head.pages)
    broken = {**head.pages, 0: head.pages[0][:100] + b"\xff" * 3996, root: b"\x77" * 4096}
    forged = Branch(branch.snapshot, type(head)(broken, head.size_bytes, head.base_pages))
    other = Workspace(branch.snapshot, allow_ddl=True)
    with pytest.raises(apsw.CorruptError), other.mount(forged):
        pass
    assert other.broken
    other.close()

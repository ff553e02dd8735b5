"""The hook tells what a session tells, and what a comparison of the two states finds.

``pytest tests/snapshots --hypothesis-profile evidence`` searches longer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from snapshots import Branch, Changeset, Recipe, Snapshot, SnapshotStore, Workspace
from snapshots import workspace as workspace_module
from snapshots.capture import compare
from snapshots.errors import NullInKey
from snapshots.recording import HookRecorder, Misreported, SessionRecorder, recorder
from snapshots.shapes import read_shapes
from tests.snapshots.conftest import run

SCRIPT = """
CREATE TABLE parent (id INTEGER PRIMARY KEY, n REAL, word TEXT UNIQUE, photo BLOB);
CREATE TABLE child (id INTEGER PRIMARY KEY, of INTEGER
                    REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE, v);
CREATE TABLE orphan (k TEXT PRIMARY KEY NOT NULL, of INTEGER
                     REFERENCES parent (id) ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE fold (k TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, v) WITHOUT ROWID;
CREATE TABLE pair (a NOT NULL, sum AS (typeof(v) || b) STORED, b TEXT NOT NULL, v,
                   PRIMARY KEY (b, a));
CREATE TABLE wide (a TEXT NOT NULL, twice AS (v * 2) STORED, b REAL NOT NULL, v,
                   PRIMARY KEY (b DESC, a)) WITHOUT ROWID;
CREATE TABLE loose (v, w REAL);
CREATE TABLE copy (v, w REAL);
CREATE TABLE real_key (k REAL PRIMARY KEY NOT NULL, v REAL);
CREATE TABLE falling (k INTEGER PRIMARY KEY DESC NOT NULL, v);
CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, what, times DEFAULT 1);
CREATE VIRTUAL TABLE words USING fts5 (body);
CREATE TRIGGER parent_new AFTER INSERT ON parent BEGIN
  INSERT INTO log (what) VALUES (new.word);
  INSERT INTO words VALUES (new.word);
  UPDATE log SET times = times + 1 WHERE what = new.word;
END;
CREATE TRIGGER loose_gone BEFORE DELETE ON loose BEGIN
  INSERT OR REPLACE INTO fold VALUES (coalesce(old.v, ''), 'gone');
END;
CREATE TRIGGER no_thirteen BEFORE UPDATE ON child WHEN new.v = 9
  BEGIN SELECT raise(ROLLBACK, 'nine'); END;
INSERT INTO parent VALUES (1, 1, 'a', x'0102'), (2, 2.5, 'b', x'0304'), (3, NULL, 'c', NULL);
INSERT INTO child VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3);
INSERT INTO orphan VALUES ('a', 1), ('b', 2);
INSERT INTO fold VALUES ('a', 1), ('b', 2);
INSERT INTO pair (a, b, v) VALUES (1, 'a', 1), (2.5, 'b', 2), ('x', 'b', 3);
INSERT INTO wide (a, b, v) VALUES ('a', 1, 1), ('b', 2.5, 2);
INSERT INTO loose VALUES ('a', 1), ('b', 2), (NULL, NULL);
INSERT INTO copy VALUES ('c', 3);
INSERT INTO real_key VALUES (1, 1), (2.5, 2);
INSERT INTO falling VALUES (1, 1), (2, 2);
"""

Statement = tuple[str, tuple[object, ...]]

SMALL = st.integers(1, 5)
TEXT = st.sampled_from(["a", "A", "b", "c", "d", ""])
ANY = st.one_of(SMALL, TEXT, st.sampled_from([None, 1.0, 2.5, 9, b"\0\xff"]))
OR = st.sampled_from(["", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", "OR ROLLBACK"])


def sql(text: str, *values: st.SearchStrategy[object]) -> st.SearchStrategy[Statement]:
    return OR.flatmap(lambda clause: st.tuples(st.just(text.format(clause)), st.tuples(*values)))


STATEMENTS = st.one_of(
    sql("INSERT {} INTO parent VALUES (?, ?, ?, ?)", SMALL, ANY, TEXT, ANY),
    sql("UPDATE {} parent SET id = ? WHERE id = ?", SMALL, SMALL),
    sql("UPDATE {} parent SET id = id + 1"),
    sql("UPDATE {} parent SET word = ?, n = n + 1 WHERE id <= ?", TEXT, SMALL),
    sql("DELETE FROM parent WHERE id = ?", SMALL),
    sql("DELETE FROM parent"),
    sql("INSERT {} INTO child VALUES (?, ?, ?)", SMALL, SMALL, ANY),
    sql("UPDATE {} child SET v = ?, id = id % 3", ANY),
    sql("INSERT {} INTO orphan VALUES (?, ?), (?, 1)", TEXT, SMALL, TEXT),
    sql("UPDATE {} orphan SET k = ? WHERE k <= ?", TEXT, TEXT),
    sql("INSERT {} INTO fold VALUES (?, ?)", TEXT, ANY),
    sql("UPDATE {} fold SET k = ? WHERE k = ?", TEXT, TEXT),
    sql("UPDATE fold SET v = ?", ANY),
    sql("DELETE FROM fold"),
    sql("INSERT {} INTO pair (a, b, v) VALUES (?, ?, ?)", ANY, TEXT, ANY),
    sql("UPDATE {} pair SET a = ?, v = ? WHERE b = ?", ANY, ANY, TEXT),
    sql("INSERT INTO wide (a, b, v) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET v = 7",
        TEXT, SMALL, ANY),
    sql("UPDATE {} wide SET b = ?, v = ? WHERE a = ?", SMALL, ANY, TEXT),
    sql("DELETE FROM wide WHERE b = ?", SMALL),
    sql("INSERT INTO loose VALUES (?, ?)", ANY, ANY),
    sql("UPDATE {} loose SET rowid = ? WHERE rowid = ?", SMALL, SMALL),
    sql("UPDATE loose SET v = ?, w = ? WHERE rowid = ?", ANY, ANY, SMALL),
    sql("DELETE FROM loose WHERE rowid = ?", SMALL),
    sql("DELETE FROM copy"),
    sql("INSERT {} INTO copy SELECT * FROM loose"),
    sql("INSERT {} INTO copy SELECT v, w + 1 FROM copy"),
    sql("INSERT {} INTO real_key VALUES (?, ?)", SMALL, ANY),
    sql("UPDATE {} real_key SET k = ?, v = v * 2 WHERE k = ?", SMALL, SMALL),
    sql("INSERT {} INTO falling VALUES (?, ?)", SMALL, ANY),
    sql("UPDATE {} falling SET k = k + ?", SMALL),
    sql("DELETE FROM falling WHERE k = ?", SMALL),
    sql("UPDATE log SET times = ?", SMALL),
    sql("BEGIN"), sql("COMMIT"), sql("ROLLBACK"),
    sql("SAVEPOINT s"), sql("RELEASE s"), sql("ROLLBACK TO s"),
    st.tuples(st.just("blob"), st.tuples(st.integers(1, 3))),
)  # fmt: skip


class Unsure(SessionRecorder):
    """A session that says whether its mount had to be compared."""

    misreported = False

    def changes(self) -> Changeset:
        self.misreported = True
        found = super().changes()
        self.misreported = False
        return found


def session_recorder(connection: apsw.Connection) -> Unsure:
    return Unsure(connection, read_shapes(connection))


@contextmanager
def opened(snapshot: Snapshot, *, by_session: bool = False) -> Iterator[Workspace]:
    with pytest.MonkeyPatch.context() as patch:
        if by_session:
            patch.setattr(workspace_module, "recorder", session_recorder)
        workspace = Workspace(snapshot)
    with closing(workspace):
        yield workspace


def play(connection: apsw.Connection, statements: Sequence[Statement]) -> None:
    for text, values in statements:
        with suppress(apsw.Error):
            if text == "blob":
                with connection.blob_open("main", "parent", "photo", values[0], True) as blob:  # type: ignore[arg-type]
                    blob.write(b"\xaa")
            else:
                connection.execute(text, values).fetchall()
    if not connection.get_autocommit():
        connection.execute("COMMIT")


def without_flags(changes: Changeset) -> dict[str, Any]:
    tables = changes.to_json()
    for table in tables.values():
        table.pop("indirect", None)
        for change in table["changed"]:
            change.pop("indirect", None)
    return tables


@pytest.fixture(scope="module")
def assorted(store: SnapshotStore) -> Snapshot:
    return store.build(Recipe((SCRIPT,)))


@pytest.fixture(scope="module")
def by_hook(assorted: Snapshot) -> Iterator[Workspace]:
    with opened(assorted) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def by_session(assorted: Snapshot) -> Iterator[Workspace]:
    with opened(assorted, by_session=True) as workspace:
        yield workspace


DEEP = settings.get_current_profile_name() == "evidence"


@settings(
    max_examples=2000 if DEEP else 150,
    deadline=None,
    derandomize=not DEEP,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(bodies=st.lists(st.lists(STATEMENTS, min_size=1, max_size=8), min_size=1, max_size=3))
@example(bodies=[[("DELETE FROM copy", ()), ("INSERT INTO copy SELECT * FROM loose", ())]])
@example(bodies=[[("blob", (1,)), ("UPDATE parent SET id = 4 WHERE id = 1", ())]])
def test_hook_session_and_comparison_agree(
    by_hook: Workspace,
    by_session: Workspace,
    tmp_path: Path,
    bodies: list[list[Statement]],
) -> None:
    hooked, recorded = Branch(by_hook.snapshot), Branch(by_session.snapshot)
    for body in bodies:
        before = hooked.fork()
        with by_hook.mount(hooked) as mount:
            play(mount.connection, body)
        with by_session.mount(recorded) as other:
            play(other.connection, body)
        assert without_flags(mount.changes) == without_flags(compared(tmp_path, before, hooked))
        if not by_session._recorder.misreported:  # type: ignore[attr-defined]
            assert mount.changes == other.changes


def compared(folder: Path, before: Branch, after: Branch) -> Changeset:
    before.flatten(folder / "before")
    after.flatten(folder / "after")
    with (
        closing(sqlite3.connect(folder / "before")) as old,
        closing(sqlite3.connect(folder / "after")) as new,
    ):
        return compare(old, new)


def test_the_recorder_goes_by_whether_there_are_virtual_columns(store: SnapshotStore) -> None:
    kinds = []
    for kind in ("STORED", "VIRTUAL"):
        script = f"CREATE TABLE t (id INTEGER PRIMARY KEY, a AS (id + 1) {kind}, b)"
        snapshot = store.build(Recipe((script,)))
        with opened(snapshot) as workspace:
            run(workspace, Branch(snapshot), "INSERT INTO t (id, b) VALUES (1, 2)")
            kinds.append(type(workspace._recorder))
    assert kinds == [HookRecorder, SessionRecorder]


def test_a_key_that_only_changes_its_case_keeps_the_flags_of_other_rows(
    by_hook: Workspace,
) -> None:
    changes = run(
        by_hook,
        Branch(by_hook.snapshot),
        "UPDATE fold SET k = 'A' WHERE k = 'a'",
        "DELETE FROM loose WHERE v = 'b'",
    )
    assert changes["fold"] == {
        "key": ["k"],
        "added": [{"k": "A", "v": 1}],
        "removed": [{"k": "a", "v": 1}],
        "changed": [
            {"key": {"k": "b"}, "before": {"v": 2}, "after": {"v": "gone"}, "indirect": True}
        ],
    }


def test_more_rows_than_a_session_is_sure_of_keep_their_flags(by_hook: Workspace) -> None:
    numbers = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i FROM n"
    branch = Branch(by_hook.snapshot)
    changes = run(
        by_hook, branch, f"INSERT INTO loose SELECT i, i FROM ({numbers})", "DELETE FROM loose"
    )
    assert len(changes["loose"]["removed"]) == 3
    assert changes["fold"]["indirect"]["added"] == list(range(len(changes["fold"]["added"])))
    assert len(changes["fold"]["added"]) > 300


def test_a_row_under_a_schema_that_was_rolled_back_is_not_mistaken(store: SnapshotStore) -> None:
    script = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 2, 3)"
    snapshot = store.build(Recipe((script,)))
    with closing(Workspace(snapshot, allow_ddl=True)) as workspace:
        for _ in range(2):  # the second time the statements are already prepared
            changes = run(
                workspace,
                Branch(snapshot),
                "BEGIN",
                "DROP TABLE t",
                "CREATE TABLE t (id INTEGER PRIMARY KEY, b, c)",
                "INSERT INTO t VALUES (1, 8, 9)",
                "ROLLBACK",
                "UPDATE t SET a = 5",
            )
            assert changes["t"]["added"] == []
            assert changes["t"]["changed"] == [
                {"key": {"id": 1}, "before": {"a": 2}, "after": {"a": 5}}
            ]


def test_text_that_is_none_is_not_the_hooks_fault(by_hook: Workspace) -> None:
    branch = Branch(by_hook.snapshot)
    head = branch.head
    done: list[bool] = []
    with pytest.raises(UnicodeDecodeError), by_hook.mount(branch) as mount:  # noqa: PT012
        mount.connection.execute("UPDATE copy SET v = cast(x'ff' AS TEXT)")
        mount.connection.execute("UPDATE copy SET v = 1")
        mount.connection.execute("UPDATE copy SET v = cast(x'ff' AS TEXT)")
        done.append(True)
    assert done
    assert branch.head is head
    assert not by_hook.broken


def test_a_null_key_matters_only_if_it_stays(store: SnapshotStore) -> None:
    snapshot = store.build(Recipe(("CREATE TABLE t (k TEXT PRIMARY KEY, v)",)))
    with opened(snapshot) as workspace:
        branch = Branch(snapshot)
        body = "INSERT INTO t VALUES (NULL, 1), (NULL, 2)", "DELETE FROM t WHERE k IS NULL"
        assert run(workspace, branch, *body) == {}
        with pytest.raises(NullInKey):
            run(workspace, branch, body[0])


def test_a_recorder_that_lost_a_row_says_so() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
        hook = recorder(connection)
        hook.begin(enabled=True)
        connection.execute("INSERT INTO t VALUES (1, 1); ALTER TABLE t DROP COLUMN a")
        connection.execute("ALTER TABLE t ADD COLUMN b AS (id + 1)")
        hook.begin(enabled=True)
        connection.execute("UPDATE t SET id = 2")
        with pytest.raises(Misreported):
            hook.changes()
        hook.close()

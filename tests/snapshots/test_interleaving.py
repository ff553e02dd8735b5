"""Many branches on one workspace, interleaved at random, against plain SQLite copies.

``pytest tests/snapshots --hypothesis-profile evidence`` searches longer.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from snapshots import Branch, Changeset, Mark, SnapshotStore, Workspace, build_database
from snapshots.errors import UncleanMount
from tests.snapshots.conftest import Raised, contents, shop

Statement = tuple[str, tuple[object, ...]]

NUMBERS = st.integers(1, 12)
WORDS = st.sampled_from(["new", "old", "item 1", "item 2", "odd'\0", "ß", ""])
VALUES = st.one_of(st.none(), NUMBERS, WORDS, st.sampled_from([1.0, -0.5, float("inf"), b"\0\xff"]))
SIZES = st.sampled_from([0, 10, 5000, 40_000])
TABLES = st.sampled_from(["x0", "x1"])


def statement(sql: str, *values: st.SearchStrategy[object]) -> st.SearchStrategy[Statement]:
    return st.tuples(st.just(sql), st.tuples(*values))


def on_table(sql: str, *values: st.SearchStrategy[object]) -> st.SearchStrategy[Statement]:
    return TABLES.flatmap(lambda name: statement(sql.format(name), *values))


WRITES = st.one_of(
    statement("INSERT INTO item (id, name, stock) VALUES (?, ?, ?)", NUMBERS, WORDS, NUMBERS),
    statement("INSERT OR REPLACE INTO item (id, name) VALUES (?, ?)", NUMBERS, WORDS),
    statement("UPDATE item SET stock = stock + ?, price = ?", NUMBERS, VALUES),
    statement("UPDATE item SET name = ? WHERE id = ?", WORDS, NUMBERS),  # trigger, unique
    statement("UPDATE item SET picture = zeroblob(?) WHERE id = ?", SIZES, NUMBERS),
    statement("UPDATE OR IGNORE item SET id = ? WHERE id = ?", NUMBERS, NUMBERS),
    statement("DELETE FROM item WHERE id % 13 = ?", NUMBERS),  # cascade
    statement("INSERT INTO sale (item, sold_at) VALUES (?, ?)", NUMBERS, WORDS),
    statement("DELETE FROM sale WHERE id <= ?", NUMBERS),
    statement("INSERT INTO note VALUES (hex(zeroblob(?)), ?)", SIZES, VALUES),
    statement("UPDATE note SET stars = ? WHERE rowid % 5 = ? % 5", VALUES, NUMBERS),
    statement("DELETE FROM note WHERE rowid > ?", NUMBERS),
    statement(
        "INSERT INTO place VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET item = 1 - excluded.item",
        WORDS, NUMBERS, NUMBERS,
    ),
    statement("UPDATE place SET shelf = shelf + ?", NUMBERS),
    statement("DELETE FROM place WHERE shelf > ?", NUMBERS),
    statement("REPLACE INTO tag VALUES (?, ?)", WORDS, VALUES),
    statement("UPDATE tag SET name = ? WHERE name = ?", WORDS, WORDS),
    statement("DELETE FROM tag"),
    on_table("INSERT INTO {} VALUES (?, ?)", VALUES, VALUES),
    on_table("UPDATE {} SET v = ?", VALUES),
    on_table("DELETE FROM {}"),
)  # fmt: skip
DEFINITIONS = st.one_of(
    on_table("CREATE TABLE {} (k INTEGER PRIMARY KEY, v)"),
    on_table("CREATE TABLE {} (k TEXT PRIMARY KEY NOT NULL, v) WITHOUT ROWID"),
    on_table("CREATE TABLE {} (k, v DEFAULT 'nothing')"),
    on_table("DROP TABLE {}"),
    on_table("ALTER TABLE {} ADD COLUMN w DEFAULT 5"),
    on_table("ALTER TABLE {} RENAME COLUMN v TO u"),
    on_table("CREATE INDEX i_{0} ON {0} (v)"),
    on_table("DROP INDEX i_{}"),
    statement("ALTER TABLE x0 RENAME TO x1"),
    statement("DROP TRIGGER item_renamed"),
    statement("CREATE VIEW cheap AS SELECT * FROM item WHERE price < 10"),
    statement("VACUUM"),
)
BODIES = st.lists(WRITES, min_size=1, max_size=5)


@dataclass
class Twin:
    """A branch and the plain database that it must equal, with what its history began from."""

    branch: Branch
    model: sqlite3.Connection
    origin: bytes
    since: Mark


def plain(data: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(data)
    connection.execute("PRAGMA foreign_keys = on")
    return connection


def attempt(connection: Any, statements: Sequence[Statement]) -> list[object]:
    """What each statement answered, errors included; later ones run all the same."""
    answers: list[object] = []
    for sql, values in statements:
        try:
            answers.append(connection.execute(sql, values).fetchall())
        except (apsw.Error, sqlite3.Error):
            answers.append("error")
    return answers


class Interleaving(RuleBasedStateMachine):
    """Every rule does the same to a branch and to its model, and compares what came of it."""

    @initialize(virtual=st.booleans())
    def open(self, virtual: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "base.sqlite"
        build_database(shop(12, virtual=virtual), path)
        self.base = path.read_bytes()
        self.snapshot = SnapshotStore(path.parent / "store").admit("0" * 64, path)
        self.workspace = Workspace(self.snapshot, allow_ddl=True)
        self.twins = [self.twin() for _ in range(3)]
        self.marks: list[tuple[Mark, bytes, Twin]] = []

    def twin(self) -> Twin:
        branch = Branch(self.snapshot)
        return Twin(branch, plain(self.base), self.base, branch.mark())

    def teardown(self) -> None:
        if not hasattr(self, "workspace"):
            return
        try:
            for twin in self.twins:
                self.check_changes(twin)
        finally:
            for twin in self.twins:
                twin.model.close()
            self.workspace.close()
            self.folder.cleanup()

    # --- writing ------------------------------------------------------------------------------

    def both(self, twin: Twin, statements: Sequence[Statement]) -> None:
        with self.workspace.mount(twin.branch) as mount:
            got = attempt(mount.connection, statements)
        assert got == attempt(twin.model, statements)
        self.compare(twin)

    @rule(index=st.integers(0, 9), body=BODIES)
    def write(self, index: int, body: list[Statement]) -> None:
        self.both(self.pick(index), body)

    @rule(index=st.integers(0, 9), body=st.lists(WRITES | DEFINITIONS, min_size=1, max_size=4))
    def define(self, index: int, body: list[Statement]) -> None:
        self.both(self.pick(index), body)

    @rule(
        index=st.integers(0, 9),
        body=BODIES,
        inner=st.lists(WRITES | DEFINITIONS, max_size=3),
        end=st.sampled_from(["COMMIT", "ROLLBACK"]),
        inner_end=st.sampled_from(["RELEASE s", "ROLLBACK TO s"]),
    )
    def transact(
        self, index: int, body: list[Statement], inner: list[Statement], end: str, inner_end: str
    ) -> None:
        twin = self.pick(index)
        begin, save, back, stop = (((sql, ())) for sql in ("BEGIN", "SAVEPOINT s", inner_end, end))
        self.both(twin, [begin, *body, save, *inner, back, stop])

    @rule(index=st.integers(0, 9), body=st.lists(WRITES | DEFINITIONS, max_size=4))
    def fail(self, index: int, body: list[Statement]) -> None:
        twin = self.pick(index)
        head = twin.branch.head
        with suppress(Raised), self.workspace.mount(twin.branch) as mount:
            attempt(mount.connection, [*body, ("BEGIN", ()), *body])
            raise Raised
        assert twin.branch.head is head
        assert not self.workspace.broken

    @rule(index=st.integers(0, 9))
    def pass_by(self, index: int) -> None:
        twin = self.pick(index)
        with self.workspace.mount(twin.branch):
            pass
        self.compare(twin)

    @rule(index=st.integers(0, 9), body=BODIES, lost=BODIES)
    def fail_and_keep(self, index: int, body: list[Statement], lost: list[Statement]) -> None:
        twin = self.pick(index)
        with suppress(Raised), self.workspace.mount(twin.branch) as mount:
            mount.keep_on_error()
            got = attempt(mount.connection, body)
            attempt(mount.connection, [("BEGIN", ()), *lost])
            raise Raised
        assert got == attempt(twin.model, body)
        self.compare(twin)

    @rule(index=st.integers(0, 9), body=BODIES)
    def leave_open(self, index: int, body: list[Statement]) -> None:
        twin = self.pick(index)
        with pytest.raises(UncleanMount), self.workspace.mount(twin.branch) as mount:
            attempt(mount.connection, [("BEGIN", ()), *body])
        assert self.workspace.broken
        self.workspace.close()
        self.workspace = Workspace(self.snapshot, allow_ddl=True)

    # --- moving -------------------------------------------------------------------------------

    @rule(index=st.integers(0, 9))
    def reset(self, index: int) -> None:
        twin = self.pick(index)
        twin.branch.reset()
        self.become(twin, self.base, self.base, twin.branch.mark())

    @rule(index=st.integers(0, 9), other=st.integers(0, 9))
    def fork(self, index: int, other: int) -> None:
        twin, target = self.pick(index), self.pick(other)
        if twin is not target:
            target.branch = twin.branch.fork()
            self.become(target, twin.model.serialize(), twin.origin, twin.since)

    @rule(index=st.integers(0, 9))
    def mark(self, index: int) -> None:
        twin = self.pick(index)
        kept = Twin(twin.branch, twin.model, twin.origin, twin.since)
        self.marks.append((twin.branch.mark(), twin.model.serialize(), kept))

    @rule(index=st.integers(0, 9), which=st.integers(0, 99))
    def rewind(self, index: int, which: int) -> None:
        if self.marks:
            mark, data, kept = self.marks[which % len(self.marks)]
            twin = self.pick(index)
            twin.branch.rewind(mark)
            self.become(twin, data, kept.origin, kept.since)

    @rule(index=st.integers(0, 9))
    def park(self, index: int) -> None:
        twin = self.pick(index)
        twin.branch = Branch.decode(twin.branch.encode(), self.snapshot)
        data = twin.model.serialize()
        self.become(twin, data, data, twin.branch.mark())

    def become(self, twin: Twin, data: bytes, origin: bytes, since: Mark) -> None:
        twin.model.close()
        twin.model, twin.origin, twin.since = plain(data), origin, since
        self.compare(twin)

    # --- comparing ----------------------------------------------------------------------------

    def pick(self, index: int) -> Twin:
        return self.twins[index % len(self.twins)]

    def compare(self, twin: Twin) -> None:
        with self.workspace.mount(twin.branch, read_only=True) as mount:
            assert contents(mount.connection) == contents(twin.model)

    @rule(index=st.integers(0, 9))
    def check(self, index: int) -> None:
        self.check_changes(self.pick(index))

    def check_changes(self, twin: Twin) -> None:
        """The net changes lead from where the history began to here, and back."""
        with self.workspace.mount(twin.branch, read_only=True) as mount:
            sound = mount.connection.execute("PRAGMA integrity_check").fetchall()
            assert sound == [("ok",)]
        changes = twin.branch.changes(since=twin.since)
        again = Changeset.from_json(changes.to_json())
        with closing(plain(twin.origin)) as copy:
            before = contents(copy)
            again.apply(copy)
            assert contents(copy) == contents(twin.model)
            if not changes.schema:
                again.invert().apply(copy)
                assert contents(copy) == before

    @invariant()
    def nothing_leaks_into_the_others(self) -> None:
        for twin in getattr(self, "twins", ()):
            with self.workspace.mount(twin.branch, read_only=True) as mount:
                got = mount.connection.execute("SELECT count(*), total(stars) FROM note").fetchall()
            assert got == twin.model.execute("SELECT count(*), total(stars) FROM note").fetchall()


DEEP = settings.get_current_profile_name() == "evidence"
TestInterleaving: Callable[[], Any] = Interleaving.TestCase
Interleaving.TestCase.settings = settings(
    max_examples=250 if DEEP else 40,
    stateful_step_count=60 if DEEP else 30,
    deadline=None,
    derandomize=not DEEP,
    database=None,
)

"""Building snapshots and keeping them: immutable files, named by what went into them."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import apsw
import msgspec

from snapshots.errors import BuildFailed, SnapshotInvalid, SnapshotMissing, SnapshotsError
from snapshots.pages import PAGE_SIZE, Snapshot
from snapshots.policy import Authorizer, MountFunctions, SharedConnection
from snapshots.shapes import quoted, tables_with_null_keys
from snapshots.vfs import Clock

BUILDER_VERSION = 1
"""Raise it when the same recipe builds another file."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class TableRows(msgspec.Struct, frozen=True):
    """Rows to insert into one table: null, int, float, str or bytes under each column."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]  # msgspec decodes no union of str and bytes


class Recipe(msgspec.Struct, frozen=True):
    """The logical input of a snapshot: equal recipes build equal files.

    ``scripts`` run in order, then ``rows`` are inserted in order. SQL's idea of now is
    ``clock_ms``, its randomness comes from ``seed``. With ``foreign_keys`` they are enforced.
    """

    scripts: tuple[str, ...]
    rows: tuple[TableRows, ...] = ()
    clock_ms: int = 0
    seed: int = 0
    foreign_keys: bool = True

    @property
    def digest(self) -> str:
        """SHA-256 over the recipe and the builder's version, in hexadecimal."""
        digest = hashlib.sha256(b"snapshot builder %d\n" % BUILDER_VERSION)
        digest.update(msgspec.msgpack.encode(self))
        return digest.hexdigest()


# --- building -------------------------------------------------------------------------------------


def build_database(recipe: Recipe, path: Path) -> None:
    """Write the complete, checked database of ``recipe`` to ``path``, which must not exist.

    Raises:
        BuildFailed: a statement, row or check failed; the message says which and why.
        FileExistsError: there is a file at ``path``.
    """
    if path.exists():
        raise FileExistsError(path)
    clock = Clock("builder")
    clock.clock_ms = recipe.clock_ms
    connection = SharedConnection(":memory:", vfs=clock.name)
    try:
        connection.execute(
            f"PRAGMA page_size={PAGE_SIZE}; PRAGMA temp_store=memory;"
            f"PRAGMA foreign_keys={int(recipe.foreign_keys)}"
        ).fetchall()
        apsw.Connection.config(connection, apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        MountFunctions(connection).begin(recipe.seed)
        judge = Authorizer(
            connection, allow_ddl=True, foreign_keys=recipe.foreign_keys, script=True
        )
        apsw.Connection.set_authorizer(connection, judge)
        for number, script in enumerate(recipe.scripts, 1):
            _run_script(connection, number, script)
        apsw.Connection.set_authorizer(connection, None)
        connection.execute("PRAGMA foreign_keys=off").fetchall()  # the order of rows is free
        for table in recipe.rows:
            _insert(connection, table)
        connection.execute("VACUUM INTO ?", (str(path),)).fetchall()
    finally:
        apsw.Connection.close(connection, True)
        clock.unregister()
    try:
        check_database(path, foreign_keys=recipe.foreign_keys)
    except SnapshotInvalid as error:
        raise BuildFailed(error.message, hint="mend the data", **error.details) from error


def _run_script(connection: apsw.Connection, number: int, script: str) -> None:
    for line, statement in statements(script):
        try:
            connection.execute(statement).fetchall()
        except (apsw.Error, SnapshotsError) as error:
            raise BuildFailed(
                f"script {number}, line {line}: {error}",
                script=number,
                line=line,
                statement=statement.strip()[:500],
            ) from error
    if not connection.get_autocommit():
        raise BuildFailed(
            f"script {number} leaves a transaction open", hint="add COMMIT", script=number
        )


def statements(script: str) -> Iterator[tuple[int, str]]:
    """The statements of a script, each with the number of the line on which it begins."""
    start, line = 0, 1
    for end in itertools.chain((match.end() for match in re.finditer(";", script)), [len(script)]):
        statement = script[start:end]
        if not (end == len(script) or apsw.complete(statement)):
            continue
        blank = len(statement) - len(statement.lstrip())
        if blank < len(statement):
            yield line + statement.count("\n", 0, blank), statement
        line += statement.count("\n")
        start = end


def _insert(connection: apsw.Connection, table: TableRows) -> None:
    columns = ", ".join(quoted(column) for column in table.columns)
    places = ", ".join("?" * len(table.columns))
    sql = f"INSERT INTO {quoted(table.table)} ({columns}) VALUES ({places})"
    with connection:
        for number, row in enumerate(table.rows, 1):
            try:
                connection.execute(sql, row).fetchall()
            except apsw.Error as error:
                raise BuildFailed(
                    f"table {table.table}, row {number}: {error}",
                    table=table.table,
                    row=number,
                    values=row,
                ) from error


def check_database(path: Path, *, foreign_keys: bool) -> None:
    """Refuse a file that cannot serve as a snapshot, or that is not sound.

    Raises:
        SnapshotInvalid: saying what is wrong.
    """
    snapshot = Snapshot.open(path, "")
    try:
        with closing(apsw.Connection(snapshot.uri, flags=_READ_URI)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            found = connection.execute("PRAGMA integrity_check").fetchall()
            if found != [("ok",)]:
                raise SnapshotInvalid(f"integrity_check: {'; '.join(str(r[0]) for r in found)}")
            orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
            keyless = tables_with_null_keys(connection)
    except apsw.Error as error:
        raise SnapshotInvalid(f"{path.name}: {error}") from error
    if keyless:
        raise SnapshotInvalid(
            f"table {keyless[0]} has a row with NULL in its primary key, which cannot be tracked",
            hint="declare key columns NOT NULL",
            table=keyless[0],
        )
    if foreign_keys and orphans:
        table, rowid, parent, _ = orphans[0]
        raise SnapshotInvalid(
            f"{len(orphans)} rows break a foreign key; the first is row {rowid} of {table}, "
            f"which names a missing row of {parent}",
            table=table,
        )


_READ_URI = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


# --- keeping --------------------------------------------------------------------------------------


class SnapshotStore:
    """A folder of snapshots. Files appear whole (written aside, synced, renamed) and never change.

    Several processes may use one folder. Opened snapshots are shared while somebody refers to them.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._open: WeakValueDictionary[str, Snapshot] = WeakValueDictionary()

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise SnapshotMissing(f"{digest!r} is no digest", digest=digest)
        return self.root / f"{digest}.sqlite"

    def find(self, digest: str) -> Snapshot | None:
        """The snapshot of that digest, or None."""
        snapshot = self._open.get(digest)
        if snapshot is None:
            path = self._path(digest)
            if not path.exists():
                return None
            snapshot = self._open[digest] = Snapshot.open(path, digest)
        return snapshot

    def open(self, digest: str) -> Snapshot:
        """The snapshot of that digest.

        Raises:
            SnapshotMissing: there is none.
        """
        snapshot = self.find(digest)
        if snapshot is None:
            raise SnapshotMissing(
                f"no snapshot {digest[:12]} in {self.root}", hint="build it again", digest=digest
            )
        return snapshot

    def build(self, recipe: Recipe) -> Snapshot:
        """The snapshot of ``recipe``, built in this process unless it is there already.

        Raises:
            BuildFailed: the recipe does not build.
        """
        digest = recipe.digest
        found = self.find(digest)
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(prefix=".build-", dir=self.root) as folder:
            path = Path(folder) / "main.sqlite"
            build_database(recipe, path)
            return self._place(digest, path)

    def admit(self, digest: str, path: Path, *, foreign_keys: bool = True) -> Snapshot:
        """Take over a file that was built elsewhere; it is checked, synced and moved here.

        Raises:
            SnapshotInvalid: the file cannot serve as a snapshot; it stays where it was.
        """
        found = self.find(digest)
        if found is not None:
            return found
        check_database(path, foreign_keys=foreign_keys)
        if path.stat().st_dev == self.root.stat().st_dev:
            return self._place(digest, path)
        with tempfile.TemporaryDirectory(prefix=".admit-", dir=self.root) as folder:
            near = shutil.copyfile(path, Path(folder) / "main.sqlite")
            path.unlink()
            return self._place(digest, near)

    def _place(self, digest: str, path: Path) -> Snapshot:
        final = self._path(digest)
        path.chmod(0o444)
        _sync(path)
        path.replace(final)
        _sync(self.root)
        return self.open(digest)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

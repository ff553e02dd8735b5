"""A database as PEP 249 has it, over whatever branch is mounted: for SQLAlchemy's SQLite dialect.

It behaves as Python's ``sqlite3`` in the way that applications count on: a transaction begins with
the first write, belongs to the connection that wrote, and is gone if that does not commit it. All
connections share the one that the branch is mounted on, so commits are those of the mount.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import Any, Final

import apsw

from snapshots.errors import SnapshotsError

Parameters = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]

_VERB: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)
_WRITES: Final = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE"))
_READS: Final = frozenset(("SELECT", "PRAGMA", "EXPLAIN", "VALUES"))
_BEGINS: Final = frozenset(("BEGIN", "SAVEPOINT"))
_ENDS: Final = frozenset(("COMMIT", "END"))
_SETTING: Final = re.compile(r"\s*PRAGMA\s+(?:\w+\.)?\w+\s*=", re.IGNORECASE)
_READ_UNCOMMITTED: Final = re.compile(r"\s*PRAGMA\s+read_uncommitted\s*;?\s*$", re.IGNORECASE)
_PLAIN: Final = frozenset((type(None), int, float, str, bytes, bool))
_ERRORS: Final[tuple[tuple[type[Exception], type[sqlite3.Error]], ...]] = (
    (apsw.ConstraintError, sqlite3.IntegrityError),
    (apsw.MismatchError, sqlite3.IntegrityError),
    (apsw.BindingsError, sqlite3.ProgrammingError),
    (apsw.TooBigError, sqlite3.DataError),
    (apsw.Error, sqlite3.OperationalError),
    (SnapshotsError, sqlite3.OperationalError),
    (TypeError, sqlite3.ProgrammingError),
)


class Ground:
    """What all connections of an application stand on: the branch's connection while a call runs;
    before the first a private database, made when first needed, that is thrown away."""

    def __init__(self, private: Callable[[], apsw.Connection]) -> None:
        self._private = private
        self._connection: apsw.Connection | None = None
        self._functions: dict[tuple[str, int], Callable[..., Any]] = {}
        self.writer: Connection | None = None
        """The one connection that has written and has not committed."""

    @property
    def connection(self) -> apsw.Connection:
        if self._connection is None:
            self.stand_on(self._private())
        assert self._connection is not None
        return self._connection

    def stand_on(self, connection: apsw.Connection) -> None:
        """From here on statements run on ``connection``."""
        if connection is not self._connection:
            self._connection = connection
            for (name, count), function in self._functions.items():
                self._define(name, count, function)

    def settle(self) -> None:
        """Roll back what nobody has committed."""
        self.writer = None
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def define(self, name: str, count: int, function: Callable[..., Any]) -> None:
        if self._functions.get((name, count)) is not function:
            self._functions[name, count] = function
            self._define(name, count, function)

    def _define(self, name: str, count: int, function: Callable[..., Any]) -> None:
        apsw.Connection.create_scalar_function(
            self.connection, name, function, count, deterministic=True
        )


class Dbapi:
    """The module that SQLAlchemy takes for ``sqlite3``."""

    apilevel = "2.0"
    threadsafety = 1
    paramstyle = "qmark"
    sqlite_version = apsw.sqlite_lib_version()
    sqlite_version_info = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    Binary = bytes
    Warning = sqlite3.Warning
    Error = sqlite3.Error
    InterfaceError = sqlite3.InterfaceError
    DatabaseError = sqlite3.DatabaseError
    DataError = sqlite3.DataError
    OperationalError = sqlite3.OperationalError
    IntegrityError = sqlite3.IntegrityError
    InternalError = sqlite3.InternalError
    ProgrammingError = sqlite3.ProgrammingError
    NotSupportedError = sqlite3.NotSupportedError

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def connect(self, *_: object, **__: object) -> Connection:
        """Another connection to the same branch, whatever file is asked for."""
        return Connection(self._ground)


class Connection:
    """One of the connections of an application; only its transaction is its own."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.isolation_level: str | None = ""

    def cursor(self, *_: object) -> Cursor:
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        return Cursor(self).execute(sql, parameters)

    def create_function(
        self, name: str, narg: int, func: Callable[..., Any], *, deterministic: bool = False
    ) -> None:
        self._ground.define(name, narg, func)

    def commit(self) -> None:
        ground = self._ground
        if ground.writer is self:
            if ground.connection.in_transaction:
                with _TellErrors():
                    ground.connection.execute("COMMIT")
            ground.writer = None

    def rollback(self) -> None:
        ground = self._ground
        if ground.writer is self:
            ground.writer = None
            if ground.connection.in_transaction:
                ground.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.rollback()

    def run(self, sql: str, parameters: Parameters) -> tuple[list[Row], _Description, int, int]:
        """Rows, description, rows changed (-1 for a statement that changes none) and last rowid."""
        found = _VERB.match(sql)
        verb = found[1].upper() if found else ""
        if verb in _ENDS:
            self.commit()
        elif verb == "ROLLBACK" and " TO " not in f" {sql.upper()} ":
            self.rollback()
        elif verb == "BEGIN":
            self._begin()
        elif verb == "PRAGMA" and _READ_UNCOMMITTED.match(sql):
            return [(0,)], (("read_uncommitted", *_UNTOLD),), -1, 0
        elif verb != "PRAGMA" or not _SETTING.match(sql):  # the pack says how the database is set
            return self._run(verb, sql, parameters)
        return [], None, -1, 0

    def _run(
        self, verb: str, sql: str, parameters: Parameters
    ) -> tuple[list[Row], _Description, int, int]:
        if verb in _WRITES or verb in _BEGINS:
            self._begin()
        connection = self._ground.connection
        described: list[_Description] = []

        def describe(cursor: apsw.Cursor, *_: object) -> bool:
            columns = cursor.get_description()
            described.append(tuple((column[0], *_UNTOLD) for column in columns) or None)
            return True

        with _TellErrors():
            cursor = connection.cursor()
            cursor.exec_trace = describe  # an answer without rows has no description afterwards
            rows = cursor.execute(sql, _adapted(parameters)).fetchall()
        changed = connection.changes() if verb in _WRITES else -1
        rowid = connection.last_insert_rowid()
        if self.isolation_level is None and verb in _WRITES:
            self.commit()
        if self._ground.writer is None and verb not in _READS and connection.in_transaction:
            connection.execute("COMMIT")  # what begins no transaction stands by itself
        return rows, described[-1] if described else None, changed, rowid

    def _begin(self) -> None:
        ground = self._ground
        if ground.writer is self:
            return
        if ground.writer is not None:
            raise sqlite3.OperationalError("database is locked")
        ground.writer = self
        if not ground.connection.in_transaction:
            ground.connection.execute("BEGIN")


_UNTOLD: Final = (None,) * 6
_Description = tuple[tuple[Any, ...], ...] | None


class Cursor:
    """The rows of one statement, all there when it has run: nothing stays open on the branch."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: _Description = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._rows: Iterator[Row] = iter(())

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        rows, self.description, self.rowcount, self.lastrowid = self.connection.run(sql, parameters)
        self._rows = iter(rows)
        return self

    def executemany(self, sql: str, many: Iterable[Parameters]) -> Cursor:
        changed = 0
        for parameters in many:
            self.execute(sql, parameters)
            changed += max(0, self.rowcount)
        self.rowcount = changed
        return self

    def fetchone(self) -> Row | None:
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        wanted = self.arraysize if size is None else size
        return list(islice(self._rows, wanted))

    def fetchall(self) -> list[Row]:
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def close(self) -> None:
        self._rows = iter(())

    def setinputsizes(self, *_: object) -> None:
        """Nothing to do, says PEP 249."""

    setoutputsize = setinputsizes


class _TellErrors:
    """Tells errors of apsw as ``sqlite3`` tells them."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for theirs, ours in _ERRORS:
            if isinstance(error, theirs):
                raise ours(str(error)) from error


def _adapted(parameters: Parameters) -> Parameters:
    if isinstance(parameters, Mapping):
        return {name: _adapt(value) for name, value in parameters.items()}
    if all(type(value) in _PLAIN for value in parameters):
        return parameters
    return tuple(_adapt(value) for value in parameters)


def _adapt(value: Any) -> Any:
    """As ``sqlite3`` does by default."""
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    return value

"""What SQL may do on a connection that many branches (or a snapshot's build) share."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import apsw

from snapshots.errors import StatementForbidden

_NAMING = {
    "foreign_key_check", "foreign_key_list", "index_info", "index_list", "index_xinfo",
    "integrity_check", "quick_check", "table_info", "table_list", "table_xinfo",
}  # fmt: skip
"""Pragmas whose argument, if any, names a table or index, so that they set nothing."""

_READABLE = _NAMING | {
    "application_id", "collation_list", "compile_options", "data_version", "encoding",
    "foreign_keys", "freelist_count", "function_list", "journal_mode", "page_count", "page_size",
    "schema_version", "user_version",
}  # fmt: skip
"""Pragmas that only tell something when asked without an argument (FTS5 asks data_version)."""

_SCRIPT_PRAGMAS = {"foreign_keys", "defer_foreign_keys", "user_version", "application_id"}
"""What a script that builds a snapshot may set as well: dumps begin with such lines."""

_ON = frozenset(("1", "on", "yes", "true"))
_OFF = frozenset(("0", "off", "no", "false"))

_TEMPORARY = {
    apsw.SQLITE_CREATE_TEMP_INDEX: "CREATE TEMP INDEX",
    apsw.SQLITE_CREATE_TEMP_TABLE: "CREATE TEMP TABLE",
    apsw.SQLITE_CREATE_TEMP_TRIGGER: "CREATE TEMP TRIGGER",
    apsw.SQLITE_CREATE_TEMP_VIEW: "CREATE TEMP VIEW",
    apsw.SQLITE_DROP_TEMP_INDEX: "DROP INDEX on a temp table",
    apsw.SQLITE_DROP_TEMP_TABLE: "DROP of a temp table",
    apsw.SQLITE_DROP_TEMP_TRIGGER: "DROP of a temp trigger",
    apsw.SQLITE_DROP_TEMP_VIEW: "DROP of a temp view",
}
_DEFINING = {
    apsw.SQLITE_CREATE_INDEX: "CREATE INDEX",
    apsw.SQLITE_CREATE_TABLE: "CREATE TABLE",
    apsw.SQLITE_CREATE_TRIGGER: "CREATE TRIGGER",
    apsw.SQLITE_CREATE_VIEW: "CREATE VIEW",
    apsw.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    apsw.SQLITE_DROP_INDEX: "DROP INDEX",
    apsw.SQLITE_DROP_TABLE: "DROP TABLE",
    apsw.SQLITE_DROP_TRIGGER: "DROP TRIGGER",
    apsw.SQLITE_DROP_VIEW: "DROP VIEW",
    apsw.SQLITE_DROP_VTABLE: "DROP VIRTUAL TABLE",
    apsw.SQLITE_ALTER_TABLE: "ALTER TABLE",
    apsw.SQLITE_REINDEX: "REINDEX",
}

_HARMLESS = frozenset((
    apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE,
    apsw.SQLITE_DELETE, apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_RECURSIVE,
))  # fmt: skip
"""Nearly all that is asked: one question for each column that a statement reads."""

_OPEN_METHODS = {
    "blob_open", "cache_stats", "changes", "column_metadata", "cursor", "data_version",
    "db_filename", "db_names", "execute", "executemany", "get_autocommit", "getautocommit",
    "interrupt", "last_insert_rowid", "pragma", "readonly", "serialize", "set_last_insert_rowid",
    "status", "table_exists", "total_changes", "totalchanges", "txn_state",
}  # fmt: skip
"""What a user of a shared connection may call: nothing that outlives the mount."""


def _forbid(what: str, hint: str) -> NoReturn:
    raise StatementForbidden(f"{what} is not allowed here", hint=hint, what=what)


class SharedConnection(apsw.Connection):
    """A connection whose settings its user cannot change, for the next branch would see them.

    Its owner reaches what is closed here through ``apsw.Connection`` itself.
    """


def _closed_method(name: str) -> Callable[..., NoReturn]:
    def refuse(self: SharedConnection, *_: object, **__: object) -> NoReturn:
        _forbid(f"connection.{name}()", "the connection is shared between branches")

    return refuse


def _closed_attribute(name: str) -> property:
    inherited = getattr(apsw.Connection, name)

    def read(self: SharedConnection) -> Any:
        return inherited.__get__(self)

    def refuse(self: SharedConnection, _: object) -> NoReturn:
        _forbid(f"setting connection.{name}", "set it on a cursor; the connection is shared")

    return property(read, refuse)


for _name, _member in vars(apsw.Connection).items():
    if inspect.isgetsetdescriptor(_member):
        setattr(SharedConnection, _name, _closed_attribute(_name))
    elif not _name.startswith("__") and _name not in _OPEN_METHODS:
        setattr(SharedConnection, _name, _closed_method(_name))


class Authorizer:
    """Judges every statement when it is prepared; a denied one raises.

    ``script`` is for building a snapshot on a connection of its own: pragmas that dumps begin
    with and ANALYZE are then allowed too.

    ``defined`` becomes True with a statement that changes the schema, even if that is undone.

    Raises (from the statement):
        StatementForbidden: naming what was denied.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        allow_ddl: bool,
        foreign_keys: bool,
        script: bool = False,
    ) -> None:
        self._connection = connection
        self._allow_ddl = allow_ddl
        self._foreign_keys = foreign_keys
        self._script = script
        self.defined = False

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        _: str | None,
    ) -> int:
        if action in _HARMLESS:
            return apsw.SQLITE_OK
        if action in _TEMPORARY or (action in _DEFINING and database == "temp"):
            _forbid(_TEMPORARY.get(action, "a temp object"), "use a common table expression")
        if action in _DEFINING:
            self._define(f"{_DEFINING[action]} {first}", first or "")
        if action == apsw.SQLITE_PRAGMA:
            self._pragma((first or "").lower(), second)
        elif action == apsw.SQLITE_ATTACH:
            self._attach(first)
        elif action == apsw.SQLITE_DETACH:
            _forbid("DETACH", "one database is all there is")
        elif action == apsw.SQLITE_ANALYZE and not self._script:
            _forbid("ANALYZE", "query plans, and so the order of rows, would differ")
        elif action == apsw.SQLITE_FUNCTION and second == "load_extension":
            _forbid("load_extension()", "extensions cannot be loaded")
        return apsw.SQLITE_OK

    def _define(self, what: str, name: str) -> None:
        if not self._allow_ddl:
            if name.startswith("sqlite_stat"):  # where ANALYZE keeps what it finds
                what = "ANALYZE"
            _forbid(what, "the schema of this environment is fixed")
        self.defined = True

    def _pragma(self, name: str, argument: str | None) -> None:
        if argument is None:
            allowed = name in _READABLE
        elif self._script and name in _SCRIPT_PRAGMAS:
            allowed = True
        elif name == "foreign_keys":  # programs like to say it again
            allowed = argument.lower() in (_ON if self._foreign_keys else _OFF)
        else:
            allowed = name in _NAMING
        if not allowed:
            text = name if argument is None else f"{name}={argument}"
            _forbid(f"PRAGMA {text}", "only pragmas that describe the database are")

    def _attach(self, file: str | None) -> None:
        # VACUUM attaches a nameless database of its own, and alone runs with a writable schema.
        vacuuming = apsw.Connection.config(
            self._connection, apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, -1
        )
        if not (vacuuming and not file and self._allow_ddl):
            _forbid("VACUUM" if vacuuming else "ATTACH", "one database is all there is")


class MountFunctions:
    """SQL functions that would answer from the machine, or from what an earlier mount did.

    ``random()`` and ``randomblob()`` draw from a seed, ``changes()``, ``total_changes()`` and
    ``last_insert_rowid()`` know only of this mount.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # Innocuous like the originals, or a schema that is not trusted may not use them in a
        # default; not deterministic, or SQLite would draw once for all rows.
        define = partial(
            apsw.Connection.create_scalar_function, connection, flags=apsw.SQLITE_INNOCUOUS
        )
        define("random", self._random, 0)
        define("randomblob", self._randomblob, 1)
        define("changes", self._changes, 0)
        define("total_changes", self._total_changes, 0)
        self.begin(0)

    def begin(self, seed: int) -> None:
        """A new mount: begin the stream of ``seed``, and count changes from now."""
        self._seed = seed
        self._draw: random.Random | None = None
        self._before = self._connection.total_changes()
        self._connection.set_last_insert_rowid(0)

    def _source(self) -> random.Random:
        # Seeding costs microseconds; most mounts never draw.
        if self._draw is None:
            self._draw = random.Random(self._seed)
        return self._draw

    def _random(self, *_: apsw.SQLiteValue) -> int:
        return self._source().getrandbits(64) - (1 << 63)

    def _randomblob(self, *arguments: apsw.SQLiteValue) -> bytes:
        (length,) = arguments
        return self._source().randbytes(max(1, int(length or 0)))

    def _total_changes(self, *_: apsw.SQLiteValue) -> int:
        return self._connection.total_changes() - self._before

    def _changes(self, *_: apsw.SQLiteValue) -> int:
        # If any row was changed in this mount, so was SQLite's own count by its last statement.
        return self._connection.changes() if self._total_changes() else 0

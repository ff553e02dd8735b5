"""What SQL may do on a connection that many branches (or a snapshot's build) share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NoReturn

import apsw

from snapshots.errors import StatementForbidden

_READABLE = frozenset(
    "application_id collation_list compile_options encoding foreign_key_check foreign_key_list "
    "foreign_keys freelist_count function_list index_info index_list index_xinfo integrity_check "
    "journal_mode page_count page_size quick_check schema_version table_info table_list "
    "table_xinfo user_version".split()
)
"""Pragmas that only tell something about the branch, asked without an argument."""

_NAMING = frozenset(
    "foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check "
    "quick_check table_info table_list table_xinfo".split()
)
"""Pragmas whose argument names a table or index, so that they set nothing."""

_SCRIPT_PRAGMAS = frozenset("foreign_keys defer_foreign_keys user_version application_id".split())
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

_CONNECTION_METHODS = (
    "aclose autovacuum_pages backup close collation_needed collationneeded config "
    "create_aggregate_function create_collation create_module create_scalar_function "
    "create_window_function createaggregatefunction createcollation createmodule "
    "createscalarfunction deserialize drop_modules enable_load_extension enableloadextension "
    "file_control filecontrol limit load_extension loadextension overload_function "
    "overloadfunction preupdate_hook register_fts5_function register_fts5_tokenizer "
    "reserve_bytes set_authorizer set_busy_handler set_busy_timeout set_commit_hook "
    "set_exec_trace set_profile set_progress_handler set_rollback_hook set_row_trace "
    "set_update_hook set_wal_hook setauthorizer setbusyhandler setbusytimeout setcommithook "
    "setexectrace setprofile setprogresshandler setrollbackhook setrowtrace setupdatehook "
    "setwalhook trace_v2 wal_autocheckpoint wal_checkpoint"
).split()
_CONNECTION_ATTRIBUTES = (
    "authorizer convert_binding convert_jsonb cursor_factory exec_trace exectrace row_trace "
    "rowtrace transaction_mode"
).split()

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


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


for _name in _CONNECTION_METHODS:
    setattr(SharedConnection, _name, _closed_method(_name))
for _name in _CONNECTION_ATTRIBUTES:
    setattr(SharedConnection, _name, _closed_attribute(_name))


def authorizer(
    connection: apsw.Connection, *, allow_ddl: bool, foreign_keys: bool, script: bool = False
) -> Authorizer:
    """The judge of every statement when it is prepared; a denied one raises.

    ``script`` is for building a snapshot on a connection of its own: pragmas that dumps begin
    with and ANALYZE are then allowed too.

    Raises (from the statement):
        StatementForbidden: naming what was denied.
    """

    def pragma(name: str, argument: str | None) -> None:
        name = name.lower()
        if argument is None:
            allowed = name in _READABLE
        elif name == "foreign_keys" and not script:
            allowed = argument.lower() in (_ON if foreign_keys else _OFF)
        else:
            allowed = name in _NAMING or (script and name in _SCRIPT_PRAGMAS)
        if not allowed:
            text = name if argument is None else f"{name}={argument}"
            _forbid(f"PRAGMA {text}", "only pragmas that describe the database are")

    def attach(file: str | None) -> None:
        # VACUUM attaches a nameless database of its own, and alone runs with a writable schema.
        vacuuming = connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, -1)
        if not (vacuuming and not file and allow_ddl):
            _forbid("VACUUM" if vacuuming else "ATTACH", "one database is all there is")

    def judge(
        action: int, first: str | None, second: str | None, database: str | None, _: str | None
    ) -> int:
        if action in _TEMPORARY or (action in _DEFINING and database == "temp"):
            _forbid(_TEMPORARY.get(action, "a temp object"), "use a common table expression")
        if action in _DEFINING and not allow_ddl:
            _forbid(f"{_DEFINING[action]} {first}", "the schema of this environment is fixed")
        if action == apsw.SQLITE_PRAGMA:
            pragma(first or "", second)
        elif action == apsw.SQLITE_ATTACH:
            attach(first)
        elif action == apsw.SQLITE_DETACH:
            _forbid("DETACH", "one database is all there is")
        elif action == apsw.SQLITE_ANALYZE and not script:
            _forbid("ANALYZE", "query plans, and so the order of rows, would differ")
        elif action == apsw.SQLITE_FUNCTION and second == "load_extension":
            _forbid("load_extension()", "extensions cannot be loaded")
        return apsw.SQLITE_OK

    return judge


class Randomness:
    """``random()`` and ``randomblob()`` drawn from a seed instead of the machine."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._draw: random.Random | None = None
        self._seed = 0
        for name, function, arguments in (
            ("random", self._random, 0),
            ("randomblob", self._randomblob, 1),
        ):
            # Innocuous like the originals, or a schema that is not trusted may not use them in
            # a default; not deterministic, or SQLite would draw once for all rows.
            apsw.Connection.create_scalar_function(
                connection, name, function, arguments, flags=apsw.SQLITE_INNOCUOUS
            )

    def seed(self, seed: int) -> None:
        """Begin the stream of ``seed``."""
        self._seed, self._draw = seed, None

    def _source(self) -> random.Random:
        if self._draw is None:
            self._draw = random.Random(self._seed)
        return self._draw

    def _random(self) -> int:
        return self._source().getrandbits(64) - (1 << 63)

    def _randomblob(self, length: Any) -> bytes:
        return self._source().randbytes(max(1, int(length or 0)))

"""What columns the tables of a database have, as far as row changes need to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

ROWID = "_rowid_"
_VIRTUAL = 2  # what table_xinfo says of a generated column that is not stored


class Cursor(Protocol):
    """What both ``sqlite3`` and ``apsw`` call a cursor."""

    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """What ``sqlite3`` and ``apsw`` connections have in common."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...


class TableShape(NamedTuple):
    """The columns of a table as far as they are recorded: without generated ones.

    A table without a primary key is keyed by ``_rowid_``, which then is its first column.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    nullable: tuple[str, ...]
    """Columns of the key that may hold NULL; rows that do cannot be told apart."""
    hidden_rowid: bool
    """Whether rows have a rowid that is none of ``columns``."""
    keyed_by_rowid: bool = False
    """Whether the key is the rowid itself."""
    positions: tuple[int, ...] = ()
    """Where a stored record has the ``columns`` (less ``_rowid_``) among the generated ones."""
    virtual: bool = False
    """Whether generated columns are missing from a stored record."""

    @property
    def stored(self) -> tuple[str, ...]:
        """All that makes up a row: the columns, and the rowid if it is none of them."""
        return (ROWID, *self.columns) if self.hidden_rowid else self.columns


def quoted(name: str) -> str:
    """An identifier as SQL."""
    return '"' + name.replace('"', '""') + '"'


def read_shapes(connection: Connection, *, hidden: bool = False) -> dict[str, TableShape]:
    """The tables whose rows count: no virtual tables, nor the shadow and system tables.

    With ``hidden`` it is those others that are stored as tables are, the schema itself aside.
    """
    return {
        name: _shape(connection, name, without_rowid=bool(without_rowid))
        for database, name, kind, _, without_rowid, _ in sorted(_table_list(connection))
        if database == "main"
        and kind in ("table", "shadow")
        and name != "sqlite_schema"
        and (kind == "shadow" or name.startswith("sqlite_")) is hidden
    }


def _shape(connection: Connection, table: str, *, without_rowid: bool) -> TableShape:
    info = connection.execute(f"PRAGMA main.table_xinfo({quoted(table)})").fetchall()
    stored = [column for column in info if column[6] == 0]
    columns = tuple(column[1] for column in stored)
    positions = tuple(column[0] for column in stored)
    virtual = any(column[6] == _VIRTUAL for column in info)
    keyed = sorted((column for column in stored if column[5]), key=lambda column: column[5])
    if not keyed:
        return TableShape((ROWID, *columns), (ROWID,), (), False, True, positions, virtual)
    key = tuple(column[1] for column in keyed)
    if without_rowid:
        return TableShape(columns, key, (), False, False, positions, virtual)
    if len(keyed) == 1 and keyed[0][2].upper() == "INTEGER" and not _indexed_key(connection, table):
        return TableShape(columns, key, (), False, True, positions, virtual)
    nullable = tuple(column[1] for column in keyed if not column[3])
    return TableShape(columns, key, nullable, True, False, positions, virtual)


def _indexed_key(connection: Connection, table: str) -> bool:
    """Whether the primary key has an index: INTEGER PRIMARY KEY DESC is no name for the rowid."""
    indexes = connection.execute(f"PRAGMA main.index_list({quoted(table)})").fetchall()
    return any(origin == "pk" for _, _, _, origin, _ in indexes)


def has_null_key(connection: Connection, table: str, shape: TableShape) -> bool:
    """Whether the table has a row with NULL in its key."""
    condition = " OR ".join(f"{quoted(column)} IS NULL" for column in shape.nullable)
    sql = f"SELECT 1 FROM main.{quoted(table)} WHERE {condition} LIMIT 1"
    return bool(condition and connection.execute(sql).fetchall())


def tables_with_null_keys(connection: Connection) -> list[str]:
    """The tables that have rows with NULL in their primary key."""
    shapes = read_shapes(connection)
    return [name for name, shape in shapes.items() if has_null_key(connection, name, shape)]


def read_schema(connection: Connection) -> Mapping[tuple[str, str], str]:
    """``(type, name) -> sql`` of what was created by statements of its own."""
    shadows = {name for _, name, kind, *_ in _table_list(connection) if kind == "shadow"}
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL"
    ).fetchall()
    return {
        (kind, name): sql
        for kind, name, table, sql in rows
        if not name.startswith("sqlite_") and table not in shadows
    }


def _table_list(connection: Connection) -> list[Any]:
    return connection.execute("PRAGMA main.table_list").fetchall()

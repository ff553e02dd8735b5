"""Row changes as SQLite's session extension records them, and by comparison where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import apsw

from snapshots.changeset import (
    Changeset,
    Key,
    Row,
    RowChange,
    SchemaChange,
    TableChanges,
    difference,
)
from snapshots.errors import NullInKey

ROWID = "_rowid_"


class TableShape(NamedTuple):
    """The columns of a table as a session records them: without generated ones.

    A table without a primary key is keyed by ``_rowid_``, which then is its first column.
    ``nullable`` are the key's columns that may hold NULL, in rows no session records.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    nullable: tuple[str, ...]


def quoted(name: str) -> str:
    """An identifier as SQL."""
    return '"' + name.replace('"', '""') + '"'


def read_shapes(connection: apsw.Connection) -> dict[str, TableShape]:
    """The tables whose rows count: no virtual tables, nor the shadow and system tables."""
    listed = connection.execute("PRAGMA main.table_list").fetchall()
    return {
        name: _shape(connection, name, without_rowid=bool(without_rowid))
        for _, name, kind, _, without_rowid, _ in sorted(listed)
        if kind == "table" and not name.startswith("sqlite_")
    }


def _shape(connection: apsw.Connection, table: str, *, without_rowid: bool) -> TableShape:
    info = connection.execute(f"PRAGMA main.table_xinfo({quoted(table)})").fetchall()
    stored = [column for column in info if column[6] == 0]
    columns = tuple(column[1] for column in stored)
    keyed = sorted((column for column in stored if column[5]), key=lambda column: column[5])
    if not keyed:
        return TableShape((ROWID, *columns), (ROWID,), ())
    key = tuple(column[1] for column in keyed)
    is_rowid = len(keyed) == 1 and keyed[0][2].upper() == "INTEGER"
    nullable = () if without_rowid or is_rowid else tuple(c[1] for c in keyed if not c[3])
    return TableShape(columns, key, nullable)


class Recorder:
    """A session that stays attached to a connection and tells what changed since ``begin``.

    A session is attached at all times: a statement prepared while there is none is never
    recorded, not even when it runs again later with one.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._touched: set[str] = set()
        self.shapes = read_shapes(connection)
        self._session = self._attach()

    def _attach(self) -> apsw.Session:
        session = apsw.Session(self._connection, "main")
        session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, 1)
        session.table_filter(self._records)
        session.attach()
        return session

    def _records(self, table: str) -> bool:
        if table not in self.shapes:
            return False
        self._touched.add(table)
        return True

    def begin(self, *, enabled: bool) -> None:
        """Forget what was recorded; record from now on if ``enabled``."""
        if not self._session.is_empty or self._touched:
            self.renew()
        self._session.enabled = enabled

    def renew(self) -> None:
        """Begin a new session, before the old one goes."""
        old, self._touched = self._session, set()
        self._session = self._attach()
        old.close()

    def close(self) -> None:
        self._session.close()

    def changes(self) -> Changeset:
        """The net changes since ``begin``.

        Raises:
            NullInKey: a row was written that no session records.
            apsw.Error: the schema of a changed table changed too; compare the states instead.
        """
        for table in self._touched:
            self._refuse_null_keys(table)
        if self._session.is_empty:
            return Changeset()
        return self._decode(self._session.changeset())

    def _refuse_null_keys(self, table: str) -> None:
        nullable = self.shapes[table].nullable
        if not nullable:
            return
        condition = " OR ".join(f"{quoted(column)} IS NULL" for column in nullable)
        found = self._connection.execute(
            f"SELECT 1 FROM {quoted(table)} WHERE {condition} LIMIT 1"
        ).fetchall()
        if found:
            raise NullInKey(
                f"table {table} has a row with NULL in its primary key",
                hint=f"declare {', '.join(nullable)} NOT NULL",
                table=table,
            )

    def _decode(self, recorded: bytes) -> Changeset:
        tables: dict[str, TableChanges] = {}
        for change in apsw.Changeset.iter(recorded):
            name = change.name
            shape = self.shapes[name]
            table = tables.get(name)
            if table is None:
                table = tables[name] = TableChanges(shape.key)
            table.put(_row_change(shape, change))
        return Changeset(tables)


def _row_change(shape: TableShape, change: apsw.TableChange) -> RowChange:
    absent = apsw.no_change
    old, new = (
        values
        and {
            column: value
            for column, value in zip(shape.columns, values, strict=True)
            if value is not absent
        }
        for values in (change.old, change.new)
    )
    source: Row = old or new or {}
    key = {column: source[column] for column in shape.key}
    if old and new:
        old = {column: old[column] for column in new}
    return RowChange(key, old, new, change.indirect)


# --- by comparison --------------------------------------------------------------------------------


def compare(before: apsw.Connection, after: apsw.Connection) -> Changeset:
    """The changes between two states by reading both whole, schema included.

    For calls that changed the schema, where sessions fail. Costs time with the size of the
    database; nothing is known of triggers, so no row is ``indirect``.
    """
    shapes = (read_shapes(before), read_shapes(after))
    tables: dict[str, TableChanges] = {}
    for name in sorted({*shapes[0], *shapes[1]}):
        old, new = (shape.get(name) for shape in shapes)
        shape = old or new
        assert shape is not None
        if old and new and old.key != new.key:
            raise NotImplementedError
        tables[name] = _compare_rows(
            shape.key,
            _rows_by_key(before, name, old),
            {**_rows_by_key(after, name, new)},
        )
    return Changeset(tables, _compare_schemas(before, after))


def _compare_rows(key: tuple[str, ...], old: dict[Key, Row], new: dict[Key, Row]) -> TableChanges:
    changes = TableChanges(key)
    for identity, row in old.items():
        columns = dict(zip(key, identity, strict=True))
        if identity not in new:
            changes.put(RowChange(columns, row, None))
        elif change := difference(columns, row, new[identity], False):
            changes.put(change)
    for identity, row in new.items():
        if identity not in old:
            changes.put(RowChange(dict(zip(key, identity, strict=True)), None, row))
    return changes


def _rows_by_key(
    connection: apsw.Connection, table: str, shape: TableShape | None
) -> dict[Key, Row]:
    if shape is None:
        return {}
    columns = ", ".join(quoted(column) for column in shape.columns)
    rows: dict[Key, Row] = {}
    for values in connection.execute(f"SELECT {columns} FROM main.{quoted(table)}"):
        row = dict(zip(shape.columns, values, strict=True))
        rows[tuple(row[column] for column in shape.key)] = row
    return rows


def _compare_schemas(
    before: apsw.Connection, after: apsw.Connection
) -> Iterator[SchemaChange]:
    old, new = _schema(before), _schema(after)
    for identity in sorted({*old, *new}):
        if old.get(identity) != new.get(identity):
            yield SchemaChange(*identity, old.get(identity), new.get(identity))


def _schema(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    shadows = {
        name
        for _, name, kind, *_ in connection.execute("PRAGMA main.table_list")
        if kind == "shadow"
    }
    return {
        (kind, name): sql
        for kind, name, table, sql in connection.execute(
            "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL"
        )
        if not name.startswith("sqlite_") and table not in shadows
    }

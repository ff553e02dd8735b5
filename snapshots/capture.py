"""Row changes as SQLite's session extension records them, and by comparison where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import apsw

from snapshots.changeset import Changeset
from snapshots.errors import NullInKey
from snapshots.rows import Key, Row, RowChange, SchemaChange, TableChanges, difference
from snapshots.shapes import (
    ROWID,
    Connection,
    TableShape,
    has_null_key,
    quoted,
    read_schema,
    read_shapes,
)

_SURE_OF_ROWIDS = 50
"""With some more changed rows than this a session loses track of tables without a primary key: it
finds no row again that it noted before its hash table grew (at 128)."""


class Misreported(Exception):
    """A session tells what is not so. Compare the states instead."""


class Recorder:
    """A session that stays attached to a connection and tells what changed since ``begin``.

    A session is attached at all times: a statement prepared while there is none is never
    recorded, not even when it runs again later with one.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._touched: set[str] = set()
        self._enabled = True
        self._changed_before = 0
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
        if self._touched:
            old, self._touched = self._session, set()
            self._session = self._attach()
            old.close()  # after the new one is there
            self._enabled = True
        if enabled is not self._enabled:
            self._session.enabled = self._enabled = enabled
        self._changed_before = self._connection.total_changes()

    def close(self) -> None:
        self._session.close()

    def changes(self) -> Changeset:
        """The net changes since ``begin``.

        Raises:
            NullInKey: a row was written that no session records.
            Misreported, apsw.Error: sessions fail at this (the schema changed, say); compare the
                states instead.
        """
        touched = {table: self.shapes[table] for table in self._touched}
        if any(shape.key == (ROWID,) for shape in touched.values()):
            changed = self._connection.total_changes() - self._changed_before
            if changed > _SURE_OF_ROWIDS:
                raise Misreported
        _refuse_null_keys(self._connection, touched)
        return self._decode(self._session.changeset())

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


def _refuse_null_keys(connection: Connection, shapes: Mapping[str, TableShape]) -> None:
    for table, shape in shapes.items():
        if shape.nullable and has_null_key(connection, table, shape):
            raise NullInKey(
                f"table {table} has a row with NULL in its primary key",
                hint=f"declare {', '.join(shape.nullable)} NOT NULL",
                table=table,
            )


def _row_change(shape: TableShape, change: apsw.TableChange) -> RowChange:
    old, new = _row(shape, change.old), _row(shape, change.new)
    source = old or new or {}
    key = {column: source[column] for column in shape.key}
    if old and new:
        if not new.keys().isdisjoint(shape.key):
            raise Misreported  # to one that its collation holds equal: told as two changes
        old = {column: old[column] for column in new}
    return RowChange(key, old, new, change.indirect)


def _row(shape: TableShape, values: tuple[object, ...] | None) -> Row | None:
    if values is None:
        return None
    absent = apsw.no_change
    named = zip(shape.columns, values, strict=True)
    return cast("Row", {column: value for column, value in named if value is not absent})


# --- by comparison --------------------------------------------------------------------------------


def compare(before: Connection, after: Connection) -> Changeset:
    """The changes between two states by reading both whole, schema included.

    For calls that changed the schema, where sessions fail. Costs time with the size of the
    database; nothing is known of triggers, so no row is ``indirect``.

    Raises:
        NullInKey: a row was written that cannot be told from others.
    """
    old_shapes, new_shapes = read_shapes(before), read_shapes(after)
    _refuse_null_keys(after, new_shapes)
    tables: dict[str, TableChanges] = {}
    for name in {**old_shapes, **new_shapes}:
        old, new = old_shapes.get(name), new_shapes.get(name)
        if new is None:
            assert old is not None
            tables[name] = compare_rows(old, _read(before, name, old), {})
        elif old is None or old.key != new.key:
            tables[name] = compare_rows(new, {}, _read(after, name, new))
        else:
            tables[name] = compare_rows(new, _read(before, name, old), _read(after, name, new))
    return Changeset(tables, _compare_schemas(read_schema(before), read_schema(after), new_shapes))


def _compare_schemas(
    old: Mapping[tuple[str, str], str],
    new: Mapping[tuple[str, str], str],
    shapes: Mapping[str, TableShape],
) -> Iterator[SchemaChange]:
    for kind, name in {**old, **new}:
        before, after = old.get((kind, name)), new.get((kind, name))
        if before != after:
            shape = shapes.get(name) if kind == "table" else None
            yield SchemaChange(kind, name, before, after, shape.columns if shape else ())


def compare_rows(shape: TableShape, old: dict[Key, Row], new: dict[Key, Row]) -> TableChanges:
    """The changes between two sets of rows of one table, by key."""
    changes = TableChanges(shape.key)
    for identity in {**old, **new}:
        before, after = old.get(identity), new.get(identity)
        key = dict(zip(shape.key, identity, strict=True))
        if before is None or after is None:
            changes.put(RowChange(key, before, after))
        elif change := difference(key, before, after):
            changes.put(change)
    return changes


def _read(connection: Connection, table: str, shape: TableShape) -> dict[Key, Row]:
    columns = ", ".join(quoted(column) for column in shape.columns)
    found = connection.execute(f"SELECT {columns} FROM main.{quoted(table)}").fetchall()
    rows: list[Row] = [dict(zip(shape.columns, values, strict=True)) for values in found]
    return {tuple(row[column] for column in shape.key): row for row in rows}

"""Applying row and schema changes to an ordinary database, all of them or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import apsw

from snapshots.errors import ChangesetConflict
from snapshots.rows import Row, RowChange, SchemaChange, TableChanges, same
from snapshots.shapes import Connection, TableShape, quoted, read_schema, read_shapes

_ORDER = ("table", "index", "view", "trigger")


def patch(
    connection: Connection,
    tables: Mapping[str, TableChanges],
    schema: Sequence[SchemaChange],
) -> None:
    """Apply the changes in one transaction, without firing triggers or cascades.

    What those did is among the changes already, so they are out of the way meanwhile.

    Raises:
        ChangesetConflict: the database is not in the state that the changes begin with; it stays
            as it was.
    """
    if connection.in_transaction:
        raise ChangesetConflict("the connection is inside a transaction", hint="end it first")
    (foreign_keys,) = connection.execute("PRAGMA foreign_keys").fetchall()[0]
    connection.execute("PRAGMA foreign_keys=OFF").fetchall()
    try:
        connection.execute("BEGIN IMMEDIATE").fetchall()
        try:
            _Patch(connection).apply(tables, schema)
            connection.execute("COMMIT").fetchall()
        except BaseException:
            connection.execute("ROLLBACK").fetchall()
            raise
    except (apsw.Error, sqlite3.Error) as error:
        raise ChangesetConflict(f"the database refuses the changes: {error}") from error
    finally:
        connection.execute(f"PRAGMA foreign_keys={foreign_keys}").fetchall()


class _Patch:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shapes: dict[str, TableShape] = {}  # as they are once the schema has changed

    def _run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def apply(self, tables: Mapping[str, TableChanges], schema: Sequence[SchemaChange]) -> None:
        objects = read_schema(self._connection)
        target = _target(objects, schema)
        for kind, name in objects:
            if kind == "trigger":
                self._run(f"DROP TRIGGER {quoted(name)}")
        shapes = read_shapes(self._connection)
        altered = {change.name for change in schema if change.type == "table" and change.after}
        pending: list[tuple[bool, str, Row]] = []
        for name, table in tables.items():
            shape = shapes.get(name)
            if shape is not None and shape.key == table.columns:
                pending += self._take_out(name, shape, table.rows.values())
            elif name in altered:  # new, or with another key: told by all its rows
                pending += [(True, name, row.after or {}) for row in table.rows.values()]
            else:
                raise ChangesetConflict(f"there is no such table {name}", table=name)
        self._change_schema(schema)
        self._create(target, _ORDER[:-1])
        self._shapes.clear()
        # New rows last: one may be given a hidden rowid that a row coming back has had.
        for _, name, row in sorted(pending, key=itemgetter(0)):
            self._put_in(name, row)
        self._create(target, _ORDER[-1:])

    # --- schema -------------------------------------------------------------------------------

    def _change_schema(self, schema: Sequence[SchemaChange]) -> None:
        """Drop what goes, rebuild the tables that differ."""
        for change in schema:
            if change.before is None or change.type == "trigger":
                continue
            if change.type != "table":
                self._run(f"DROP {change.type} IF EXISTS {quoted(change.name)}")
            elif change.after is None:
                self._run(f"DROP TABLE {quoted(change.name)}")
            else:
                self._rebuild(change.name, change.after)

    def _rebuild(self, table: str, sql: str) -> None:
        """Make the table anew by ``sql`` and keep the rows, if they can be told by the same key."""
        old = read_shapes(self._connection).get(table)
        rows = self._read(table, old.stored) if old else []
        self._run(f"DROP TABLE {quoted(table)}")
        self._run(sql)
        self._shapes.clear()
        if old and old.key == self._shape(table).key:
            for row in rows:
                self._put_in(table, row)

    def _create(self, target: Mapping[tuple[str, str], str], kinds: Sequence[str]) -> None:
        """Create what is wanted and not there; dropping a table took its indexes with it."""
        there = read_schema(self._connection)
        for kind in kinds:
            for identity, sql in target.items():
                if identity[0] == kind and identity not in there:
                    self._run(sql)

    # --- rows ---------------------------------------------------------------------------------

    def _take_out(
        self, table: str, shape: TableShape, changes: Iterable[RowChange]
    ) -> Iterator[tuple[bool, str, Row]]:
        """Delete the rows that go or change; yields (new, table, row) to insert once all are out.

        Changed rows go out and in again, so that two rows may swap a unique value.
        """
        where = " AND ".join(f"{quoted(column)} = ?" for column in shape.key)
        for change in changes:
            key = tuple(change.key[column] for column in shape.key)
            found = self._read(table, shape.stored, where, key)
            if bool(found) == (change.before is None):
                problem = "is there already" if found else "is not there"
                raise _conflict(table, change, problem)
            if change.before is None:
                yield True, table, change.after or {}
                continue
            row = found[0]
            for column, value in change.before.items():
                if column not in row or not same(row[column], value):
                    has = repr(row[column]) if column in row else "nothing"
                    raise _conflict(table, change, f"has {column} = {has}, not {value!r}")
            self._run(f"DELETE FROM {quoted(table)} WHERE {where}", key)
            if change.after is not None:
                yield False, table, {**row, **change.after}

    def _put_in(self, table: str, row: Row) -> None:
        """Insert a row, without the columns that the table has no more."""
        stored = self._shape(table).stored
        columns = [column for column in row if column in stored]
        names = ", ".join(quoted(column) for column in columns)
        places = ", ".join("?" * len(columns))
        values = [row[column] for column in columns]
        self._run(f"INSERT INTO {quoted(table)} ({names}) VALUES ({places})", values)

    def _shape(self, table: str) -> TableShape:
        if not self._shapes:
            self._shapes = read_shapes(self._connection)
        return self._shapes[table]

    def _read(
        self, table: str, columns: Sequence[str], where: str = "1", key: Sequence[object] = ()
    ) -> list[Row]:
        names = ", ".join(quoted(column) for column in columns)
        found = self._run(f"SELECT {names} FROM {quoted(table)} WHERE {where}", key)
        return [dict(zip(columns, values, strict=True)) for values in found]  # type: ignore[arg-type]


def _target(
    objects: Mapping[tuple[str, str], str], schema: Sequence[SchemaChange]
) -> dict[tuple[str, str], str]:
    """What the schema is to be, after checking that it is what the changes begin with."""
    target = dict(objects)
    for change in schema:
        identity = (change.type, change.name)
        if target.pop(identity, None) != change.before:
            raise ChangesetConflict(
                f"{change.type} {change.name} is not what the changes begin with",
                table=change.name,
            )
        if change.after is not None:
            target[identity] = change.after
    return target


def _conflict(table: str, change: RowChange, problem: str) -> ChangesetConflict:
    return ChangesetConflict(
        f"{table} {change.key}, to be {change.kind}, {problem}", table=table, key=change.key
    )

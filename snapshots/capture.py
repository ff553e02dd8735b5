"""Row changes by comparing two states whole, where no recorder can tell them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from snapshots.changeset import Changeset
from snapshots.errors import NullInKey
from snapshots.rows import Key, Row, RowChange, SchemaChange, TableChanges, difference
from snapshots.shapes import (
    Connection,
    TableShape,
    has_null_key,
    quoted,
    read_schema,
    read_shapes,
)


def compare(before: Connection, after: Connection) -> Changeset:
    """The changes between two states by reading both whole, schema included.

    For calls that changed the schema, where recorders fail. Costs time with the size of the
    database; nothing is known of triggers, so no row is ``indirect``.

    Raises:
        NullInKey: a row was written that cannot be told from others.
    """
    old_shapes, new_shapes = read_shapes(before), read_shapes(after)
    refuse_null_keys(after, new_shapes)
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


def refuse_null_keys(connection: Connection, shapes: Mapping[str, TableShape]) -> None:
    """Refuse a state that has rows with NULL in their primary key.

    Raises:
        NullInKey: naming the table.
    """
    for table, shape in shapes.items():
        if shape.nullable and has_null_key(connection, table, shape):
            raise null_in_key(table, shape)


def null_in_key(table: str, shape: TableShape) -> NullInKey:
    """What is raised when a row of ``table`` has NULL in its primary key."""
    return NullInKey(
        f"table {table} has a row with NULL in its primary key",
        hint=f"declare {', '.join(shape.nullable)} NOT NULL",
        table=table,
    )


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

"""Row changes between two states of a database, netted per row.

As JSON a changeset is::

    {table: {"key": [column], "added": [row], "removed": [row],
             "changed": [{"key": {…}, "before": {…}, "after": {…}, "indirect": true}],
             "indirect": {"added": [0], "removed": [2]}},
     "$schema": [{"type": "table", "name": "t", "before": sql or null, "after": sql or null,
                  "columns": [column]}]}

A changed row has its full key and only the columns that differ. ``indirect`` marks what a trigger
or a cascade did: on a changed row itself, for added and removed rows as positions in their lists;
both are left out where nothing is indirect. A table without a primary key is keyed by its
``_rowid_``. Blobs are ``{"$blob": "<base64>"}``, infinities ``{"$real": "inf"}``. Tables and rows
are in a fixed order. A column that came or went with a change of the schema is only in ``after``
or only in ``before``, of every row. A table whose key columns changed is told as new: its schema
change, and all its rows as added. Rows of virtual tables (full-text indexes) are not told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

import apsw
import msgspec

from snapshots.errors import ChangesetInvalid
from snapshots.patch import patch
from snapshots.rows import Row, RowChange, SchemaChange, TableChanges, row_from_json, row_to_json
from snapshots.shapes import Connection

SCHEMA = "$schema"


class Changeset:
    """An immutable net change: what it takes to get from one state to another."""

    __slots__ = ("_schema", "_tables")

    def __init__(
        self,
        tables: Mapping[str, TableChanges] | None = None,
        schema: Iterable[SchemaChange] = (),
    ) -> None:
        self._tables = {name: table for name, table in (tables or {}).items() if table.rows}
        self._schema = {(change.type, change.name): change for change in schema}

    def __bool__(self) -> bool:
        return bool(self._tables or self._schema)

    def __len__(self) -> int:
        """The number of row changes."""
        return sum(len(table.rows) for table in self._tables.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Changeset) and self._exact() == other._exact()

    def _exact(self) -> bytes:
        return msgspec.json.encode(self.to_json(), order="sorted")  # 1 and 1.0 differ in it

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Changeset({len(self)} rows of {', '.join(self.tables) or 'no table'})"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables with changed rows, sorted."""
        return tuple(sorted(self._tables))

    @property
    def schema(self) -> tuple[SchemaChange, ...]:
        """Changes of the schema, sorted by type and name."""
        return tuple(self._schema[key] for key in sorted(self._schema))

    def key_columns(self, table: str) -> tuple[str, ...]:
        """The columns that identify a row of ``table``."""
        return self._tables[table].columns

    def rows(self, table: str) -> Iterator[RowChange]:
        """The changes of one table in the order of their keys; none if it did not change."""
        found = self._tables.get(table)
        return iter(found.sorted() if found else ())

    # --- algebra ------------------------------------------------------------------------------

    def concat(self, later: Changeset, *, gaps: bool = False) -> Changeset:
        """The net of this changeset followed by ``later``.

        With ``gaps`` somebody else's changes may lie between the two; where they touched the same
        row so that it does not continue (added twice, say), the later change stands.

        Raises:
            ChangesetInvalid: ``later`` does not begin where this one ends.
        """
        if not self:
            return later
        if not later:
            return self
        tables = dict(self._tables)
        for name, table in later._tables.items():
            tables[name] = _concat_table(name, tables.get(name), table, gaps=gaps)
        for change in later._schema.values():
            if change.columns and change.name in tables:
                tables[change.name] = _limited(tables[change.name], change.columns)
        schema = dict(self._schema)
        for key, change in later._schema.items():
            first = schema.pop(key, None)
            before = first.before if first else change.before
            if before != change.after:
                schema[key] = SchemaChange(*key, before, change.after, change.columns)
        return Changeset(tables, schema.values())

    def invert(self) -> Changeset:
        """The changeset that undoes this one."""
        tables = {
            name: TableChanges(
                table.columns, {key: row.inverted() for key, row in table.rows.items()}
            )
            for name, table in self._tables.items()
        }
        schema = (SchemaChange(c.type, c.name, c.after, c.before) for c in self._schema.values())
        return Changeset(tables, schema)

    def filter(
        self,
        *,
        tables: Collection[str] = (),
        columns: Mapping[str, Collection[str]] | None = None,
    ) -> Changeset:
        """Without the ignored ``tables`` and ``columns`` (table name to column names).

        A row of which only ignored columns changed goes too. Key columns stay.
        """
        kept: dict[str, TableChanges] = {}
        for name, table in self._tables.items():
            if name in tables:
                continue
            ignored = frozenset((columns or {}).get(name, ())) - frozenset(table.columns)
            kept[name] = _without(table, ignored) if ignored else table
        return Changeset(kept, self._schema.values())

    def apply(self, connection: sqlite3.Connection | apsw.Connection) -> None:
        """Make these changes in an ordinary database, in one transaction.

        Triggers and cascades do not fire: what they did is among the changes.

        Raises:
            ChangesetConflict: the database is not in the state that the changes begin with; it
                stays as it was.
        """
        patch(cast("Connection", connection), self._tables, self.schema)

    # --- JSON ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain data as described above; ``from_json`` reads it back."""
        data: dict[str, Any] = {name: _table_to_json(self._tables[name]) for name in self.tables}
        if self._schema:
            data[SCHEMA] = [msgspec.to_builtins(change) for change in self.schema]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Changeset:
        """The changeset that ``to_json`` gave.

        Raises:
            ChangesetInvalid: the data has another shape.
        """
        try:
            tables = {
                name: _table_from_json(table) for name, table in data.items() if name != SCHEMA
            }
            return cls(tables, msgspec.convert(data.get(SCHEMA, []), list[SchemaChange]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ChangesetInvalid(f"not a changeset: {error!r}") from error


def _concat_table(
    name: str, earlier: TableChanges | None, later: TableChanges, *, gaps: bool
) -> TableChanges:
    if earlier is None or earlier.columns != later.columns:
        return later  # with another key the later changes tell the table whole
    rows = dict(earlier.rows)
    for key, change in later.rows.items():
        first = rows.pop(key, None)
        if first is not None and not change.follows(first):
            if not gaps:
                raise ChangesetInvalid(f"{name} {first.key} was {first.kind}, then {change.kind}")
            first = None
        net = first.then(change) if first else change
        if net is not None:
            rows[key] = net
    return TableChanges(earlier.columns, rows)


def _limited(table: TableChanges, columns: Collection[str]) -> TableChanges:
    """The changes as they are told once the table has only these columns left."""
    left = {*columns, *table.columns}
    rows = {}
    for key, change in table.rows.items():
        after = change.after
        if after is not None and not after.keys() <= left:
            after = {column: value for column, value in after.items() if column in left}
            change = RowChange(change.key, change.before, after, change.indirect)
        if change.kind != "changed" or change.before or after:
            rows[key] = change
    return TableChanges(table.columns, rows)


def _without(table: TableChanges, ignored: frozenset[str]) -> TableChanges:
    def strip(row: Row | None) -> Row | None:
        return row and {column: value for column, value in row.items() if column not in ignored}

    rows = {}
    for key, change in table.rows.items():
        kept = RowChange(change.key, strip(change.before), strip(change.after), change.indirect)
        if kept.kind != "changed" or kept.before or kept.after:
            rows[key] = kept
    return TableChanges(table.columns, rows)


def _table_to_json(table: TableChanges) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {"added": [], "removed": [], "changed": []}
    indirect: dict[str, list[int]] = {}
    for change in table.sorted():
        into = lists[change.kind]
        if change.before is not None and change.after is not None:
            entry: dict[str, Any] = {
                "key": row_to_json(change.key),
                "before": row_to_json(dict(sorted(change.before.items()))),
                "after": row_to_json(dict(sorted(change.after.items()))),
            }
            if change.indirect:
                entry["indirect"] = True
            into.append(entry)
            continue
        if change.indirect:
            indirect.setdefault(change.kind, []).append(len(into))
        into.append(row_to_json(change.after or change.before or {}))
    data: dict[str, Any] = {"key": list(table.columns), **lists}
    if indirect:
        data["indirect"] = indirect
    return data


def _table_from_json(data: Mapping[str, Any]) -> TableChanges:
    table = TableChanges(tuple(data["key"]))
    indirect = data.get("indirect", {})
    for kind in ("added", "removed"):
        marked = frozenset(indirect.get(kind, ()))
        for position, entry in enumerate(data[kind]):
            row = row_from_json(entry)
            key = {column: row[column] for column in table.columns}
            before, after = (None, row) if kind == "added" else (row, None)
            table.put(RowChange(key, before, after, position in marked))
    for entry in data["changed"]:
        key, before, after = (row_from_json(entry[part]) for part in ("key", "before", "after"))
        table.put(RowChange(key, before, after, bool(entry.get("indirect", False))))
    return table

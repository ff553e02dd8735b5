"""Which tables a document has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from environments.spec import Spec

DOCUMENT: Final = "_document"
"""The table of a document's entries: each by its name, its order and, if it has no table of its
own, its value."""
IN, KEY, AT, MORE, VALUE = "_in", "_key", "_at", "_more", "value"
"""Columns that every table of a document may have: the key of the collection this row is in, the
row's own key, its place in the order, in JSON what no column holds, and a value that is no object.
"""

Kind = Literal["text", "integer", "number", "boolean", "scalar", "json"]
_TYPES: Final[dict[Kind, str]] = {
    "text": " TEXT",
    "integer": " INTEGER",
    "number": "",  # no affinity: 10 stays an integer and 10.0 a float
    "boolean": " BOOLEAN",
    "scalar": "",
    "json": " TEXT",
}


class Column(Spec, frozen=True, kw_only=True):
    """Where the entries' field ``field`` stands."""

    field: str
    name: str
    kind: Kind
    optional: bool = False
    """Whether NULL says that the field is not there; otherwise, that it is null."""


class Entry(Spec, frozen=True, kw_only=True):
    """A collection with a table of its own."""

    table: str
    kind: Literal["dict", "list"]
    columns: tuple[Column, ...] = ()
    """Where the fields of its objects stand; of ``value`` alone if they are no objects."""
    spread: bool = False
    """Whether its members are objects, their fields in columns."""
    keyed_by: str = ""
    """Of a list: the field whose value is the row's key. Without it, that is the place."""
    inner: Entry | None = None
    """Its members are collections themselves, their members in this table."""

    @property
    def ordered(self) -> bool:
        """Whether the order of the rows is not that of their keys."""
        return self.kind == "dict" or bool(self.keyed_by)


class Layout(Spec, frozen=True, kw_only=True):
    """The entries of a document that have tables, by name; all others are in ``_document``."""

    entries: Mapping[str, Entry] = msgspec.field(default_factory=dict)

    def tables(self) -> Iterator[tuple[Entry, bool]]:
        """Every collection, and whether it is one of many inside another."""
        for entry in self.entries.values():
            yield entry, False
            if entry.inner is not None:
                yield entry.inner, True


def columns_of(entry: Entry, *, nested: bool) -> list[str]:
    """The names of a table's columns, the key first."""
    names = [IN, KEY] if nested else [KEY]
    if entry.ordered:
        names.append(AT)
    return [*names, *(column.name for column in entry.columns), MORE]


def key_width(*, nested: bool) -> int:
    return 2 if nested else 1


def schema_sql(layout: Layout) -> str:
    """The statements that create the tables of a layout."""
    body = f"  name TEXT NOT NULL PRIMARY KEY,\n  {AT} INTEGER NOT NULL,\n  value TEXT"
    parts = [f"CREATE TABLE {DOCUMENT} (\n{body}\n) WITHOUT ROWID;"]
    for entry, nested in layout.tables():
        kinds = {column.name: _TYPES[column.kind] for column in entry.columns}
        lines = []
        for name in columns_of(entry, nested=nested):
            if name in (IN, KEY):
                lines.append(f"  {name} NOT NULL")
            elif name == AT:
                lines.append(f"  {AT} INTEGER NOT NULL")
            else:
                lines.append(f'  "{name}"{kinds.get(name, " TEXT")}')
        key = f"{IN}, {KEY}" if nested else KEY
        body = ",\n".join([*lines, f"  PRIMARY KEY ({key})"])
        parts.append(f'CREATE TABLE "{entry.table}" (\n{body}\n) WITHOUT ROWID;')
    return "\n\n".join(parts) + "\n"

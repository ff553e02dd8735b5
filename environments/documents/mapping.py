"""A document as rows, and rows as the document. Pure: no database is touched here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from environments.documents.codec import from_text, storable_number, storable_text, to_text
from environments.documents.layout import DOCUMENT, Column, Entry, Layout, columns_of, key_width

Row = tuple[Any, ...]
Table = dict[Row, Row]
"""Rows by their key, each whole."""
Rows = dict[str, Table]
_WHOLE: Final = -1
"""The place of the one row that is a document which has no entries."""
_LARGEST: Final = 1 << 63


def is_key(value: Any) -> bool:
    """Whether a row can be known by it."""
    if type(value) is int:
        return -_LARGEST <= value < _LARGEST
    return type(value) is str and storable_text(value)


def fits(entry: Entry, value: Any) -> bool:
    """Whether a value can be held in an entry's table, member by member."""
    if entry.kind == "dict":
        return type(value) is dict and all(map(is_key, value))
    if type(value) is not list:
        return False
    if not entry.keyed_by:
        return True
    keys = [item.get(entry.keyed_by) if type(item) is dict else None for item in value]
    return all(map(is_key, keys)) and len(set(keys)) == len(keys)


# --- to rows --------------------------------------------------------------------------------------


def encode(layout: Layout, document: Any, before: Rows | None = None) -> Rows:
    """The rows of a document. With the rows that were there ``before``, members that stay keep
    their place, so that one more or less changes no other row. Raises ``NotADocument``."""
    before = before or {}
    rows: Rows = {table: {} for table in (DOCUMENT, *(entry.table for entry, _ in layout.tables()))}
    if type(document) is not dict or not all(
        type(name) is str and storable_text(name) for name in document
    ):
        rows[DOCUMENT][("",)] = ("", _WHOLE, to_text(document))
        return rows
    places = _places(((name,) for name in document), before.get(DOCUMENT, {}), 1)
    for (name, value), place in zip(document.items(), places, strict=True):
        entry = layout.entries.get(name)
        if entry is not None and fits(entry, value):
            _spread(entry, value, (), rows, before)
            rows[DOCUMENT][(name,)] = (name, place, None)
        else:
            rows[DOCUMENT][(name,)] = (name, place, to_text(value))
    return rows


def _spread(entry: Entry, value: Any, inside: Row, rows: Rows, before: Rows) -> None:
    """Put the members of a collection into its table."""
    table, earlier = rows[entry.table], before.get(entry.table, {})
    keys: list[Any]
    if entry.kind == "dict":
        keys, members = list(value), list(value.values())
    else:
        members = value
        keys = [item[entry.keyed_by] for item in value] if entry.keyed_by else [*range(len(value))]
    places: Iterable[Row] = ((),) * len(keys)
    if entry.ordered:
        width = len(inside) + 1
        found = _places(((*inside, key) for key in keys), earlier, width)
        places = ((place,) for place in found)
    for key, member, place in zip(keys, members, places, strict=True):
        if entry.inner is None:
            rest = _fields(entry, member) if entry.spread else _value(entry.columns[0], member)
        elif fits(entry.inner, member):
            _spread(entry.inner, member, (key,), rows, before)
            rest = (None,)
        else:
            rest = (to_text({"whole": member}),)
        table[(*inside, key)] = (*inside, key, *place, *rest)


def _places(keys: Iterable[Row], earlier: Table, at: int) -> Iterator[int]:
    """Numbers that rise; those of before as far as they do."""
    last = 0
    for key in keys:
        row = earlier.get(key)
        last = row[at] if row is not None and row[at] > last else last + 1
        yield last


def _value(column: Column, member: Any) -> Row:
    if member is None:
        return (None, None)
    if _HOLDS[column.kind](member):
        return (_stored(column, member), None)
    return (None, to_text({"whole": member}))


def _fields(entry: Entry, member: Any) -> Row:
    if type(member) is not dict:
        return (*(None for _ in entry.columns), to_text({"whole": member}))
    row: list[Any] = []
    absent, order, left = [], [], dict(member)
    for column in entry.columns:
        field = column.field
        if field not in member:
            row.append(None)
            if not column.optional:
                absent.append(field)
            continue
        order.append(field)
        value = member[field]
        if value is None and not column.optional:
            row.append(None)
        elif value is not None and _HOLDS[column.kind](value):
            row.append(_stored(column, value))
        else:
            row.append(None)
            continue
        del left[field]
    more: dict[str, Any] = {}
    if left:
        more["values"] = left
    if absent:
        more["absent"] = absent
    order += [field for field in left if field not in order]
    if order != list(member):
        more["order"] = list(member)
    return (*row, to_text(more) if more else None)


def _stored(column: Column, value: Any) -> Any:
    if column.kind == "json":
        return to_text(value)
    return int(value) if column.kind == "boolean" else value


def _is_scalar(value: Any) -> bool:
    if type(value) is float:
        return storable_number(value)
    return is_key(value)


_HOLDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "text": lambda value: type(value) is str and storable_text(value),
    "integer": lambda value: type(value) is int and is_key(value),
    "number": lambda value: type(value) is not str and _is_scalar(value),
    "boolean": lambda value: type(value) is bool,
    "scalar": _is_scalar,
    "json": lambda value: True,
}


# --- and back -------------------------------------------------------------------------------------


def decode(layout: Layout, rows: Rows) -> Any:
    """The document of the rows."""
    entries = sorted(rows[DOCUMENT].values(), key=lambda row: row[1])
    if len(entries) == 1 and entries[0][1] == _WHOLE:
        return from_text(entries[0][2])
    document: dict[str, Any] = {}
    for name, _, text in entries:
        if text is not None:
            document[name] = from_text(text)
        else:
            entry = layout.entries[name]
            inner = _gathered(entry.inner, rows, nested=True) if entry.inner is not None else {}
            document[name] = _gathered(entry, rows, nested=False, inner=inner).get(
                None, {} if entry.kind == "dict" else []
            )
    return document


def _gathered(
    entry: Entry, rows: Rows, *, nested: bool, inner: Mapping[Any, Any] | None = None
) -> dict[Any, Any]:
    """The collections in a table, by the key of that which they are in (None without one)."""
    width = key_width(nested=nested)
    at = width if entry.ordered else width - 1
    first = width + entry.ordered
    found: dict[Any, Any] = {}
    for row in sorted(rows[entry.table].values(), key=lambda row: row[at]):
        key, cells = row[width - 1], row[first:]
        if entry.inner is not None:
            member = from_text(cells[0])["whole"] if cells[0] else (inner or {}).get(key)
            if cells[0] is None and member is None:
                member = {} if entry.inner.kind == "dict" else []
        elif entry.spread:
            member = _object(entry, cells)
        elif cells[1] is not None:
            member = from_text(cells[1])["whole"]
        else:
            member = None if cells[0] is None else _loaded(entry.columns[0], cells[0])
        inside = row[0] if nested else None
        if entry.kind == "dict":
            found.setdefault(inside, {})[key] = member
        else:
            found.setdefault(inside, []).append(member)
    return found


def _object(entry: Entry, cells: Row) -> Any:
    more = from_text(cells[-1]) if cells[-1] is not None else {}
    if "whole" in more:
        return more["whole"]
    values, absent = more.get("values", {}), more.get("absent", ())
    found: dict[Any, Any] = {}
    for column, cell in zip(entry.columns, cells, strict=False):
        field = column.field
        if field in values:
            found[field] = values[field]
        elif cell is not None:
            found[field] = _loaded(column, cell)
        elif not column.optional and field not in absent:
            found[field] = None
    found |= values
    order = more.get("order")
    return found if order is None else {field: found[field] for field in order}


def _loaded(column: Column, cell: Any) -> Any:
    if column.kind == "json":
        return from_text(cell)
    return bool(cell) if column.kind == "boolean" else cell


def columns(layout: Layout) -> dict[str, list[str]]:
    """The columns of every table, in the order in which rows have them."""
    return {DOCUMENT: ["name", "_at", "value"]} | {
        entry.table: columns_of(entry, nested=nested) for entry, nested in layout.tables()
    }

"""Rows, and how one row differs between two states."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from snapshots.errors import ChangesetInvalid

Value = int | float | str | bytes | None
Row = dict[str, Value]
Key = tuple[Value, ...]


def same(left: Value, right: Value) -> bool:
    """Whether SQLite would store the same: 1 and 1.0 differ, unlike in Python."""
    return left == right and type(left) is type(right)


def rank(key: Key) -> tuple[tuple[int, Any], ...]:
    """To sort keys in SQLite's own order: null, numbers, text, blobs."""
    return tuple((_CLASS[type(value)], 0 if value is None else value) for value in key)


_PLAIN = frozenset((type(None), int, str))
"""Types whose every value is itself in JSON."""

_CLASS = {type(None): 0, int: 1, bool: 1, float: 1, str: 2, bytes: 3}


class RowChange(msgspec.Struct, frozen=True):
    """One row, before and after; ``None`` where it does not exist.

    For a changed row ``before`` and ``after`` have only the columns that differ; one that came or
    went with a change of the schema is in one of them. ``indirect`` says that a trigger or a
    cascade alone did it.
    """

    key: Row
    before: Row | None
    after: Row | None
    indirect: bool = False

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def inverted(self) -> RowChange:
        """The change that undoes this one."""
        return RowChange(self.key, self.after, self.before, self.indirect)

    def follows(self, earlier: RowChange) -> bool:
        """Whether this change can come after ``earlier`` on the same row."""
        return (earlier.after is None) == (self.before is None)

    def then(self, later: RowChange) -> RowChange | None:
        """This change and ``later``, which follows it, as one; None if they cancel."""
        indirect = self.indirect and later.indirect
        before, after = self.before, later.after
        if later.kind == "changed":
            after = {**(self.after or {}), **(later.after or {})}
        if self.kind == "changed" and self.before is not None and self.after is not None:
            new = self.after.keys() - self.before.keys()  # columns that were not there before
            old = {name: value for name, value in (later.before or {}).items() if name not in new}
            before = {**old, **self.before}
        if before is None and after is None:
            return None
        if before is None or after is None:
            return RowChange(self.key, before, after, indirect)
        return difference(self.key, before, after, indirect=indirect)


def difference(key: Row, before: Row, after: Row, *, indirect: bool = False) -> RowChange | None:
    """The change between two versions of a row, or None if there is none.

    A column that only one of them has came or went with a change of the schema, and counts.
    """
    equal = {
        column
        for column in before.keys() & after.keys()
        if column in key or same(before[column], after[column])
    }
    old = {column: value for column, value in before.items() if column not in equal}
    new = {column: value for column, value in after.items() if column not in equal}
    return RowChange(key, old, new, indirect) if old or new else None


class SchemaChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table, index, view or trigger whose SQL differs; ``None`` where it does not exist.

    ``columns`` are those that the rows of a table have afterwards, if known.
    """

    type: str
    name: str
    before: str | None
    after: str | None
    columns: tuple[str, ...] = ()


class TableChanges:
    """The changes of one table, by key. ``columns`` are those of the key, in its order."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: tuple[str, ...], rows: dict[Key, RowChange] | None = None) -> None:
        self.columns = columns
        self.rows = {} if rows is None else rows

    def put(self, change: RowChange) -> None:
        """Note a change of a row that has none here yet."""
        self.rows[tuple(change.key[column] for column in self.columns)] = change

    def sorted(self) -> list[RowChange]:
        """The changes in the order of their keys."""
        return [self.rows[key] for key in sorted(self.rows, key=rank)]


# --- JSON -----------------------------------------------------------------------------------------


def row_to_json(row: Row) -> dict[str, Any]:
    """A row as JSON: blobs as ``{"$blob": base64}``, infinities as ``{"$real": "inf"}``."""
    return {
        column: value if type(value) in _PLAIN else _value_to_json(value)
        for column, value in row.items()
    }


def row_from_json(row: Mapping[str, Any]) -> Row:
    """The inverse of ``row_to_json``."""
    return {column: _value_from_json(value) for column, value in row.items()}


def _value_to_json(value: Value) -> Any:
    if isinstance(value, bytes):
        return {"$blob": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and math.isinf(value):
        return {"$real": repr(value)}
    return value


def _value_from_json(value: Any) -> Value:
    if isinstance(value, Mapping):
        if "$blob" in value:
            return base64.b64decode(value["$blob"], validate=True)
        return float(value["$real"])
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise ChangesetInvalid(f"{value!r} is no value of a row")

"""SQLite's records: the bytes of a row, their values, and how index keys sort."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from snapshots.errors import StateDamaged
from snapshots.rows import Key, Value

_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_REAL, _ZERO, _ONE, _BLOB = 7, 8, 9, 12


class Entry(NamedTuple):
    """A row in a tree: its rowid (None in an index-like tree) and its record."""

    rowid: int | None
    record: bytes


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of SQLite's variable length, signed as 64 bits, and where it ends.

    Raises ``IndexError`` where the data end first.
    """
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for position in range(at + 1, at + 8):
        byte = data[position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def values(record: bytes, most: int) -> Key:
    """The first ``most`` values of a record, as stored (an integral REAL may be an integer).

    Raises:
        StateDamaged: it is no record.
    """
    found: list[Value] = []
    try:
        end, at = varint(record, 0)
        data = end
        while at < end and len(found) < most:
            kind, at = varint(record, at)
            value, data = _value(record, kind, data)
            found.append(value)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise StateDamaged(f"a row is no record: {error}") from error
    return tuple(found)


def _value(record: bytes, kind: int, at: int) -> tuple[Value, int]:
    if kind >= _BLOB:
        size = (kind - _BLOB) // 2
        data = record[at : at + size]
        if len(data) != size:
            raise IndexError("a value is cut short")
        return (data.decode() if kind % 2 else data), at + size
    if kind == _REAL:
        return struct.unpack_from(">d", record, at)[0], at + 8
    if kind in (_ZERO, _ONE):
        return kind - _ZERO, at
    if kind == 0:
        return None, at
    if kind > _REAL:
        raise IndexError(f"there is no type {kind}")
    size = _INTEGER_BYTES[kind]
    if at + size > len(record):
        raise IndexError("a value is cut short")
    return int.from_bytes(record[at : at + size], "big", signed=True), at + size


class KeyColumn(NamedTuple):
    """One column that an index-like tree is sorted by."""

    collation: str
    descending: bool


class Order:
    """How the keys of an index-like tree sort."""

    def __init__(self, columns: Sequence[KeyColumn]) -> None:
        self.columns = tuple(columns)

    def key(self, record: bytes) -> Key:
        """The key of a record, in the order of ``columns``. Raises ``StateDamaged``."""
        key = values(record, len(self.columns))
        if len(key) < len(self.columns):
            raise StateDamaged("a row has only a part of its key")
        return key

    def compare(self, left: Key, right: Key) -> int:
        """Below, at or above 0 as ``left`` sorts before, with or after ``right``."""
        for column, one, other in zip(self.columns, left, right, strict=False):
            first, second = _rank(one, column.collation), _rank(other, column.collation)
            if first != second:
                return -1 if (first < second) is not column.descending else 1
        return 0


def _rank(value: Value, collation: str) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, (int, float)):
        return 1, value
    if isinstance(value, bytes):
        return 3, value
    if collation == "NOCASE":
        value = value.translate(_FOLDED)
    elif collation == "RTRIM":
        value = value.rstrip(" ")
    return 2, value.encode()


_FOLDED = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

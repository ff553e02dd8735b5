"""The rows of a document in a database: read, and written as the changes they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import apsw

from environments.documents.layout import DOCUMENT, Layout, key_width
from environments.documents.mapping import Row, Rows, Table, columns
from snapshots.shapes import quoted


class _Words(NamedTuple):
    """The statements of one table."""

    table: str
    width: int
    """How many of the first columns are the key."""
    names: list[str]
    select: str
    insert: str
    delete: str


@lru_cache(maxsize=16)
def _all_words(names: tuple[tuple[str, int, tuple[str, ...]], ...]) -> list[_Words]:
    found = []
    for table, width, fields in names:
        listed, marks = ", ".join(map(quoted, fields)), ", ".join("?" * len(fields))
        where = " AND ".join(f"{quoted(name)} = ?" for name in fields[:width])
        found.append(
            _Words(
                table,
                width,
                list(fields),
                f"SELECT {listed} FROM {quoted(table)}",
                f"INSERT INTO {quoted(table)} ({listed}) VALUES ({marks})",
                f"DELETE FROM {quoted(table)} WHERE {where}",
            )
        )
    return found


def _words(layout: Layout) -> list[_Words]:
    widths = {DOCUMENT: 1} | {e.table: key_width(nested=nested) for e, nested in layout.tables()}
    return _all_words(
        tuple((table, widths[table], tuple(names)) for table, names in columns(layout).items())
    )


def read_rows(connection: apsw.Connection, layout: Layout) -> Rows:
    """All rows of a document."""
    return {
        words.table: {row[: words.width]: row for row in connection.execute(words.select)}
        for words in _words(layout)
    }


def write_rows(connection: apsw.Connection, layout: Layout, before: Rows, after: Rows) -> bool:
    """Make the rows ``before`` those ``after``: only what differs is written, column by column.

    Returns whether anything was.
    """
    written = False
    for words in _words(layout):
        for key, old, new in _differences(before.get(words.table, {}), after[words.table]):
            written = True
            if new is None:
                connection.execute(words.delete, key)
            elif old is None:
                connection.execute(words.insert, new)
            else:
                names = [n for n, a, b in zip(words.names, old, new, strict=True) if _differ(a, b)]
                sets = ", ".join(f"{quoted(name)} = ?" for name in names)
                where = " AND ".join(f"{quoted(name)} = ?" for name in words.names[: words.width])
                values = [b for a, b in zip(old, new, strict=True) if _differ(a, b)]
                connection.execute(
                    f"UPDATE {quoted(words.table)} SET {sets} WHERE {where}", (*values, *key)
                )
    return written


def statements(layout: Layout, before: Rows, after: Rows, prefix: str = "") -> Iterator[str]:
    """SQL that makes the rows ``before`` those ``after``, to be run without parameters, where the
    tables have a ``prefix``."""
    for words in _words(layout):
        table = quoted(prefix + words.table)
        for key, old, new in _differences(before.get(words.table, {}), after[words.table]):
            if old is not None:
                pairs = zip(words.names, key, strict=False)
                where = " AND ".join(f"{quoted(name)} = {_literal(value)}" for name, value in pairs)
                yield f"DELETE FROM {table} WHERE {where}"
            if new is not None:
                yield f"INSERT INTO {table} VALUES ({', '.join(map(_literal, new))})"


def _differences(before: Table, after: Table) -> Iterator[tuple[Row, Row | None, Row | None]]:
    """Key, old row and new row, the vanished first."""
    for key, old in before.items():
        if key not in after:
            yield key, old, None
    for key, new in after.items():
        earlier = before.get(key)
        if earlier is None or any(map(_differ, earlier, new)):
            yield key, earlier, new


def _differ(one: Any, other: Any) -> bool:
    return one != other or type(one) is not type(other)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if type(value) is str:
        if "\0" in value:
            return f"CAST(X'{value.encode().hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"
    return repr(value)

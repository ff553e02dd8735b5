"""Queries on the initial state, as values: looked over when a pack loads, never run before a run is
judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import apsw

from environments.assertions.evidence import State
from environments.assertions.words import PENDING, TableInfo, unknown
from environments.errors import PackInvalid
from snapshots.shapes import ROWID, quoted

_READS = {
    apsw.SQLITE_SELECT,
    apsw.SQLITE_READ,
    apsw.SQLITE_FUNCTION,
    apsw.SQLITE_RECURSIVE,
}
_MISSING = re.compile(r"no such (table|column): (?:.*\.)?(.+)")


class QueryCheck:
    """Prepares queries against empty tables. ``count`` is how many it was shown."""

    def __init__(self, tables: Mapping[str, TableInfo]) -> None:
        self.count = 0
        self._tables = tables

    def value_of(self, sql: str, place: str) -> Any:
        """``PENDING``. Raises ``PackInvalid`` naming a table or column that there is not, and for
        what is not one query for one value."""
        self.count += 1
        with closing(apsw.Connection(":memory:")) as connection:
            for name, info in self._tables.items():
                columns = ", ".join(quoted(column) for column in info.columns if column != ROWID)
                connection.execute(f"CREATE TABLE {quoted(name)} ({columns or '_'})")
            connection.authorizer = _authorize
            with closing(connection.cursor()) as cursor:
                # One statement, and only explained: nothing of a pack's SQL runs here.
                cursor.exec_trace = lambda cursor, *_: cursor.is_explain == 1
                try:
                    cursor.execute(f"EXPLAIN SELECT (\n{sql.strip().rstrip(';')}\n)").fetchall()
                except apsw.Error as error:
                    raise self._problem(place, sql, error) from None
        return PENDING

    def _problem(self, place: str, sql: str, error: apsw.Error) -> PackInvalid:
        missing = _MISSING.fullmatch(str(error))
        if missing:
            what, name = missing.groups()
            columns = {column for info in self._tables.values() for column in info.columns}
            return unknown(name, f"{place}.sql", self._tables if what == "table" else columns, what)
        return PackInvalid(
            f"{place}.sql: not a query for one value: {error}",
            hint="one SELECT of one column and one row",
        )


def run_once(initial: State) -> Callable[[str, str], Any]:
    """What gives the value of each query on ``initial``, asking once."""
    known: dict[str, Any] = {}

    def value_of(sql: str, place: str) -> Any:
        if sql not in known:
            known[sql] = initial.scalar(sql)
        return known[sql]

    return value_of


def _authorize(operation: int, *_: str | None) -> int:
    return apsw.SQLITE_OK if operation in _READS else apsw.SQLITE_DENY

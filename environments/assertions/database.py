"""A ``State`` on an open SQLite connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, Final

import apsw

from environments.assertions.words import TableInfo
from environments.errors import PackInvalid
from snapshots.rows import row_from_json, row_to_json
from snapshots.shapes import quoted

_SLACK: Final = 2e-9
"""Twice the tolerance with which matchers compare numbers: SQL must not sift more finely."""


class DatabaseState:
    """Reads through ``connection``, which its owner opens and closes. Lookups go by key or by the
    columns asked for, so their cost does not grow with the database where an index has those.

    A table or column that the run dropped has no rows.
    """

    def __init__(self, connection: apsw.Connection, tables: Mapping[str, TableInfo]) -> None:
        self._connection = connection
        self._tables = tables

    def row(self, table: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        where = " AND ".join(f"{_cell(table, column)} IS ?" for column in key) or "0"
        rows = self._select(table, where, tuple(row_from_json(key).values()))
        return next(rows, None)

    def rows(self, table: str, like: Mapping[str, str | int]) -> Iterator[dict[str, Any]]:
        conditions, values = ["1"], list[Any]()
        for column, value in like.items():
            if isinstance(value, str):
                conditions.append(f"{_cell(table, column)} = ?")
                values.append(value)
            else:
                slack = max(1.0, abs(value)) * _SLACK
                conditions.append(f"{_cell(table, column)} BETWEEN ? AND ?")
                values += (value - slack, value + slack)
        return self._select(table, " AND ".join(conditions), tuple(values))

    def scalar(self, sql: str) -> Any:
        try:
            with closing(self._connection.cursor()) as cursor:
                found = list(islice(cursor.execute(sql), 2))
        except apsw.Error as error:
            raise PackInvalid(f"sql {sql!r} fails on the initial state: {error}") from error
        if len(found) != 1 or len(found[0]) != 1:
            shape = f"{len(found)} rows" if len(found) != 1 else f"{len(found[0])} columns"
            shape = "several rows" if len(found) > 1 else shape
            raise PackInvalid(f"sql {sql!r} gives {shape}, and must give one value")
        return row_to_json({"": found[0][0]})[""]

    def _select(self, table: str, where: str, values: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
        info = self._tables.get(table)
        if info is None:
            return
        columns = ", ".join(_cell(table, column) for column in info.columns)
        with closing(self._connection.cursor()) as cursor:
            try:
                cursor.execute(f"SELECT {columns} FROM {quoted(table)} WHERE {where}", values)
            except apsw.SQLError as error:
                if str(error).startswith("no such"):
                    return
                raise
            for row in cursor:
                yield row_to_json(dict(zip(info.columns, row, strict=True)))


def _cell(table: str, column: str) -> str:
    """With its table, since SQLite takes a quoted name that is no column for text."""
    return f"{quoted(table)}.{quoted(column)}"

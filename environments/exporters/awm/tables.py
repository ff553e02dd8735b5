"""A snapshot's tables and rows as statements, in an order that foreign keys accept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw

from environments.errors import PackInvalid
from snapshots.pages import Snapshot
from snapshots.shapes import ROWID, quoted, read_shapes


def tables_of(snapshot: Snapshot) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """``tables`` of AWM's ``db_schema`` and of its ``sample_data``.

    Raises ``PackInvalid`` for virtual tables, which have rows that inserts do not make.
    """
    connection = apsw.Connection(snapshot.uri, flags=_READING)
    with closing(connection):
        schema: list[Any] = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
        ).fetchall()
        if any(sql.upper().startswith("CREATE VIRTUAL") for *_, sql in schema):
            raise PackInvalid("virtual tables cannot be told in AWM's files")
        names = [name for kind, name, *_ in schema if kind == "table" and name[:7] != "sqlite_"]
        ordered = list(_parents_first(connection, names))
        defined: list[dict[str, Any]] = [
            {
                "name": name,
                "ddl": next(sql for kind, it, _, sql in schema if (kind, it) == ("table", name)),
                "indexes": [sql for kind, _, of, sql in schema if (kind, of) == ("index", name)],
            }
            for name in ordered
        ]
        filled = [
            {
                "table_name": name,
                "reasoning": "as the pack has it",
                "insert_statements": list(_inserts(connection, name)),
            }
            for name in ordered
        ]
        later = [sql for kind, *_, sql in schema if kind in ("view", "trigger")]
        if later:  # triggers would act on the rows again
            why = "rows come first"
            filled.append({"table_name": "", "reasoning": why, "insert_statements": later})
    return defined, filled


_READING = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def _parents_first(connection: apsw.Connection, names: list[str]) -> Iterator[str]:
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> Iterator[str]:
        if name in done or name in trail or name not in names:
            return
        sql = 'SELECT DISTINCT "table" FROM pragma_foreign_key_list(?)'
        parent: Any
        for (parent,) in connection.execute(sql, (name,)).fetchall():
            yield from visit(parent, (*trail, name))
        done.add(name)
        yield name

    for name in names:
        yield from visit(name, ())


def _inserts(connection: apsw.Connection, table: str) -> Iterator[str]:
    """One statement a row, parents of the same table first."""
    shape = read_shapes(connection)[table]
    columns = [column for column in shape.columns if column != ROWID]
    listed = ", ".join(map(quoted, columns))
    rows = connection.execute(f"SELECT {listed} FROM {quoted(table)}").fetchall()
    sql = 'SELECT "from", "to" FROM pragma_foreign_key_list(?1) WHERE "table" = ?1'
    found: list[Any] = connection.execute(sql, (table,)).fetchall()
    links = [
        (columns.index(child), columns.index(parent or shape.key[0])) for child, parent in found
    ]
    for row in _own_parents_first(rows, links):
        values = ", ".join(map(apsw.format_sql_value, row))
        yield f"INSERT INTO {quoted(table)} ({listed}) VALUES ({values});"


def _own_parents_first(
    waiting: list[tuple[Any, ...]], links: list[tuple[int, int]]
) -> Iterator[tuple[Any, ...]]:
    while waiting:
        ready: list[tuple[Any, ...]] = []
        later: list[tuple[Any, ...]] = []
        absent = [{row[parent] for row in waiting} for _, parent in links]
        for row in waiting:
            waits = any(
                row[child] in missing and row[child] != row[parent]
                for (child, parent), missing in zip(links, absent, strict=True)
            )
            (later if waits else ready).append(row)
        yield from ready or later  # a ring: as they stand
        waiting = later if ready else []

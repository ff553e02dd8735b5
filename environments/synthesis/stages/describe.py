"""An environment in words, as a prompt bears it: its tools, its tables, their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import msgspec

from environments.environment import Environment
from environments.spec import ToolSpec
from snapshots.shapes import quoted

MOST_ROWS: Final = 40
"""Of a table that a prompt shows."""
MOST_TEXT: Final = 120
"""Characters of a cell that are shown."""


def tools_and_rows(environment: Environment) -> str:
    """Tools with their arguments, then every table with its first rows."""
    tools = "\n".join(map(_tool, environment.tools.values()))
    tables = "\n\n".join(_tables(environment))
    return f"## Tools\n\n{tools}\n\n## Data\n\n{tables}"


def row_counts(environment: Environment) -> Mapping[str, int]:
    """How many rows each table has at the start."""
    with closing(_database(environment)) as database:
        return {
            table: database.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0]
            for table in environment.tables
        }


def _tool(tool: ToolSpec) -> str:
    kind = "reads" if tool.read_only else "writes"
    schema = {key: tool.input_schema.get(key) for key in ("properties", "required", "$defs")}
    given = {key: value for key, value in schema.items() if value}
    return f"- {tool.name} ({kind}): {tool.description}\n  arguments: {as_json(given)}"


def _tables(environment: Environment) -> Iterator[str]:
    with closing(_database(environment)) as database:
        database.text_factory = lambda raw: raw.decode(errors="replace")[:MOST_TEXT]
        for table, info in environment.tables.items():
            names = ", ".join(map(quoted, info.columns))
            found = database.execute(f"SELECT {names} FROM {quoted(table)}").fetchall()
            rows = [
                as_json(["(blob)" if isinstance(cell, bytes) else cell for cell in row])
                for row in found[:MOST_ROWS]
            ]
            if len(found) > MOST_ROWS:
                rows.append(f"... and {len(found) - MOST_ROWS} more rows")
            yield "\n".join([f"{table} ({', '.join(info.columns)})", *rows])


def _database(environment: Environment) -> sqlite3.Connection:
    return sqlite3.connect(environment.snapshot.uri, uri=True)


def as_json(value: Any) -> str:
    """In one line."""
    return msgspec.json.encode(value).decode()

"""What stands in an initial database: which rows there are, what tells one apart, what refers to
what. For a world, of all its members, by the world's names."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from environments.environment import Environment
from environments.joint import joined
from environments.names import singular
from environments.world import World
from snapshots.shapes import quoted

Scalar = str | int | float
_TOKEN: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Kind(NamedTuple):
    """What a value names: a row, by a column that no two rows share; without a table, a thing that
    is no row of the beginning and goes by this name."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it begins."""

    name: str
    columns: tuple[str, ...]
    unique: tuple[str, ...]
    """Columns that tell rows apart, each alone; the primary key first."""
    refers: Mapping[str, str]
    """Columns that name a row of another table, and which."""
    rows: tuple[Mapping[str, Any], ...]

    @property
    def noun(self) -> tuple[str, ...]:
        """What one row is, in words: ``("stock", "item")``."""
        tokens = tokens_of(self.name.rpartition("__")[2])
        return (*tokens[:-1], singular(tokens[-1])) if tokens else ("row",)


class Tables:
    """The tables of an environment at the start, read once."""

    def __init__(self, environment: Environment) -> None:
        self._tables = dict(_read(environment))
        self._values: dict[tuple[str, str], dict[Any, list[Mapping[str, Any]]]] = {}
        self._cells: Counter[str] = Counter()
        self._index = {
            Kind(table.name, column): {row[column]: row for row in table.rows}
            for table in self._tables.values()
            for column in table.unique
        }

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    @property
    def kinds(self) -> Sequence[Kind]:
        """All that a value can name a row by."""
        return list(self._index)

    def named(self, tokens: tuple[str, ...]) -> list[Any]:
        """The values of the column that a name speaks of: ``("campaign", "title")``."""
        for table in self:
            for column in table.columns:
                own = tokens_of(column)
                if tokens in ((*table.noun, *own), (*table.noun[-1:], *own)):
                    return self.values(table.name, column)
        return []

    def values(self, table: str, column: str) -> list[Any]:
        """The texts and numbers of a column, each once."""
        found = dict.fromkeys(row[column] for row in self._tables[table].rows)
        return [value for value in found if isinstance(value, str | int | float)]

    def row(self, kind: Kind, value: Any) -> Mapping[str, Any] | None:
        """The row that a value names, if there is one at the start."""
        return self._index.get(kind, {}).get(value)

    def alike(self, table: str, values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The rows that have these values."""
        if not values:
            return list(self._tables[table].rows)
        column, value = next(iter(values.items()))
        rows = self._by_value(table, column).get(value, ())
        return [row for row in rows if all(row[name] == one for name, one in values.items())]

    def _by_value(self, table: str, column: str) -> Mapping[Any, Sequence[Mapping[str, Any]]]:
        found = self._values.get((table, column))
        if found is None:
            found = self._values[table, column] = defaultdict(list)
            for row in self._tables[table].rows:
                found[row[column]].append(row)
        return found

    def referred(self, table: str, column: str) -> Kind | None:
        """What a column that refers to another table's row names it by."""
        other = self._tables[table].refers.get(column)
        if other is None or other not in self._tables or not self._tables[other].unique:
            return None
        return Kind(other, self._tables[other].unique[0])

    def has(self, text: str) -> bool:
        """Whether a text stands anywhere, also inside another."""
        return any(
            text in cell
            for table in self._tables.values()
            for row in table.rows
            for cell in row.values()
            if isinstance(cell, str)
        )

    def places(self, value: Any) -> int:
        """In how many cells a value stands, as itself or as text."""
        if not self._cells:
            rows = (row for table in self for row in table.rows)
            self._cells.update(str(cell) for row in rows for cell in row.values())
        return self._cells[str(value)]


def tokens_of(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case: ``orderLineId`` and ``order_line_id`` are the same."""
    return tuple(token.lower() for token in _TOKEN.findall(name))


def _read(environment: Environment) -> Iterator[tuple[str, Table]]:
    if isinstance(environment, World):
        for name, member in environment.members.items():
            for table in Tables(member):
                mine = joined(name, table.name)
                refers = {column: joined(name, other) for column, other in table.refers.items()}
                yield mine, Table(mine, table.columns, table.unique, refers, table.rows)
        return
    with closing(sqlite3.connect(environment.snapshot.uri, uri=True)) as database:
        for name, info in environment.tables.items():
            if name.startswith("_"):
                continue  # what an importer keeps beside the rows
            cursor = database.execute(f"SELECT * FROM {quoted(name)}")
            columns = tuple(column for column, *_ in cursor.description)
            rows = tuple(dict(zip(columns, record, strict=True)) for record in cursor)
            refers = {
                column: other
                for _, _, other, column, *_ in database.execute(
                    f"PRAGMA foreign_key_list({quoted(name)})"
                )
            }
            unique = tuple(_unique(database, name, info.key, rows))
            yield name, Table(name, columns, unique, refers, rows)


def _unique(
    database: sqlite3.Connection,
    table: str,
    key: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """The columns that are declared to tell rows apart, and do."""
    declared = [_own_name(key[0], rows)] if len(key) == 1 else []
    for _, name, is_unique, *_ in database.execute(f"PRAGMA index_list({quoted(table)})"):
        columns = [
            column for _, _, column in database.execute(f"PRAGMA index_info({quoted(name)})")
        ]
        if is_unique and len(columns) == 1 and columns[0] is not None:
            declared.append(columns[0])
    for column in dict.fromkeys(declared):
        values = [row.get(column) for row in rows]
        if column in (rows[0] if rows else {column: 0}) and None not in values:
            yield column


def _own_name(key: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The column that tells rows apart and that tools speak of: where an importer keeps the place
    of a row as its key, what stands in the row itself, if anything does."""
    if not key.startswith("_") or not rows or key not in rows[0]:
        return key
    columns = [name for name in rows[0] if not name.startswith("_")]
    same = (name for name in columns if all(row[name] == row[key] for row in rows))
    named = (
        name
        for name in columns
        if tokens_of(name)[-1:] in (("id",), ("code",), ("key",))
        and all(isinstance(row[name], str) for row in rows)
        and len({row[name] for row in rows}) == len(rows)
    )
    return next(same, None) or next(named, key)

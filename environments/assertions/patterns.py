"""Patterns: which row changes an entry of ``expect``, ``allow`` or ``forbid`` speaks of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import environments.assertions.words as words
from environments.assertions.matchers import Bindings, Cell, Matcher, parse_matcher
from environments.assertions.rows import KINDS, SCHEMA_TABLE, ChangeKind, RowChange
from environments.assertions.values import ABSENT, show
from environments.assertions.words import Scope, TableInfo, Word, unknown
from environments.errors import PackInvalid

Role = Literal["expect", "allow", "forbid"]
WORDS: Final[Mapping[str, Word]] = {
    "table": Word(
        words.NAME, "the table whose rows it speaks of; $schema is the schema itself", required=True
    ),
    "change": Word(
        words.one_of(KINDS, "kind of change"),
        "the kind of change; changed if set is given, else any (expect entries must say it)",
    ),
    "where": Word(
        words.CELLS,
        "which rows: matchers on the new row if added, else on the row that the agent found",
    ),
    "set": Word(
        words.CELLS,
        "what the columns hold afterwards; those of a changed row must be among the changed ones",
    ),
    "only": Word(
        words.BOOL,
        "whether no other column of the row may change; true with set, except in forbid",
    ),
    "also": Word(words.COLUMNS, "further columns that may change, to whatever value"),
}
_SCHEMA_COLUMNS = TableInfo(("name", "sql"), ("name",))


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry. ``kind`` ``None`` means any kind; ``only`` that no other column may change."""

    table: str
    kind: ChangeKind | None
    where: Mapping[str, Matcher]
    set: Mapping[str, Matcher]
    only: bool
    also: frozenset[str]

    def match(self, change: RowChange, bindings: Bindings) -> Bindings | None:
        """The bindings after a match, or ``None`` if the change is not of this pattern."""
        if change.table != self.table or (self.kind and change.kind != self.kind):
            return None
        for column, matcher in _binders_first(self.where):
            cell = Cell(change.row.get(column, ABSENT), column)
            if (found := matcher.match(cell, bindings)) is None:
                return None
            bindings = found
        for column, matcher in _binders_first(self.set):
            if (found := matcher.match(self._after(change, column), bindings)) is None:
                return None
            bindings = found
        return None if self.only and self.beside(change) else bindings

    def is_identified(self, change: RowChange, bindings: Bindings) -> bool:
        """Whether ``where`` alone speaks of this row."""
        bare = Pattern(self.table, self.kind, self.where, {}, False, frozenset())
        return bare.match(change, bindings) is not None

    def failures(self, change: RowChange, bindings: Bindings) -> Iterator[str]:
        """What keeps the change from matching, one phrase a column."""
        yield from misfits(self.where, change.row, bindings)
        for column, matcher in self.set.items():
            cell = self._after(change, column)
            if matcher.match(cell, bindings) is not None:
                continue
            yield f"{column} {self._is(change, column, matcher)}, expected " + (
                matcher.describe(bindings)
            )
        if self.only and change.kind == "changed":
            before, after = change.before or {}, change.after or {}
            for column in sorted(self.beside(change)):
                yield (
                    f"{column} was changed too "
                    f"({show(before.get(column, ABSENT))} -> {show(after.get(column, ABSENT))})"
                )

    def beside(self, change: RowChange) -> frozenset[str]:
        """The columns changed that the pattern does not name."""
        return change.columns - self.set.keys() - self.also

    def describe(self, bindings: Bindings | None = None) -> str:
        """``orders changed where customer is 'c_1' to status 'cancelled'``."""
        where = [f"{name} is {m.describe(bindings)}" for name, m in self.where.items()]
        to = [f"{name} {m.describe(bindings)}" for name, m in self.set.items()]
        text = f"{self.table} {self.kind or 'touched'}"
        text += f" where {' and '.join(where)}" if where else ""
        return text + (f" to {', '.join(to)}" if to else "")

    @staticmethod
    def _is(change: RowChange, column: str, matcher: Matcher) -> str:
        value = (change.after or {}).get(column, ABSENT)
        before = (change.before or {}).get(column, ABSENT)
        if change.kind != "changed" or (column not in change.columns and not matcher.looks_back):
            held = value is not ABSENT and matcher.match(Cell(value, column), {}) is not None
            return f"is {show(value)}" + (" as before" if held else "")
        if column not in change.columns:
            return f"is {show(value)} as before"
        return f"is {show(value)} (was {show(before)})"

    @staticmethod
    def _after(change: RowChange, column: str) -> Cell:
        """The cell ``set`` judges; absent if an existing row's column did not change."""
        if change.after is None or (change.kind == "changed" and column not in change.columns):
            return Cell(ABSENT, column, change.before)
        return Cell(change.after.get(column, ABSENT), column, change.before)


def _binders_first(matchers: Mapping[str, Matcher]) -> list[tuple[str, Matcher]]:
    return sorted(matchers.items(), key=lambda item: item[1].bind is None)


def parse_pattern(entry: Mapping[str, Any], place: str, scope: Scope, role: Role) -> Pattern:
    """Compile one entry that ``words.read`` has read; ``place`` names it (``expect[0]``).

    ``expect`` entries must say what kind of change they expect; in ``forbid`` nothing is ``only``,
    so that a change of further columns is no way around it.

    Raises ``PackInvalid`` for an unknown table, column or matcher, with close matches.
    """
    table, info = parse_table(entry, place, scope)
    where = parse_cells(entry.get("where", {}), f"{place}.where", (table, info), scope)
    values = parse_cells(entry.get("set", {}), f"{place}.set", (table, info), scope)
    also = entry.get("also", [])
    for column in also:
        _known_column(column, f"{place}.also", table, info)
    only = entry.get("only", role != "forbid" and bool(values or also))
    kind = entry.get("change", "changed" if values or also else None)
    if kind is None and role == "expect":
        raise PackInvalid(
            f"{place}: has no change", hint='add "change": "added", "removed" or "changed"'
        )
    _refuse_looking_back(where, values, kind, place)
    return Pattern(table, kind, where, values, only, frozenset(also))


def parse_table(entry: Mapping[str, Any], place: str, scope: Scope) -> tuple[str, TableInfo]:
    """The table an entry names. Raises ``PackInvalid`` if there is none."""
    table: str = entry["table"]
    if table == SCHEMA_TABLE:
        return table, _SCHEMA_COLUMNS
    if table not in scope.tables:
        raise unknown(table, f"{place}.table", scope.tables, "table")
    return table, scope.tables[table]


def _refuse_looking_back(
    where: Mapping[str, Matcher], values: Mapping[str, Matcher], kind: str | None, place: str
) -> None:
    for part, matchers in (("where", where), ("set", values)):
        for column, matcher in matchers.items():
            if matcher.looks_back and (part == "where" or kind != "changed"):
                raise PackInvalid(
                    f"{place}.{part}.{column}: delta and old compare with the row before",
                    hint='they belong in the "set" of a "changed" entry',
                )
    if kind == "removed" and values:
        raise PackInvalid(f"{place}.set: a removed row has no values afterwards")


def parse_cells(
    source: Mapping[str, Any], place: str, table: tuple[str, TableInfo], scope: Scope
) -> dict[str, Matcher]:
    """Matchers by column. Raises ``PackInvalid`` for a column the table has not."""
    name, info = table
    for column in source:
        _known_column(column, place, name, info)
    return {
        column: parse_matcher(matcher, f"{place}.{column}", scope, info.columns)
        for column, matcher in source.items()
    }


def pinned_key(
    where: Mapping[str, Matcher], info: TableInfo | None, bindings: Bindings
) -> dict[str, Any] | None:
    """The primary key of the one row that ``where`` can speak of, if it names all of it."""
    if info is None or not info.key:
        return None
    key = {name: where[name].value(bindings) for name in info.key if name in where}
    plain = all(isinstance(value, (str, int, float)) for value in key.values())
    return key if plain and len(key) == len(info.key) else None


def misfits(
    where: Mapping[str, Matcher], row: Mapping[str, Any], bindings: Bindings
) -> Iterator[str]:
    """The columns of a row that are not as ``where`` has them, one phrase each."""
    for column, matcher in where.items():
        value = row.get(column, ABSENT)
        if matcher.match(Cell(value, column), bindings) is None:
            yield f"{column} is {show(value)}, expected {matcher.describe(bindings)}"


def _known_column(column: Any, place: str, table: str, info: TableInfo) -> None:
    if column not in info.columns:
        raise unknown(column, place, info.columns, f"column of {table}:")

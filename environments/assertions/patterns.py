"""Patterns: which row changes an entry of ``expect``, ``allow`` or ``forbid`` speaks of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from environments.assertions.matchers import (
    ABSENT,
    Bindings,
    Cell,
    Matcher,
    parse_matcher,
    show,
    unknown,
)
from environments.assertions.rows import KINDS, SCHEMA_TABLE, ChangeKind, RowChange, TableInfo
from environments.errors import PackInvalid

Role = Literal["expect", "allow", "forbid"]
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
        for column, matcher in self.where.items():
            value = change.row.get(column, ABSENT)
            if matcher.match(Cell(value, column), bindings) is None:
                yield f"{column} is {show(value)}, expected {matcher.describe(bindings)}"
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


def parse_pattern(
    entry: Mapping[str, Any], place: str, tables: Mapping[str, TableInfo], role: Role
) -> Pattern:
    """Compile one entry; ``place`` names it in messages (``expect[0]``).

    ``expect`` entries must say what kind of change they expect; in ``forbid`` nothing is ``only``,
    so that a change of further columns is no way around it.

    Raises ``PackInvalid`` for an unknown table, column, kind or matcher, with close matches.
    """
    table = entry.get("table")
    if table == SCHEMA_TABLE:
        info = _SCHEMA_COLUMNS
    elif not isinstance(table, str) or table not in tables:
        raise unknown(table, f"{place}.table", tables, "table")
    else:
        info = tables[table]
    where = _columns(entry.get("where", {}), f"{place}.where", table, info)
    values = _columns(entry.get("set", {}), f"{place}.set", table, info)
    also = entry.get("also", [])
    if not isinstance(also, list):
        raise PackInvalid(f"{place}.also: must be a list of columns")
    for column in also:
        _known_column(column, f"{place}.also", table, info)
    only = entry.get("only", role != "forbid" and bool(values or also))
    if not isinstance(only, bool):
        raise PackInvalid(f"{place}.only: must be true or false")
    kind = entry.get("change", "changed" if values or also else None)
    if kind is None and role == "expect":
        raise PackInvalid(
            f"{place}: has no change", hint='add "change": "added", "removed" or "changed"'
        )
    if kind is not None and kind not in KINDS:
        raise unknown(kind, f"{place}.change", KINDS, "kind of change")
    _refuse_looking_back(where, values, kind, place)
    return Pattern(table, kind, where, values, only, frozenset(also))


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


def _columns(source: Any, place: str, table: str, info: TableInfo) -> dict[str, Matcher]:
    if not isinstance(source, Mapping):
        raise PackInvalid(f"{place}: must be an object of columns")
    found = {}
    for column, matcher in source.items():
        _known_column(column, place, table, info)
        found[column] = parse_matcher(matcher, f"{place}.{column}", info.columns)
    return found


def _known_column(column: Any, place: str, table: str, info: TableInfo) -> None:
    if column not in info.columns:
        raise unknown(column, place, info.columns, f"column of {table}:")

"""``state``: what rows there are at the end, or were at the start, whoever made them so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import environments.assertions.words as words
from environments.assertions.evidence import Evidence, State
from environments.assertions.matchers import Bindings, Cell, Matcher, parse_count
from environments.assertions.patterns import misfits, parse_cells, parse_table, pinned_key
from environments.assertions.rows import SCHEMA_TABLE, label
from environments.assertions.verdicts import GATE_WEIGHT, component, listed
from environments.assertions.words import Scope, TableInfo, Word
from environments.errors import PackInvalid
from environments.trajectory import Component

_AT = ("final", "initial")
WORDS: Final[Mapping[str, Word]] = {
    "at": Word(words.one_of(_AT, "moment"), "which state: final (the default) or initial"),
    "table": Word(words.NAME, "the table", required=True),
    "where": Word(words.CELLS, "which of its rows"),
    "count": Word(words.MATCHER, "how many such rows there are; at least one if left out"),
    "weight": Word(
        words.NUMBER_NOT_NEGATIVE,
        "its share in a fractional reward; 1 if left out, 0 (a gate) if it held at the start",
    ),
}


@dataclass(frozen=True, slots=True)
class Predicate:
    """One entry of ``state``."""

    name: str
    at: Literal["final", "initial"]
    table: str
    info: TableInfo
    where: Mapping[str, Matcher]
    count: Matcher
    weight: float

    def judge(self, evidence: Evidence, bindings: Bindings) -> Component:
        """A predicate the untouched state fulfils is a gate: keeping it so earns nothing."""
        before = self._rows(evidence.initial, bindings)
        if self.at == "initial":
            state, rows, weight = evidence.initial, before, GATE_WEIGHT
        else:
            state, rows = evidence.final, self._rows(evidence.final, bindings)
            weight = GATE_WEIGHT if self.count.fits(len(before)) else self.weight
        fits = self.count.fits(len(rows))
        return component(self.name, "" if fits else self._why_not(rows, state, bindings), weight)

    def _rows(self, state: State, bindings: Bindings) -> list[str]:
        """The labels of the fitting rows."""
        key = pinned_key(self.where, self.info, bindings)
        candidates: Iterable[dict[str, Any]]
        if key is None:
            candidates = state.rows(self.table, self._like(bindings))
        else:
            candidates = filter(None, [state.row(self.table, key)])
        return [
            self._label(row)
            for row in candidates
            if all(
                matcher.match(Cell(row[column], column), bindings) is not None
                for column, matcher in self.where.items()
            )
        ]

    def _like(self, bindings: Bindings) -> dict[str, str | int]:
        values = {column: matcher.value(bindings) for column, matcher in self.where.items()}
        return {
            column: value
            for column, value in values.items()
            if isinstance(value, (str, int)) and not isinstance(value, bool)
        }

    def _label(self, row: Mapping[str, Any]) -> str:
        return label(self.table, {name: row.get(name) for name in self.info.key} or row)

    def _why_not(self, rows: list[str], state: State, bindings: Bindings) -> str:
        when = "at the end" if self.at == "final" else "at the start"
        key = pinned_key(self.where, self.info, bindings)
        if key is not None and not rows:
            row = state.row(self.table, key)
            if row is None:
                return f"{label(self.table, key)}: no such row {when}"
            return f"{label(self.table, key)}: {'; '.join(misfits(self.where, row, bindings))}"
        where = [f"{name} is {m.describe(bindings)}" for name, m in self.where.items()]
        what = f"{self.table} where {' and '.join(where)}" if where else self.table
        number = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}" if rows else "no row"
        shown = f" ({listed(rows, ', ')})" if rows else ""
        return f"{number} of {what} {when}{shown}, expected {self.count.describe(bindings)}"


def parse_state(entry: Mapping[str, Any], place: str, scope: Scope) -> Predicate:
    """Compile one entry that ``words.read`` has read. Raises ``PackInvalid``."""
    table, info = parse_table(entry, place, scope)
    if table == SCHEMA_TABLE:
        raise PackInvalid(f"{place}.table: {SCHEMA_TABLE} stands only where changes are judged")
    where = parse_cells(entry.get("where", {}), f"{place}.where", (table, info), scope)
    for column, matcher in where.items():
        if matcher.looks_back or matcher.bind is not None:
            raise PackInvalid(
                f"{place}.where.{column}: delta, old and bind stand only where changes are judged",
                hint='use {"var": ...} here for a value an expect entry binds',
            )
    count = parse_count(entry.get("count", {"ge": 1}), f"{place}.count", scope)
    weight = float(entry.get("weight", 1.0))
    return Predicate(
        f"{place} {table}", entry.get("at", "final"), table, info, where, count, weight
    )

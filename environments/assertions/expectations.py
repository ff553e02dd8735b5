"""``expect``, ``allow``, ``forbid`` and the frame: what the agent changed, held against what it was
to change.

Every change of the agent that no ``expect`` or ``allow`` entry covers is collateral and fails the
run (the *frame*), so damage elsewhere is never free. Entries do not consume changes: two entries
may speak of the same row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import environments.assertions.words as words
from environments.assertions.evidence import State
from environments.assertions.matchers import Bindings, Matcher, parse_count
from environments.assertions.patterns import WORDS as PATTERN_WORDS
from environments.assertions.patterns import Pattern, parse_pattern, pinned_key
from environments.assertions.rows import RowChange, label
from environments.assertions.verdicts import GATE_WEIGHT, component, listed
from environments.assertions.words import Scope, TableInfo, Word
from environments.trajectory import Component

WORDS: Final[Mapping[str, Word]] = {
    **PATTERN_WORDS,
    "count": Word(words.MATCHER, "how many such changes there are; exactly one if left out"),
    "weight": Word(words.WEIGHT, "its share in a fractional reward; 1 if left out"),
}
_MAX_COMPARISONS = 200_000
"""How many rows are looked at, over all combinations of bound values, before the best one so far
is taken: an episode that adds thousands of fitting rows must not hold up the scorer."""


@dataclass(frozen=True, slots=True)
class Expectation:
    name: str
    pattern: Pattern
    count: Matcher
    weight: float

    def holds(self, matched: int) -> bool:
        return self.count.fits(matched)


def parse_expectation(entry: Mapping[str, Any], place: str, scope: Scope) -> Expectation:
    """Compile one entry that ``words.read`` has read. Raises ``PackInvalid``."""
    pattern = parse_pattern(entry, place, scope, "expect")
    count = parse_count(entry.get("count", 1), f"{place}.count", scope)
    weight = float(entry.get("weight", 1.0))
    return Expectation(f"{place} {pattern.table} {pattern.kind}", pattern, count, weight)


@dataclass(frozen=True, slots=True)
class Found:
    """What an expectation found under one choice of bound values."""

    expectation: Expectation
    changes: tuple[RowChange, ...]
    bindings: Bindings

    @property
    def holds(self) -> bool:
        return self.expectation.holds(len(self.changes))


# --- finding --------------------------------------------------------------------------------


def find(expect: Sequence[Expectation], rows: Sequence[RowChange]) -> tuple[Found, ...]:
    """The choice of bound values under which the most weight holds."""
    best: tuple[Found, ...] = ()
    best_weight = -1.0
    total = sum(expectation.weight for expectation in expect)
    max_tries = max(1, _MAX_COMPARISONS // max(1, len(rows)))
    for tries, choice in enumerate(_choices(expect, rows, {}, ()), start=1):
        weight = sum(item.expectation.weight for item in choice if item.holds)
        if weight > best_weight:
            best, best_weight = choice, weight
        if best_weight >= total or tries >= max_tries:
            break
    return best


def _choices(
    expect: Sequence[Expectation],
    rows: Sequence[RowChange],
    bindings: Bindings,
    chosen: tuple[Found, ...],
) -> Iterator[tuple[Found, ...]]:
    if len(chosen) == len(expect):
        yield chosen
        return
    expectation = expect[len(chosen)]
    options: list[tuple[Bindings, list[RowChange]]] = []
    for row in rows:
        bound = expectation.pattern.match(row, bindings)
        if bound is None:
            continue
        for known, matched in options:
            if known == bound:
                matched.append(row)
                break
        else:
            options.append((bound, [row]))
    options.sort(key=lambda option: not expectation.holds(len(option[1])))
    for bound, matched in options or [(bindings, [])]:
        found = Found(expectation, tuple(matched), bound)
        yield from _choices(expect, rows, bound, (*chosen, found))


# --- judging --------------------------------------------------------------------------------


def judge_frame(
    rows: Sequence[RowChange], found: Sequence[Found], allow: Sequence[Pattern], bindings: Bindings
) -> Component:
    """Whether every change was expected or allowed."""
    expected = {id(change) for item in found for change in item.changes}
    collateral = [
        change.describe()
        for change in rows
        if id(change) not in expected
        and all(pattern.match(change, bindings) is None for pattern in allow)
    ]
    reason = f"{listed(collateral)}, which nothing allows" if collateral else ""
    return component("frame", reason, GATE_WEIGHT)


def judge_forbidden(
    name: str, pattern: Pattern, rows: Sequence[RowChange], bindings: Bindings
) -> Component:
    """Whether no change is of a forbidden pattern."""
    broken = [row.describe() for row in rows if pattern.match(row, bindings) is not None]
    reason = f"{listed(broken)}, which is forbidden" if broken else ""
    return component(f"{name} {pattern.table}", reason, GATE_WEIGHT)


def judge_expectation(
    found: Found, rows: Sequence[RowChange], tables: Mapping[str, TableInfo], initial: State
) -> Component:
    """Whether as many changes as expected were found; if not, why, in terms of rows."""
    expectation = found.expectation
    reason = "" if found.holds else _why_not(found, rows, tables, initial)
    return component(expectation.name, reason, expectation.weight)


def _why_not(
    found: Found, rows: Sequence[RowChange], tables: Mapping[str, TableInfo], initial: State
) -> str:
    pattern, bindings = found.expectation.pattern, found.bindings
    wanted = found.expectation.count
    if found.changes or wanted.literal != 1:
        labels = [change.label for change in found.changes]
        shown = f" ({listed(labels, ', ')})" if labels else ""
        nearest = "" if found.changes else _nearest(pattern, rows, bindings)
        noun = "row" if len(labels) == 1 else "rows"
        return (
            f"{len(labels)} {noun} of {pattern.describe(bindings)}{shown}, "
            f"expected {wanted.describe()}{nearest}"
        )
    identified = [row for row in rows if pattern.is_identified(row, bindings)]
    failures = [*pattern.failures(identified[0], bindings)] if len(identified) == 1 else []
    if failures:
        return f"{identified[0].label}: {'; '.join(failures)}"
    pinned = _pinned(pattern, rows, bindings, tables, initial)
    return pinned or f"no row of {pattern.describe(bindings)}{_nearest(pattern, rows, bindings)}"


def _pinned(
    pattern: Pattern,
    rows: Sequence[RowChange],
    bindings: Bindings,
    tables: Mapping[str, TableInfo],
    initial: State,
) -> str:
    """The reason in terms of the one row that the pattern names by its key, if it does."""
    key = pinned_key(pattern.where, tables.get(pattern.table), bindings)
    if pattern.kind == "added" or key is None:
        return ""
    named = label(pattern.table, key)
    for change in (row for row in rows if row.label == named):
        if change.kind != pattern.kind:
            return f"{change.describe()}, expected to be {pattern.kind}"
        return f"{named}: {'; '.join(pattern.failures(change, bindings))}"
    row = initial.row(pattern.table, key)
    if row is None:
        return f"{named}: no such row in the initial state"
    if pattern.kind == "removed":
        return f"{named}: was not removed"
    untouched = RowChange(pattern.table, "changed", named, row, row)
    return f"{named}: {'; '.join(pattern.failures(untouched, bindings)) or 'was not changed'}"


def _nearest(pattern: Pattern, rows: Sequence[RowChange], bindings: Bindings) -> str:
    alike = [row for row in rows if row.table == pattern.table and row.kind == pattern.kind]
    if not alike:
        return ""
    failures = [(list(pattern.failures(row, bindings)), row) for row in alike]
    fewest, row = min(failures, key=lambda item: len(item[0]))
    return f"; nearest is {row.label}: {'; '.join(fewest)}"

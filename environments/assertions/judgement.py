"""The verifier of one task: what must have changed, what may have, and what the answer must be.

Every change of the agent that no ``expect`` or ``allow`` entry covers is collateral and fails the
run (the *frame*), so damage elsewhere is never free. Expected values come from the initial state.
Entries do not consume changes: two entries may speak of the same row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from environments.assertions.answers import Answer, parse_answer
from environments.assertions.evidence import Evidence, ProbeCall, State
from environments.assertions.matchers import (
    ABSENT,
    Bindings,
    Cell,
    Matcher,
    parse_matcher,
    show,
    unknown,
)
from environments.assertions.patterns import Pattern, Role, parse_pattern
from environments.assertions.rows import RowChange, TableInfo, label, row_changes
from environments.errors import PackInvalid
from environments.spec import ToolSpec
from environments.trajectory import Component

GATE_WEIGHT: Final = 0.0
"""The weight of a component that earns nothing when it holds and costs all when it does not."""

_SECTIONS = ("expect", "allow", "forbid", "answer")
_PATTERN_KEYS = ("table", "change", "where", "set", "only", "also")
_EXPECT_KEYS = (*_PATTERN_KEYS, "count", "weight")
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
        return self.count.match(Cell(matched), {}) is not None


@dataclass(frozen=True, slots=True)
class _Found:
    """What an expectation found under one choice of bound values."""

    expectation: Expectation
    changes: tuple[RowChange, ...]
    bindings: Bindings

    @property
    def holds(self) -> bool:
        return self.expectation.holds(len(self.changes))


@dataclass(frozen=True, slots=True)
class Assertions:
    """One parsed task verifier. Immutable; may judge any number of episodes."""

    tables: Mapping[str, TableInfo]
    expect: tuple[Expectation, ...]
    allow: tuple[Pattern, ...]
    forbid: tuple[tuple[str, Pattern], ...]
    answer: Answer | None

    @classmethod
    def parse(
        cls,
        verifier: Mapping[str, Any],
        tables: Mapping[str, TableInfo],
        tools: Mapping[str, ToolSpec] | None = None,
    ) -> Assertions:
        """Compile a verifier against the tables it speaks of.

        Raises ``PackInvalid`` for a typo in a section, table, column, kind of change, matcher or
        variable (with close matches), and for a verifier that would pay for doing nothing.
        """
        for section in verifier:
            if section not in _SECTIONS:
                raise unknown(section, "verifier", _SECTIONS, "section")
        expect = tuple(
            _parse_expectation(entry, f"expect[{index}]", tables)
            for index, entry in _entries(verifier, "expect", _EXPECT_KEYS)
        )
        allow = tuple(
            parse_pattern(entry, f"allow[{index}]", tables, "allow")
            for index, entry in _entries(verifier, "allow", _PATTERN_KEYS)
        )
        forbid = tuple(
            (f"forbid[{index}]", parse_pattern(entry, f"forbid[{index}]", tables, "forbid"))
            for index, entry in _entries(verifier, "forbid", _PATTERN_KEYS)
        )
        answer = parse_answer(verifier["answer"]) if "answer" in verifier else None
        _check_variables(expect, allow, forbid)
        if answer is None and all(expectation.holds(0) for expectation in expect):
            raise PackInvalid(
                "the verifier pays for doing nothing: no expect entry asks for a change",
                hint="expect a change the task is about, or gate the answer",
            )
        return cls(tables, expect, allow, forbid, answer)

    @property
    def probes(self) -> tuple[ProbeCall, ...]:
        """The calls whose results ``Evidence.probes`` must hold, in this order."""
        return ()

    def evaluate(self, evidence: Evidence) -> list[Component]:
        """Judge a run.

        The components are the expectations and the answer with their weights, and the gates
        (``frame`` and each ``forbid``) with weight 0. Reasons speak of rows.
        """
        initial = evidence.initial
        rows = list(row_changes(evidence.changes, evidence.found, self.tables, initial))
        found = _best(self.expect, rows)
        bindings = found[-1].bindings if found else {}
        components = [self._judge_expectation(item, rows, initial) for item in found]
        components.append(self._judge_frame(rows, found, bindings))
        components.extend(
            _judge_forbidden(name, pattern, rows, bindings) for name, pattern in self.forbid
        )
        if self.answer is not None:
            reason = self.answer.failure(evidence.answer)
            components.append(_component("answer", reason, 1.0))
        return components

    def _judge_expectation(
        self, found: _Found, rows: Sequence[RowChange], initial: State
    ) -> Component:
        expectation = found.expectation
        reason = "" if found.holds else self._why_not(found, rows, initial)
        return _component(expectation.name, reason, expectation.weight)

    def _judge_frame(
        self, rows: Sequence[RowChange], found: Sequence[_Found], bindings: Bindings
    ) -> Component:
        expected = {id(change) for item in found for change in item.changes}
        collateral = [
            change.describe()
            for change in rows
            if id(change) not in expected
            and all(pattern.match(change, bindings) is None for pattern in self.allow)
        ]
        reason = f"{_listed(collateral)}, which nothing allows" if collateral else ""
        return _component("frame", reason, GATE_WEIGHT)

    def _why_not(self, found: _Found, rows: Sequence[RowChange], initial: State) -> str:
        pattern, bindings = found.expectation.pattern, found.bindings
        wanted = found.expectation.count
        if found.changes or wanted.literal != 1:
            labels = [change.label for change in found.changes]
            shown = f" ({_listed(labels, ', ')})" if labels else ""
            nearest = "" if found.changes else self._nearest(pattern, rows, bindings)
            return (
                f"{len(found.changes)} rows of {pattern.describe(bindings)}{shown}, "
                f"expected {wanted.describe()}{nearest}"
            )
        pinned = self._pinned(pattern, rows, bindings, initial)
        if pinned:
            return pinned
        nearest = self._nearest(pattern, rows, bindings)
        return f"no row of {pattern.describe(bindings)}{nearest}"

    def _pinned(
        self, pattern: Pattern, rows: Sequence[RowChange], bindings: Bindings, initial: State
    ) -> str:
        """The reason in terms of the one row the pattern is about, if it is about one."""
        identified = [row for row in rows if pattern.is_identified(row, bindings)]
        if len(identified) == 1:
            failures = "; ".join(pattern.failures(identified[0], bindings))
            return f"{identified[0].label}: {failures}" if failures else ""
        info = self.tables.get(pattern.table)
        if pattern.kind == "added" or not (info and info.key):
            return ""
        key = {name: pattern.where[name].literal for name in info.key if name in pattern.where}
        if len(key) != len(info.key) or ABSENT in key.values():
            return ""
        named = label(pattern.table, key)
        for change in rows:
            if change.label == named and change.kind != pattern.kind:
                return f"{change.describe()}, expected to be {pattern.kind}"
        row = initial.row(pattern.table, key)
        if row is None:
            return f"{named}: no such row in the initial state"
        if pattern.kind == "removed":
            return f"{named}: was not removed"
        untouched = RowChange(pattern.table, "changed", named, row, row)
        return f"{named}: {'; '.join(pattern.failures(untouched, bindings)) or 'was not changed'}"

    @staticmethod
    def _nearest(pattern: Pattern, rows: Sequence[RowChange], bindings: Bindings) -> str:
        alike = [row for row in rows if row.table == pattern.table and row.kind == pattern.kind]
        if not alike:
            return ""
        failures = [(list(pattern.failures(row, bindings)), row) for row in alike]
        fewest, row = min(failures, key=lambda item: len(item[0]))
        return f"; nearest is {row.label}: {'; '.join(fewest)}"


# --- finding --------------------------------------------------------------------------------


def _best(expect: Sequence[Expectation], rows: Sequence[RowChange]) -> tuple[_Found, ...]:
    """The choice of bound values under which the most weight holds."""
    best: tuple[_Found, ...] = ()
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
    chosen: tuple[_Found, ...],
) -> Iterator[tuple[_Found, ...]]:
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
        found = _Found(expectation, tuple(matched), bound)
        yield from _choices(expect, rows, bound, (*chosen, found))


def _judge_forbidden(
    name: str, pattern: Pattern, rows: Sequence[RowChange], bindings: Bindings
) -> Component:
    broken = [row.describe() for row in rows if pattern.match(row, bindings) is not None]
    reason = f"{_listed(broken)}, which is forbidden" if broken else ""
    return _component(f"{name} {pattern.table}", reason, GATE_WEIGHT)


def _component(name: str, reason: str, weight: float) -> Component:
    return Component(name=name, passed=not reason, weight=weight, reason=reason)


def _listed(items: Sequence[str], separator: str = "; ") -> str:
    more = f"{separator}and {len(items) - 5} more" if len(items) > 5 else ""
    return separator.join(items[:5]) + more


# --- parsing --------------------------------------------------------------------------------


def _entries(
    verifier: Mapping[str, Any], section: Role, known: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    entries = verifier.get(section, [])
    if not isinstance(entries, list):
        raise PackInvalid(f"{section}: must be a list of entries")
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise PackInvalid(f"{section}[{index}]: must be an object, not {show(entry)}")
        for key in entry:
            if key not in known:
                raise unknown(key, f"{section}[{index}]", known, "key")
        yield index, entry


def _parse_expectation(
    entry: Mapping[str, Any], place: str, tables: Mapping[str, TableInfo]
) -> Expectation:
    pattern = parse_pattern(entry, place, tables, "expect")
    count = parse_matcher(entry.get("count", 1), f"{place}.count", ())
    literal = count.literal
    if literal is not ABSENT and (type(literal) is not int or literal < 0):
        raise PackInvalid(f"{place}.count: must be a whole number, not {show(literal)}")
    if count.bind or count.variables or count.looks_back:
        raise PackInvalid(f"{place}.count: must be a whole number or a numeric matcher")
    weight = entry.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight <= 0:
        raise PackInvalid(f"{place}.weight: must be a number above 0, not {show(weight)}")
    return Expectation(f"{place} {pattern.table} {pattern.kind}", pattern, count, float(weight))


def _check_variables(
    expect: Sequence[Expectation],
    allow: Sequence[Pattern],
    forbid: Sequence[tuple[str, Pattern]],
) -> None:
    """Refuse a variable nobody has bound by then, and binding where nothing is expected."""
    bound: set[str] = set()
    for expectation in expect:
        bound |= set(_binds(expectation.pattern))
        _refuse_unbound(expectation.pattern, bound, expectation.name)
    gates = [(f"allow[{index}]", pattern) for index, pattern in enumerate(allow)]
    for place, pattern in [*gates, *forbid]:
        if any(_binds(pattern)):
            raise PackInvalid(
                f"{place}: bind stands only in expect entries",
                hint='use {"var": ...} here for a value an expect entry binds',
            )
        _refuse_unbound(pattern, bound, place)


def _binds(pattern: Pattern) -> Iterator[str]:
    for matcher in (*pattern.where.values(), *pattern.set.values()):
        if matcher.bind is not None:
            yield matcher.bind


def _refuse_unbound(pattern: Pattern, bound: set[str], place: str) -> None:
    for matcher in (*pattern.where.values(), *pattern.set.values()):
        for name in matcher.variables:
            if name not in bound:
                error = unknown(name, place, bound, "variable")
                error.hint = error.hint if bound else "bind it in an earlier expect entry"
                raise error

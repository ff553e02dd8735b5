"""Matchers: what a pack says about one value, compiled once and explained in words.

A matcher is a literal (``25`` equals ``25.0``) or an object whose keys must all hold:
``{"ge": 1, "lt": 10}``. The keys are the rows of ``TESTS`` below, and those of ``BESIDE``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import environments.assertions.words as words
from environments.assertions.values import (
    ABSENT,
    canonical,
    decoded,
    equal,
    is_number,
    norm,
    show,
)
from environments.assertions.words import PENDING, Kind, Scope, Word, unknown
from environments.errors import PackInvalid

Bindings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: a column of a changed row, with the row that the agent found, or another."""

    value: Any
    column: str = ""
    before: Mapping[str, Any] | None = None

    @property
    def value_before(self) -> Any:
        return ABSENT if self.before is None else self.before.get(self.column, ABSENT)


@dataclass(frozen=True, slots=True)
class Matcher:
    """What one value must be. ``tests`` are (key, operand); all must hold."""

    tests: tuple[tuple[str, Any], ...]
    bind: str | None = None

    def match(self, cell: Cell, bindings: Bindings) -> Bindings | None:
        """The bindings after a match (the same object if nothing was bound), or ``None``."""
        if cell.value is ABSENT:
            return None
        if not all(TESTS[key].holds(cell, operand, bindings) for key, operand in self.tests):
            return None
        if self.bind is None:
            return bindings
        if self.bind in bindings:
            return bindings if equal(cell.value, bindings[self.bind]) else None
        return {**bindings, self.bind: cell.value}

    def fits(self, value: Any, bindings: Bindings | None = None) -> bool:
        """Whether a value that stands in no row matches."""
        return self.match(Cell(value), bindings or {}) is not None

    def describe(self, bindings: Bindings | None = None) -> str:
        """What is expected, in words: ``'cancelled'``, ``at least 3``, ``2 less than before``."""
        parts = [TESTS[key].say(operand, bindings or {}) for key, operand in self.tests]
        if self.bind is not None:
            bound = bindings is not None and self.bind in bindings
            parts.append(show(bindings[self.bind]) if bound and bindings else f"any ({self.bind})")
        return " and ".join(parts)

    @property
    def literal(self) -> Any:
        """The one value this matcher stands for, or ``ABSENT`` if it stands for several."""
        if self.bind is None and len(self.tests) == 1 and self.tests[0][0] == "eq":
            return self.tests[0][1]
        return ABSENT

    def value(self, bindings: Bindings) -> Any:
        """The same where a variable with a known value counts as that value."""
        if self.bind is None and len(self.tests) == 1 and self.tests[0][0] == "var":
            return bindings.get(self.tests[0][1], ABSENT)
        return self.literal

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(operand for key, operand in self.tests if key == "var")

    @property
    def looks_back(self) -> bool:
        """Whether it compares with the row before, which an added or removed row has not."""
        return any(key in ("delta", "old") for key, _ in self.tests)


def parse_matcher(source: Any, place: str, scope: Scope, columns: Collection[str]) -> Matcher:
    """Compile one matcher; ``place`` names it in messages, ``columns`` are the table's.

    Raises ``PackInvalid`` for an unknown key (with close matches) or an operand of a wrong kind.
    """
    if isinstance(source, list):
        raise PackInvalid(
            f"{place}: a list is not a matcher",
            hint='write {"in": [...]} for one of several, {"eq": [...]} for a JSON array',
        )
    if not isinstance(source, Mapping) or "sql" in source:
        return Matcher((("eq", scope.resolved(source, place)),))
    if not source:
        raise PackInvalid(f"{place}: empty matcher", hint='write {"any": true} for any value')
    options = dict(source)
    bind = None
    if "bind" in options:
        bind = words.NAME.read(options.pop("bind"), f"{place}.bind", scope)
    if "approx" in options:
        options["approx"] = [options["approx"], options.pop("within", 0.01)]
    for key in options:
        if key not in TESTS:
            raise unknown(key, place, [*TESTS, *BESIDE], "matcher")
    if "old" in options and options["old"] not in columns:
        raise unknown(options["old"], f"{place}.old", columns, "column")
    tests = []
    for key, value in options.items():
        if key == "delta":
            operand = _step(value, f"{place}.delta", scope)
        else:
            operand = TESTS[key].word.kind.read(value, f"{place}.{key}", scope)
        tests.append((key, operand))
    return Matcher(tuple(tests), bind)


def parse_plain(source: Any, place: str, scope: Scope) -> Matcher:
    """A matcher for a value that stands in no changed row: it can neither look back nor bind."""
    matcher = parse_matcher(source, place, scope, ())
    if matcher.looks_back:
        raise PackInvalid(
            f"{place}: delta compares with the row before",
            hint='it belongs in the "set" of a "changed" entry',
        )
    if matcher.bind is not None:
        raise PackInvalid(
            f"{place}: bind stands only in expect entries",
            hint='use {"var": ...} here for a value an expect entry binds',
        )
    return matcher


def parse_count(source: Any, place: str, scope: Scope) -> Matcher:
    """A matcher for how many there are."""
    count = parse_plain(source, place, scope)
    literal = count.literal
    if literal is not ABSENT and literal is not PENDING and not _is_count(literal):
        raise PackInvalid(f"{place}: must be a whole number, not {show(literal)}")
    if count.variables:
        raise PackInvalid(f"{place}: must be a whole number or a numeric matcher")
    return count


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


# --- the vocabulary --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Test:
    word: Word
    holds: Callable[[Cell, Any, Bindings], bool]
    say: Callable[[Any, Bindings], str]


def _test(
    kind: Kind,
    meaning: str,
    holds: Callable[[Cell, Any, Bindings], bool],
    say: Callable[[Any, Bindings], str],
) -> Test:
    return Test(Word(kind, meaning), holds, say)


def _ordered(compare: Callable[[Any, Any], bool], phrase: str) -> Test:
    def holds(cell: Cell, operand: Any, _: Bindings) -> bool:
        alike = is_number(cell.value) and is_number(operand)
        alike = alike or (isinstance(cell.value, str) and isinstance(operand, str))
        return bool(alike and compare(cell.value, operand))

    meaning = f"{phrase} this; numbers by size, text by its characters (so ISO dates by time)"
    return _test(words.SCALAR, meaning, holds, lambda operand, _: f"{phrase} {show(operand)}")


def _holds_delta(cell: Cell, operand: Matcher, bindings: Bindings) -> bool:
    before = cell.value_before
    if not (is_number(cell.value) and is_number(before)):
        return False
    return operand.match(Cell(cell.value - before), bindings) is not None


def _say_delta(operand: Matcher, bindings: Bindings) -> str:
    step = operand.literal
    if not is_number(step):
        return f"changed by {operand.describe(bindings)}"
    return f"{show(abs(step))} {'less' if step < 0 else 'more'} than before"


def _holds_contains(cell: Cell, operand: str, _: Bindings) -> bool:
    if isinstance(cell.value, list):
        return any(isinstance(item, str) and norm(item) == norm(operand) for item in cell.value)
    return isinstance(cell.value, str) and norm(operand) in norm(cell.value)


def _holds_set(cell: Cell, operand: list[Any], _: Bindings) -> bool:
    items = decoded(cell.value)
    return isinstance(items, list) and {canonical(i) for i in items} == {
        canonical(i) for i in operand
    }


def _holds_list(cell: Cell, operand: list[Any], _: Bindings) -> bool:
    items = decoded(cell.value)
    return isinstance(items, list) and (
        canonical(items, ordered=True) == canonical(operand, ordered=True)
    )


def _joined(items: list[Any], _: Bindings) -> str:
    return ", ".join(show(item) for item in items) or "nothing"


def _pattern(value: Any, place: str) -> Any:
    try:
        return re.compile(words.TEXT.prepare(value, place))
    except re.error as error:
        raise PackInvalid(f"{place}: not a regular expression: {error}") from None


def _near(value: Any, place: str) -> Any:
    if not all(words.is_real(part) for part in value) or value[1] < 0:
        raise PackInvalid(f"{place}: approx and within must be numbers, within not negative")
    return tuple(value)


def _step(value: Any, place: str, scope: Scope) -> Matcher:
    step = parse_matcher(value, place, scope, ())
    literal = step.literal
    fits = literal is ABSENT or literal is PENDING or is_number(literal)
    if step.bind or step.looks_back or not fits:
        raise PackInvalid(f"{place}: must be a number or a numeric matcher, not {show(value)}")
    return step


TESTS: Final[Mapping[str, Test]] = {
    "eq": _test(
        words.ANYTHING,
        "equal to this; 25 equals 25.0, and lists are equal in any order",
        lambda c, o, _: equal(c.value, o),
        lambda o, _: show(o),
    ),
    "ne": _test(
        words.ANYTHING,
        "not equal to this",
        lambda c, o, _: not equal(c.value, o),
        lambda o, _: f"not {show(o)}",
    ),
    "lt": _ordered(lambda a, b: a < b, "less than"),
    "le": _ordered(lambda a, b: a <= b, "at most"),
    "gt": _ordered(lambda a, b: a > b, "more than"),
    "ge": _ordered(lambda a, b: a >= b, "at least"),
    "in": _test(
        words.LIST,
        "equal to one of these",
        lambda c, o, _: any(equal(c.value, item) for item in o),
        lambda o, b: f"one of {_joined(o, b)}",
    ),
    "contains": _test(
        words.TEXT,
        "text with this in it, case and white space aside; or a list with this text as an item",
        _holds_contains,
        lambda o, _: f"text with {show(o)}",
    ),
    "regex": _test(
        Kind({"type": "string", "format": "regex"}, _pattern),
        "text in which this regular expression (Python's) finds something",
        lambda c, o, _: isinstance(c.value, str) and o.search(c.value) is not None,
        lambda o, _: f"text like /{o.pattern}/",
    ),
    "norm": _test(
        words.TEXT,
        "this text, case and white space aside",
        lambda c, o, _: isinstance(c.value, str) and norm(c.value) == norm(o),
        lambda o, _: show(o),
    ),
    "approx": _test(
        Kind({"type": "number"}, _near, sql=True),
        "a number near this; how near is said by within",
        lambda c, o, _: is_number(c.value) and abs(c.value - o[0]) <= o[1] + 1e-9,
        lambda o, _: f"{show(o[0])} (within {show(o[1])})",
    ),
    "delta": _test(
        Kind({"$ref": "#/$defs/matcher"}),
        "by how much the number changed: a number, or a matcher for it",
        _holds_delta,
        _say_delta,
    ),
    "old": _test(
        words.NAME,
        "equal to what this column of the row held before",
        lambda c, o, _: c.before is not None and equal(c.value, c.before.get(o, ABSENT)),
        lambda o, _: f"the earlier value of {o}",
    ),
    "null": _test(
        words.BOOL,
        "true: null; false: anything else",
        lambda c, o, _: (c.value is None) is o,
        lambda o, _: "null" if o else "a value",
    ),
    "any": _test(words.TRUE, "any value", lambda c, o, _: True, lambda o, _: "any value"),
    "set_eq": _test(
        words.LIST,
        "a list of these, in any order and however often",
        _holds_set,
        lambda o, b: f"a list of exactly {_joined(o, b)}",
    ),
    "list_eq": _test(
        words.LIST,
        "a list of these, in this order",
        _holds_list,
        lambda o, b: f"the list {_joined(o, b)} in this order",
    ),
    "var": _test(
        words.NAME,
        "equal to the value bound to this name",
        lambda c, o, b: o in b and equal(c.value, b[o]),
        lambda o, b: show(b[o]) if o in b else f"the same as {o}",
    ),
}

BESIDE: Final[Mapping[str, Word]] = {
    "within": Word(
        words.NUMBER_NOT_NEGATIVE, "how far from approx the number may be; 0.01 if left out"
    ),
    "bind": Word(words.NAME, "any value, remembered by this name; bound again it must be the same"),
    "sql": Word(words.NAME, "the one value of this query on the initial state; stands alone"),
}
"""Keys of a matcher that are no tests of their own."""

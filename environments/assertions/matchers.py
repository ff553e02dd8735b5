"""Matchers: what a pack says about one value, compiled once and explained in words.

A matcher is a literal (``25`` equals ``25.0``) or an object whose keys must all hold:
``{"ge": 1, "lt": 10}``. The keys are the rows of ``_TESTS`` below, and ``bind``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from environments.errors import PackInvalid

Bindings = Mapping[str, Any]


class _Absent:
    """The value of a column nobody recorded; equal to nothing, not even null."""

    def __repr__(self) -> str:
        return "not recorded"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one changed row: its value, and the row as it was before the agent."""

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
        if not all(_TESTS[key].holds(cell, operand, bindings) for key, operand in self.tests):
            return None
        if self.bind is None:
            return bindings
        if self.bind in bindings:
            return bindings if equal(cell.value, bindings[self.bind]) else None
        return {**bindings, self.bind: cell.value}

    def describe(self, bindings: Bindings | None = None) -> str:
        """What is expected, in words: ``'cancelled'``, ``at least 3``, ``2 less than before``."""
        parts = [_TESTS[key].say(operand, bindings or {}) for key, operand in self.tests]
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

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(operand for key, operand in self.tests if key == "var")

    @property
    def looks_back(self) -> bool:
        """Whether it compares with the row before, which an added or removed row has not."""
        return any(key in ("delta", "old") for key, _ in self.tests)


def parse_matcher(source: Any, where: str, columns: Collection[str]) -> Matcher:
    """Compile one matcher; ``where`` names its place in messages, ``columns`` the table's.

    Raises ``PackInvalid`` for an unknown key (with close matches) or an operand of a wrong kind.
    """
    if isinstance(source, list):
        raise PackInvalid(
            f"{where}: a list is not a matcher",
            hint='write {"in": [...]} for one of several, {"set_eq": [...]} for a JSON array',
        )
    if not isinstance(source, Mapping):
        return Matcher((("eq", source),))
    if not source:
        raise PackInvalid(f"{where}: empty matcher", hint='write {"any": true} for any value')
    options = dict(source)
    bind = options.pop("bind", None)
    if bind is not None and not (isinstance(bind, str) and bind):
        raise PackInvalid(f"{where}.bind: must be a name")
    if "approx" in options:
        options["approx"] = (options["approx"], options.pop("within", 0.01))
    for key in options:
        if key not in _TESTS:
            raise unknown(key, where, [*_TESTS, "bind", "within"], "matcher")
    if "old" in options and options["old"] not in columns:
        raise unknown(options["old"], f"{where}.old", columns, "column")
    tests = tuple(
        (key, _TESTS[key].prepare(value, f"{where}.{key}")) for key, value in options.items()
    )
    return Matcher(tests, bind)


def unknown(word: Any, where: str, known: Collection[str], what: str) -> PackInvalid:
    """A typo in a pack: names place, word and the nearest words there are."""
    near = get_close_matches(str(word), list(known), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
    return PackInvalid(f"{where}: unknown {what} {word!r}", hint=hint)


# --- values ----------------------------------------------------------------------------------


def equal(value: Any, expected: Any) -> bool:
    """Equality of a cell with a JSON value: numbers by size, not by type; arrays and objects
    with the JSON text of a cell."""
    if _number(value) and _number(expected):
        if isinstance(value, float) or isinstance(expected, float):
            return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
        return bool(value == expected)
    if isinstance(expected, (list, dict)) and isinstance(value, str):
        return bool(canonical(_decoded(value)) == canonical(expected))
    return bool(type(value) is type(expected) and value == expected)


def norm(text: str) -> str:
    """Text without case and with single spaces."""
    return " ".join(text.casefold().split())


def canonical(value: Any) -> Any:
    """A hashable form in which equal JSON values are equal."""
    if _number(value):
        return int(value) if float(value).is_integer() else float(value)
    if isinstance(value, list):
        return tuple(canonical(item) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((key, canonical(item)) for key, item in value.items()))
    return value


def show(value: Any) -> str:
    """A value as a person reads it; long text is cut."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = repr(value) if isinstance(value, str) or value is ABSENT else str(value)
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1] if text[-1] in chr(39) else ''}"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return ABSENT


# --- the vocabulary --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Test:
    holds: Callable[[Cell, Any, Bindings], bool]
    say: Callable[[Any, Bindings], str]
    prepare: Callable[[Any, str], Any]


def _ordered(compare: Callable[[Any, Any], bool], words: str) -> _Test:
    def holds(cell: Cell, operand: Any, _: Bindings) -> bool:
        alike = _number(cell.value) and _number(operand)
        alike = alike or (isinstance(cell.value, str) and isinstance(operand, str))
        return bool(alike and compare(cell.value, operand))

    return _Test(holds, lambda operand, _: f"{words} {show(operand)}", _scalar)


def _holds_delta(cell: Cell, operand: Matcher, bindings: Bindings) -> bool:
    before = cell.value_before
    if not (_number(cell.value) and _number(before)):
        return False
    return operand.match(Cell(cell.value - before), bindings) is not None


def _say_delta(operand: Matcher, bindings: Bindings) -> str:
    step = operand.literal
    if step is ABSENT:
        return f"changed by {operand.describe(bindings)}"
    return f"{show(abs(step))} {'less' if step < 0 else 'more'} than before"


def _holds_set(cell: Cell, operand: list[Any], _: Bindings) -> bool:
    items = _decoded(cell.value)
    return isinstance(items, list) and {canonical(i) for i in items} == {
        canonical(i) for i in operand
    }


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, (list, dict)) or value is None:
        raise PackInvalid(f"{where}: must be a number or text, not {show(value)}")
    return value


def _text(value: Any, where: str) -> Any:
    if not isinstance(value, str) or not value.strip():
        raise PackInvalid(f"{where}: must be text, not {show(value)}")
    return value


def _list(value: Any, where: str) -> Any:
    if not isinstance(value, list):
        raise PackInvalid(f"{where}: must be a list, not {show(value)}")
    return value


def _bool(value: Any, where: str) -> Any:
    if not isinstance(value, bool):
        raise PackInvalid(f"{where}: must be true or false, not {show(value)}")
    return value


def _true(value: Any, where: str) -> Any:
    if value is not True:
        raise PackInvalid(f"{where}: can only be true")
    return value


def _pattern(value: Any, where: str) -> Any:
    try:
        return re.compile(_text(value, where))
    except re.error as error:
        raise PackInvalid(f"{where}: not a regular expression: {error}") from None


def _near(value: Any, where: str) -> Any:
    if not all(_number(part) for part in value) or value[1] < 0:
        raise PackInvalid(f"{where}: approx and within must be numbers, within not negative")
    return value


def _step(value: Any, where: str) -> Matcher:
    step = parse_matcher(value, where, ())
    if step.bind or step.looks_back or (step.literal is not ABSENT and not _number(step.literal)):
        raise PackInvalid(f"{where}: must be a number or a numeric matcher, not {show(value)}")
    return step


_TESTS: Final[Mapping[str, _Test]] = {
    "eq": _Test(lambda c, o, _: equal(c.value, o), lambda o, _: show(o), lambda o, _: o),
    "ne": _Test(
        lambda c, o, _: not equal(c.value, o), lambda o, _: f"not {show(o)}", lambda o, _: o
    ),
    "lt": _ordered(lambda a, b: a < b, "less than"),
    "le": _ordered(lambda a, b: a <= b, "at most"),
    "gt": _ordered(lambda a, b: a > b, "more than"),
    "ge": _ordered(lambda a, b: a >= b, "at least"),
    "in": _Test(
        lambda c, o, _: any(equal(c.value, item) for item in o),
        lambda o, _: f"one of {', '.join(show(item) for item in o)}",
        _list,
    ),
    "contains": _Test(
        lambda c, o, _: isinstance(c.value, str) and norm(o) in norm(c.value),
        lambda o, _: f"text with {show(o)}",
        _text,
    ),
    "regex": _Test(
        lambda c, o, _: isinstance(c.value, str) and o.search(c.value) is not None,
        lambda o, _: f"text like /{o.pattern}/",
        _pattern,
    ),
    "approx": _Test(
        lambda c, o, _: _number(c.value) and abs(c.value - o[0]) <= o[1] + 1e-9,
        lambda o, _: f"{show(o[0])} (within {show(o[1])})",
        _near,
    ),
    "delta": _Test(_holds_delta, _say_delta, _step),
    "null": _Test(
        lambda c, o, _: (c.value is None) is o,
        lambda o, _: "null" if o else "a value",
        _bool,
    ),
    "any": _Test(lambda c, o, _: True, lambda o, _: "any value", _true),
    "old": _Test(
        lambda c, o, _: c.before is not None and equal(c.value, c.before.get(o, ABSENT)),
        lambda o, _: f"the earlier value of {o}",
        _text,
    ),
    "set_eq": _Test(
        _holds_set,
        lambda o, _: f"a list of exactly {', '.join(show(item) for item in o)}",
        _list,
    ),
    "var": _Test(
        lambda c, o, b: o in b and equal(c.value, b[o]),
        lambda o, b: show(b[o]) if o in b else f"the same as {o}",
        _text,
    ),
    "norm": _Test(
        lambda c, o, _: isinstance(c.value, str) and norm(c.value) == norm(o),
        lambda o, _: show(o),
        _text,
    ),
}

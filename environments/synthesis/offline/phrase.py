"""Instructions out of clauses: one wish or several, in a voice that varies."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from environments.names import singular

_ONE = (
    "Please {a}.", "{A}.", "{A}, please.", "Could you {a}?", "I need you to {a}.", "Can you {a}?",
    "Would you {a}, please?", "One thing for today: {a}.",
)  # fmt: skip
_TWO = (
    "Please {a}, and then {b}.", "{A}. After that, {b}.", "{A}, and {b} as well.",
    "Two things: {a}, then {b}.", "Could you {a}? Then {b}, please.", "First {a}; then {b}.",
)  # fmt: skip
_MORE = (
    "{Numbered} things, please: {listed}.", "{A}. Then {b}. Finally, {rest}.",
    "There are {number} things to do. {Sentences}", "Please do the following: {listed}.",
)  # fmt: skip
_TRAPS = (
    "Please {a}. If that is refused, {b} instead.",
    "Try to {a}; should a rule stand against it, {b}.",
    "{A} if the rules allow it. If they do not, {b}.",
    "I would like you to {a}. In case that is not possible, {b} instead.",
)  # fmt: skip
_CONDITIONS = (
    "If {condition}, {a}; otherwise {b}.", "Check whether {condition}. If so, {a}. If not, {b}.",
    "In case {condition}, please {a}. Otherwise, {b}.",
)  # fmt: skip
_HOLE = re.compile(r"(\ba )?\{(\w*)\}((?: [a-z]+)?? [a-z]+[b-hj-rtv-z]s\b)?")
"""What is filled in, with an article before it and a plural behind it: ``{count} child seats``."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def asked(clauses: Sequence[str], dice: random.Random) -> str:
    """An instruction to do all of these, in their order."""
    if len(clauses) == 1:
        return _filled(dice.choice(_ONE), clauses)
    return _filled(dice.choice(_TWO if len(clauses) == 2 else _MORE), clauses)


def asked_with_fallback(first: str, second: str, dice: random.Random) -> str:
    """An instruction to do the first, or the second where a rule forbids it."""
    return _filled(dice.choice(_TRAPS), (first, second))


def asked_if(condition: str, first: str, second: str, dice: random.Random) -> str:
    """An instruction to do the first where a condition holds, otherwise the second."""
    return _filled(dice.choice(_CONDITIONS), (first, second), condition)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(items: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def an(noun: str) -> str:
    """The noun with its indefinite article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def worded(pattern: str, said: Mapping[str, str]) -> str:
    """The pattern with its holes filled: *a* is *an* before a vowel, and one thing no plural."""

    def fill(hole: re.Match[str]) -> str:
        article, name, plural = hole.groups(default="")
        value = said[name]
        return (an(value) if article else value) + (singular(plural) if value == "1" else plural)

    return _HOLE.sub(fill, pattern)


def _filled(pattern: str, clauses: Sequence[str], condition: str = "") -> str:
    number = _NUMBERS[len(clauses)] if len(clauses) < len(_NUMBERS) else str(len(clauses))
    return pattern.format(
        a=clauses[0],
        A=capital(clauses[0]),
        b=clauses[1] if len(clauses) > 1 else "",
        rest="; then ".join(clauses[2:]),
        condition=condition,
        number=number,
        Numbered=capital(number),
        listed="; ".join([*clauses[:-1], f"and {clauses[-1]}"]),
        Sentences=" ".join(f"{capital(clause)}." for clause in clauses),
    )

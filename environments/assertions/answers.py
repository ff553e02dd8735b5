"""What a task says about the agent's final answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import environments.assertions.words as words
from environments.assertions.values import canonical, norm, show
from environments.assertions.words import Scope, Word
from environments.errors import PackInvalid

_NUMBER = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?|[-+]?\.\d+")
_AROUND_WORD = "()[]{}<>,;:!?\"'*_`=~"
_AROUND_NUMBER = _AROUND_WORD + "$€£¥%"


@dataclass(frozen=True, slots=True)
class Answer:
    """The gate on the final answer; all ``gates`` (key, operand) must hold."""

    name: str
    gates: tuple[tuple[str, Any], ...]
    tolerance: float
    weight: float

    def failure(self, answer: str | None) -> str:
        """Why the answer is not the expected one; empty where it is."""
        if answer is None or not answer.strip():
            return "no answer was given"
        for key, operand in self.gates:
            reason = (
                self._numeric(operand, answer) if key == "numeric" else _GATES[key](operand, answer)
            )
            if reason:
                return reason
        return ""

    def _numeric(self, expected: float, answer: str) -> str:
        # Several different numbers are refused: else a list of guesses would pass.
        numbers = sorted(set(numbers_in(answer)))
        if not numbers:
            return f"the answer {show(answer)} has no number, expected {show(expected)}"
        if len(numbers) > 1:
            shown = ", ".join(show(number) for number in numbers[:5])
            return f"the answer has several numbers ({shown}), expected only {show(expected)}"
        if abs(numbers[0] - expected) <= self.tolerance + 1e-9:
            return ""
        return f"the answer is {show(numbers[0])}, expected {show(expected)}"


_ITEMS = words.of_type(
    {"type": "array", "minItems": 1, "items": {"type": ["string", "number"]}},
    lambda value: (
        isinstance(value, list) and bool(value) and all(str(item).strip() for item in value)
    ),
    "must be a list with something in it",
    sql=True,
)
WORDS: Final[Mapping[str, Word]] = {
    "exact": Word(words.TEXT, "this text, but for white space around it"),
    "norm": Word(words.TEXT, "this text, case, white space and a full stop aside"),
    "numeric": Word(words.NUMBER, "this number and no other, among whatever words"),
    "tolerance": Word(words.NUMBER_NOT_NEGATIVE, "how far from numeric it may be; 0 if left out"),
    "contains_all": Word(_ITEMS, "all of these stand in it, as whole words"),
    "contains_any": Word(_ITEMS, "one of these stands in it, as whole words"),
    "set_eq": Word(_ITEMS, "a list of these and nothing else, in any order"),
    "weight": Word(words.WEIGHT, "its share in a fractional reward; 1 if left out"),
}


def parse_answer(source: Any, place: str, scope: Scope) -> Answer:
    """Compile the ``answer`` of a verifier. Raises ``PackInvalid``."""
    gates = words.read(source, place, WORDS, scope, "gate")
    weight = float(gates.pop("weight", 1.0))
    tolerance = gates.pop("tolerance", None)
    if tolerance is not None and "numeric" not in gates:
        raise PackInvalid(f'{place}.tolerance: goes with "numeric"')
    if not gates:
        raise PackInvalid(f"{place}: asks for nothing", hint='e.g. {"norm": "Blue Ridge Ltd"}')
    return Answer(place, tuple(gates.items()), float(tolerance or 0.0), weight)


def numbers_in(text: str) -> list[float]:
    """The numbers that stand as words of their own: not parts of ids or dates. Signs of currency
    and percent and the comma of thousands are aside."""
    words = (word.strip(_AROUND_WORD).strip(_AROUND_NUMBER).rstrip(".") for word in text.split())
    signed = (re.sub(r"^([-+])[$€£¥]", r"\1", word) for word in words)
    return [float(word.replace(",", "")) for word in signed if _NUMBER.fullmatch(word)]


def _exact(expected: str, answer: str) -> str:
    same = answer.strip() == expected.strip()
    return "" if same else f"the answer is {show(answer)}, expected {show(expected)}"


def _norm(expected: str, answer: str) -> str:
    same = _bare(answer) == _bare(expected)
    return "" if same else f"the answer is {show(answer)}, expected {show(expected)}"


def _contains_all(expected: list[Any], answer: str) -> str:
    missing = [item for item in expected if not _has_words(_written(item), answer)]
    return f"the answer lacks {', '.join(show(item) for item in missing)}" if missing else ""


def _contains_any(expected: list[Any], answer: str) -> str:
    if any(_has_words(_written(item), answer) for item in expected):
        return ""
    return f"the answer has none of {', '.join(show(item) for item in expected)}"


def _set_eq(expected: list[Any], answer: str) -> str:
    given = {_item(part) for part in re.split(r"[,;\n]", answer) if part.strip()}
    wanted = {_item(_written(item)) for item in expected}
    if given == wanted:
        return ""
    lacking = ", ".join(sorted(str(item) for item in wanted - given))
    surplus = ", ".join(sorted(str(item) for item in given - wanted))
    parts = [f"lacks {lacking}" if lacking else "", f"should not have {surplus}" if surplus else ""]
    return f"the answer {' and '.join(part for part in parts if part)}"


def _written(item: Any) -> str:
    return item if isinstance(item, str) else show(item)


def _item(text: str) -> Any:
    bare = _bare(re.sub(r"^\s*([-*•]|and\s)\s*", "", text))
    return canonical(float(bare)) if re.fullmatch(r"[-+]?\d+(\.\d+)?", bare) else bare


def _bare(text: str) -> str:
    return norm(text).strip(" .!\"'`*")


def _has_words(words: str, text: str) -> bool:
    """Whether the words stand in the text, not as a part of a longer word or number."""
    wanted = norm(words)
    before = r"(?<!\w)(?<!\d[.,])" if wanted[0].isalnum() else ""
    after = r"(?!\w)(?![.,]\d)" if wanted[-1].isalnum() else ""
    return re.search(before + re.escape(wanted) + after, norm(text)) is not None


_GATES: Final[Mapping[str, Callable[[Any, str], str]]] = {
    "exact": _exact,
    "norm": _norm,
    "contains_all": _contains_all,
    "contains_any": _contains_any,
    "set_eq": _set_eq,
}

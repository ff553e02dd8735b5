"""Values that come from nowhere: for what a tool takes that names nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from environments.names import singular
from environments.synthesis.sampling.describing import LABELS
from environments.synthesis.sampling.graph import Parameter, ToolGraph
from environments.synthesis.sampling.tables import Scalar, Tables, tokens_of
from environments.synthesis.walk import DeadEnd

_NEUTRAL: Final[Mapping[str, Sequence[str]]] = {
    "note": (
        "Asked for by phone on Monday", "As agreed at the counter", "Needed before the weekend",
        "Call before noon if anything is unclear",
    ),
    "reason": (
        "Asked for by phone on Monday", "Plans have changed", "It was a mistake",
        "Agreed with everybody involved",
    ),
    "message": (
        "Thank you for the quick help", "Please let me know when it is done",
        "I will look into it tomorrow morning", "This took longer than we had hoped",
    ),
    "outcome": ("Done as agreed by phone", "Settled on Monday, nothing is left to do"),
    "description": ("As talked about on Monday", "Needed before the weekend"),
}  # fmt: skip
SEARCHES: Final = frozenset({"query", "q", "text", "search", "term", "keyword", "keywords", "name"})
"""Names of parameters that take what something is called."""
_LARGE: Final = 50
"""Smaller numbers are counts, and are taken as they are."""
_WORD_FOR: Final = {
    "notes": "note", "memo": "note", "remark": "note", "remarks": "note", "text": "message",
    "content": "message", "comments": "message", "comment": "message", "body": "message",
    "details": "description", "resolution": "outcome", "explanation": "reason",
    "justification": "reason", "feedback": "message", "instructions": "note",
}  # fmt: skip


class Values:
    """Chooses values: as in oracles that are there, of the columns of that name, by the schema."""

    def __init__(
        self, graph: ToolGraph, tables: Tables, start: datetime, dice: random.Random
    ) -> None:
        self._graph = graph
        self._tables = tables
        self._start = start
        self._dice = dice

    def of(self, one: Parameter) -> Any:
        """A value of its own for a parameter that names nothing. Raises ``DeadEnd``."""
        if one.schema.get("enum"):
            return self.as_taken(one, self._dice.choice(one.schema["enum"]))
        seen = self._graph.seen[one.tool]
        meant = [value for call in seen.arguments[: seen.meant] for value in one.used(call)]
        known = self._own(one) or self._graph.pools.get(one.path[-1], ())
        known = [value for value in _each(known) if fits(value, one)]
        meant = [value for value in meant if fits(value, one)]
        if said := self._said(one, known):
            return self.as_taken(one, said)
        if meant and (not known or self._dice.random() < 0.6):
            return self.as_taken(one, self._near(one, self._dice.choice(meant)))
        if known and one.schema.get("type") != "string":
            return self.as_taken(one, self._near(one, self._dice.choice(known)))
        made = self._made(one, known)
        if made is None:
            raise DeadEnd(f"nothing to say for {one.name} of {one.tool}")
        return self.as_taken(one, made)

    def as_taken(self, one: Parameter, value: Any) -> Any:
        return [value] if one.listed and len(one.path) == 1 else value

    def _near(self, one: Parameter, value: Any) -> Any:
        """A value, or a rounder one of its size: not always the same amount."""
        if type(value) not in (int, float) or abs(value) < _LARGE:
            return value
        digits = 2 - len(str(int(abs(value))))
        other = round(int(value * self._dice.choice((0.6, 0.8, 1, 1.2))), digits)
        return other if fits(other, one) else value

    def _made(self, one: Parameter, known: Sequence[Scalar]) -> Any:
        low = int(one.schema.get("minimum", one.schema.get("exclusiveMinimum", 0) + 1))
        match one.schema.get("type"):
            case "boolean":
                return self._dice.random() < 0.5
            case "integer" | "number":
                return self._dice.randint(
                    low, int(min(one.schema.get("maximum", low + 9), low + 9))
                )
            case "string":
                return self._text(one, known)
        return None

    def _text(self, one: Parameter, known: Sequence[Scalar]) -> str | None:
        last = (tokens_of(one.path[-1]) or ("",))[-1]
        if one.schema.get("format") == "date" or last in ("date", "day", "on", "until", "deadline"):
            return (self._start + timedelta(days=self._dice.randint(1, 21))).date().isoformat()
        if not known and SEARCHES & {*tokens_of(one.path[-1])}:
            known = [value for value in self._names(one) if fits(value, one)]
        return str(self._dice.choice(known)) if known else None

    def _names(self, one: Parameter) -> list[Scalar]:
        """What rows are called that a search may be for."""
        about = {singular(token) for token in tokens_of(one.tool)}
        tables = [table for table in self._tables if {*table.noun[-1:]} <= about]
        labels = [
            self._tables.values(table.name, name)
            for table in tables or self._tables
            for name in LABELS
            if name in table.columns
        ]
        return [value for values in labels for value in values]

    def _said(self, one: Parameter, known: Sequence[Scalar]) -> str | None:
        """Something to say where a text is wanted that is about nothing else: what was written of
        one ticket makes no sense in another."""
        tokens = tokens_of(one.path[-1])
        words = [word for word in tokens if _WORD_FOR.get(word, word) in _NEUTRAL]
        coded = known and sum(str(value).count(" ") > 1 for value in known) * 2 < len(known)
        if not words or "pattern" in one.schema or (len(tokens) > 1 and coded):
            return None
        neutral = _NEUTRAL[_WORD_FOR.get(words[-1], words[-1])]
        texts = [text for text in neutral if fits(text, one)]
        return self._dice.choice(texts) if texts else None

    def _own(self, one: Parameter) -> list[Scalar]:
        """What stands under its name in the table that the tool's name speaks of: a beer is called
        like beers, not like their pubs."""
        about = {singular(token) for token in tokens_of(one.tool)}
        near = [table for table in self._tables if about >= {*table.noun}]
        near.sort(key=lambda table: -len(table.noun))
        return next(
            (
                self._tables.values(table.name, one.path[-1])
                for table in near
                if one.path[-1] in table.columns
            ),
            [],
        )


def _each(values: Sequence[Scalar]) -> Iterator[Scalar]:
    """Values, those of lists that are stored as text each by itself."""
    for value in values:
        if isinstance(value, str) and value[:1] in ("[", "{"):
            with suppress(msgspec.DecodeError):
                inner = msgspec.json.decode(value)
                yield from inner if isinstance(inner, list) else ()
        else:
            yield value


def fits(value: Any, one: Parameter) -> bool:
    """Whether a tool would take the value."""
    schema = one.schema
    match schema.get("type"):
        case "string":
            fewest, most = max(1, schema.get("minLength", 1)), schema.get("maxLength", 200)
            return isinstance(value, str) and fewest <= len(value) <= most and "\n" not in value
        case "integer":
            return type(value) is int and _within(value, schema)
        case "number":
            return type(value) in (int, float) and _within(value, schema)
        case "boolean":
            return isinstance(value, bool)
    return False


def _within(value: float, schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))

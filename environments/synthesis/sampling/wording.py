"""Instructions for walks by template: what each call does, and to what, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from environments.names import singular
from environments.spec import ToolSpec
from environments.synthesis.sampling.describing import (
    DESCRIBED,
    EXPLICIT,
    Describer,
    Said,
    said_value,
    words_of,
)
from environments.synthesis.sampling.tables import tokens_of
from environments.synthesis.sampling.walker import Given, Move
from environments.synthesis.walk import DeadEnd, Walk

_UNCOUNTED: Final = frozenset({"stock", "access", "feedback", "equipment", "information", "money"})


_PARTICLES: Final = frozenset({"back", "in", "out", "up", "off", "down", "away"})
_PREPOSITIONS: Final = frozenset({
    "to", "from", "of", "for", "as", "between", "with", "on", "by", "at", "into", "against",
})  # fmt: skip


_MAKING: Final = frozenset({
    "create", "add", "open", "register", "record", "submit", "send", "post", "book", "place", "log",
    "make", "file", "schedule", "request", "issue", "start", "write",
})  # fmt: skip


class Clause(NamedTuple):
    """What one call is asked for by: imperative, without a capital or a full stop."""

    text: str
    implicit: int
    figures: tuple[str, ...]
    """What has to be said, in whatever words."""
    plain: tuple[Given, ...]
    """What is told by its id: nobody has to look for it."""


def clause_of(move: Move, walk: Walk, describer: Describer, level: int) -> Clause:
    """The words for a call. Raises ``DeadEnd`` where they would be ambiguous."""
    said = {
        each.parameter.name: said_of(each, walk, describer, level)
        for each in move.given
        if each.thing is not None
    }
    plain = tuple(
        each for each in move.given
        if each.thing is not None and said[each.parameter.name].implicit == EXPLICIT
    )  # fmt: skip
    about = _object(move, describer)
    rest: list[str] = []
    figures: list[str] = []
    for each in move.given:
        name = each.parameter.name
        if name in said:
            figures += said[name].figures
            words = said[name].phrase
        else:
            words = said_value(each.value)
            figures += _figures(each)
        if each is not about:
            role = words_of(each.parameter.path[-1], dated=False)
            rest.append(f"{role}: {_short(words, role)}")
    text = _done(move.tool, None if about is None else said[about.parameter.name].phrase)
    details = f" ({'; '.join(rest)})" if rest else ""
    implicit = max((one.implicit for one in said.values()), default=EXPLICIT)
    return Clause(f"{text}{details}", implicit, tuple(figures), plain)


def _short(phrase: str, role: str) -> str:
    """A thing in words, without those that its role has said: *ticket: “…”*."""
    for head in (f"the {role} “", f"{role} "):
        if phrase.startswith(head):
            return phrase.removeprefix(head.removesuffix("“"))
    if phrase.startswith(f"the {role} with "):
        return f"the one {phrase.removeprefix(f'the {role} ')}"
    return phrase


def sentences(clauses: Sequence[Clause]) -> str:
    """An instruction to do all of these in their order."""
    first, *more = (clause.text for clause in clauses)
    if not more:
        return f"Please {first}."
    *middle, last = more
    parts = [f"Please {first}.", *(f"Next, {text}." for text in middle), f"Then {last}."]
    return " ".join(parts)


def said_of(each: Given, walk: Walk, describer: Describer, level: int) -> Said:
    """A thing that a call was given, in words. Raises ``DeadEnd`` where they would be ambiguous."""
    assert each.thing is not None
    maker = walk.steps[each.thing.call]
    if describer.was_there(each.thing) or walk.episode.tools[maker.tool].read_only:
        return describer.described(each.thing, level)
    noun = describer.noun(each.thing.kind)
    if sum(step.tool == maker.tool for step in walk.steps) > 1:
        raise DeadEnd(f"there would be more than one new {noun}")
    return Said(f"the new {noun}", DESCRIBED)


def _figures(each: Given) -> Iterator[str]:
    values = each.value if isinstance(each.value, list) else [each.value]
    for value in values:
        if not isinstance(value, bool):
            yield str(value)


def _object(move: Move, describer: Describer) -> Given | None:
    """The thing that the tool's name speaks of: a ticket for ``assign_ticket``."""
    rest = tokens_of(move.tool.name.rpartition("__")[2])[1:]
    if not rest or rest[0] in _PREPOSITIONS:
        return None
    name = [singular(token) for token in rest]
    nouns = [
        (name.index(noun), place)
        for place, each in enumerate(move.given)
        if each.thing is not None and (noun := describer.noun(each.thing.kind).split()[-1]) in name
    ]
    return move.given[min(nouns)[1]] if nouns else None


def _done(tool: ToolSpec, phrase: str | None) -> str:
    """What a tool does, by its name: ``set_ticket_priority`` is *set the priority of the …*."""
    verb, *rest = tokens_of(tool.name.rpartition("__")[2])
    if rest[:1] and rest[0] in _PARTICLES:
        verb, rest = f"{verb} {rest[0]}", rest[1:]
    if phrase is None:
        return f"{verb} {_with_article(rest)}".strip()
    words = {singular(word) for word in phrase.removeprefix("the ").split()[:4]}
    left = [token for token in rest if singular(token) not in words]
    if not left:
        return f"{verb} {phrase}"
    if left[0] in _PREPOSITIONS:
        return f"{verb} {phrase} {' '.join(left)}"
    if verb in _MAKING:
        return f"{verb} {_with_article(left)} for {phrase}"
    return f"{verb} the {' '.join(left)} of {phrase}"


def _with_article(words: Sequence[str]) -> str:
    text = " ".join(words)
    if not words or words[0] in _PREPOSITIONS:
        return text
    if singular(words[-1]) != words[-1] or words[-1] in _UNCOUNTED:
        return text
    return f"{'an' if text[0] in 'aeiou' else 'a'} {text}"

"""Instructions for walks by template: what each call does, and to what, in words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from environments.names import singular
from environments.oracle import REFERENCE
from environments.spec import ToolSpec
from environments.synthesis.sampling.describing import (
    DESCRIBED,
    EXPLICIT,
    Describer,
    Said,
    said_value,
    words_of,
)
from environments.synthesis.sampling.graph import Leaf, ToolGraph, leaves_of
from environments.synthesis.sampling.tables import tokens_of
from environments.synthesis.sampling.values import SEARCHES
from environments.synthesis.sampling.walker import CUTS, Given, Move
from environments.synthesis.walk import DeadEnd, Walk
from snapshots import Changeset

_UNCOUNTED: Final = frozenset({
    "stock", "access", "feedback", "equipment", "information", "money", "default",
    "data", "honey", "fuel", "water", "blood", "food",
})  # fmt: skip
_COUNTED: Final = frozenset({
    "booking", "listing", "meeting", "building", "reading", "setting", "training", "hearing",
    "recording", "posting", "rating", "drawing",
})  # fmt: skip
"""What ends in *-ing* and is a thing, not an activity."""


_PARTICLES: Final = frozenset({"back", "in", "out", "up", "off", "down", "away"})
_PREPOSITIONS: Final = frozenset({
    "to", "from", "of", "for", "as", "between", "with", "on", "by", "at", "into", "against",
})  # fmt: skip


_MAKING: Final = frozenset({
    "create", "add", "open", "register", "record", "submit", "send", "post", "book", "place", "log",
    "make", "file", "schedule", "request", "issue", "start", "write",
})  # fmt: skip
_SETTING: Final = frozenset({
    "set", "change", "update", "edit", "correct", "adjust", "raise", "lower", "get", "extend",
    "move", "modify", "rename", "reset", "clear", "confirm", "check", "simulate", "release",
    "toggle", "mark",
})  # fmt: skip
"""Verbs whose object is there already."""
_JOINED: Final = {"add": "to", "attach": "to", "append": "to", "remove": "from", "delete": "from"}
_DONE: Final = frozenset({"lost", "paid", "done", "sent", "sold", "read", "found"})
_CHANGING: Final = frozenset({"update", "edit", "modify"})
_FEW: Final = 3
_ROLES: Final = frozenset({"admin", "user", "manager", "staff"})
"""First words of names that say who calls, not what is done."""


class Clause(NamedTuple):
    """What one call is asked for by: imperative, without a capital or a full stop."""

    text: str
    implicit: int
    figures: tuple[str, ...]
    """What has to be said, in whatever words."""
    plain: tuple[Given, ...]
    """What is told by its id: nobody has to look for it."""
    hint: str = ""
    """What else has to be known to find what is meant: a sentence."""


def clause_of(move: Move, walk: Walk, describer: Describer, level: int) -> Clause:
    """The words for a call. Raises ``DeadEnd`` where they would be ambiguous."""
    said = {
        each.parameter.name: said_of(each, walk, move.number, describer, level)
        for each in move.given
        if each.thing is not None
    }
    plain = tuple(
        each for each in move.given
        if each.thing is not None and said[each.parameter.name].implicit == EXPLICIT
    )  # fmt: skip
    for each in move.given:
        if each.thing is None and each.kind is not None and not each.parameter.listed:
            told = f"{describer.noun(each.kind)} {each.value}"
            said[each.parameter.name] = Said(told, EXPLICIT, (str(each.value),))
    if _spoken(move.tool, walk)[0] in _CHANGING and all(each.kind for each in move.given):
        raise DeadEnd("nothing is said that is to change")
    about = _object(move, describer)
    target = None if about is None else _target(move, about, describer)
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
        if each is not about and each is not target:
            role = words_of(each.parameter.path[-1], alone=False)
            rest.append(f"{role}: {_short(words, role)}")
    phrase = None if about is None else said[about.parameter.name].phrase
    noun = describer.noun(about.kind).split() if about is not None and about.kind else ()
    text = _done(_spoken(move.tool, walk), phrase, noun)
    if target is not None:
        text = f"{text.rpartition(' to ')[0]} to {said[target.parameter.name].phrase}"
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
    heads = ["Please", *("Next," for _ in clauses[1:-1]), *("Then" for _ in clauses[1:][:1])]
    parts = [f"{head} {one.text}. {one.hint}" for head, one in zip(heads, clauses, strict=True)]
    return " ".join(part.strip() for part in parts)


def hinted(
    moves: Sequence[tuple[Move, Clause]],
    feeding: Sequence[Sequence[int]],
    walk: Walk,
    graph: ToolGraph,
    describer: Describer,
) -> list[tuple[Move, Clause]]:
    """The clauses with what else has to be known for the calls that are ``feeding`` each move."""
    with_hints: list[tuple[Move, Clause]] = []
    told = ""
    done = {move.number for move, _ in moves}
    for (move, clause), numbers in zip(moves, feeding, strict=True):
        told += clause.text
        for number in numbers:
            if number not in done:
                done.add(number)
                hint, figures = _hint(number, walk, graph, describer, told)
                told += hint
                hints = " ".join(filter(None, [clause.hint, hint]))
                clause = clause._replace(hint=hints, figures=(*clause.figures, *figures))
        with_hints.append((move, clause))
    return with_hints


def _hint(
    number: int, walk: Walk, graph: ToolGraph, describer: Describer, told: str
) -> tuple[str, tuple[str, ...]]:
    """What has to be known to make a call that only finds something, and its figures: nothing where
    ``told`` has said it."""
    call = walk.calls[number]
    known: list[tuple[str, Any]] = []
    for one in graph.parameters[call.tool]:
        for value in one.used(call.arguments):
            choice = isinstance(value, bool) or one.schema.get("enum") or one.name in CUTS
            if not choice and not REFERENCE.fullmatch(str(value)):
                known.append((words_of(one.path[-1], alone=False), value))
    if all(says(told, value) for _, value in known):
        return "", ()
    kinds = [graph.gives.get((call.tool, leaf.field)) for leaf in _used(number, walk)]
    noun = next((describer.noun(kind) for kind in kinds if kind is not None), "rest")
    parts = [
        f"{'' if {*role.split()} & SEARCHES - {'name'} else role} {said_value(value)}".strip()
        for role, value in known
    ]
    listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return f"Known of the {noun}: {listed}.", tuple(str(value) for _, value in known)


def says(text: str, value: Any) -> bool:
    """Whether a value stands in a text by itself, as instructions have it."""
    return has_word(text, said_value(value))


def has_word(text: str, word: str) -> bool:
    """Whether a word, or several, stand in a text by themselves."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _used(number: int, walk: Walk) -> Iterator[Leaf]:
    """What later calls take from the answer of one."""
    leaves = {
        f"${{{number}{''.join(f'.{part}' for part in leaf.path)}}}": leaf
        for leaf in leaves_of(walk.steps[number].result)
    }
    for call in walk.calls[number + 1 :]:
        for text in re.findall(r"\$\{[^}]*\}", str(call.arguments)):
            if text in leaves:
                yield leaves[text]


def said_of(each: Given, walk: Walk, number: int, describer: Describer, level: int) -> Said:
    """A thing that call ``number`` was given, in words. Raises ``DeadEnd`` where they would be
    ambiguous."""
    assert each.thing is not None
    kind, maker = each.thing.kind, walk.steps[each.thing.call]
    changed, added = _before(walk, number)
    describer = describer.after(changed, added)
    if describer.was_there(each.thing):
        return describer.described(each.thing, level)
    noun, new = describer.noun(kind), len(added[kind.table])
    if not any(change.changes for change in maker.changes):
        if new:
            raise DeadEnd(f"the new {noun} would be told by its id")
        return describer.described(each.thing, level)
    if max(sum(step.tool == maker.tool for step in walk.steps), new) > 1:
        raise DeadEnd(f"there would be more than one new {noun}")
    return Said(f"the new {noun}", DESCRIBED)


def _before(
    walk: Walk, number: int
) -> tuple[dict[str, set[str]], dict[str, list[Mapping[str, Any]]]]:
    """The columns of each table that have changed before a call, and the rows that were added."""
    changed: dict[str, set[str]] = defaultdict(set)
    added: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for change in _changes(walk, number):
        for table in change.tables:
            for row in change.rows(table):
                if row.kind == "added":
                    added[table].append(row.after or {})
                else:
                    changed[table] |= {*(row.after or {})}
    return changed, added


def _changes(walk: Walk, number: int) -> Iterator[Changeset]:
    for step in walk.steps[:number]:
        yield from (Changeset.from_json(change.changes) for change in step.changes)


def _figures(each: Given) -> Iterator[str]:
    values = each.value if isinstance(each.value, list) else [each.value]
    for value in values:
        if not isinstance(value, bool):
            yield str(value)


def _object(move: Move, describer: Describer) -> Given | None:
    """The thing that is acted on: the ticket that ``assign_ticket`` has in its name, else the first
    whose parameter says no more than what it is."""
    rest = tokens_of(move.tool.name.rpartition("__")[2])[1:]
    name = [singular(token) for token in rest]
    things = [
        (each, describer.noun(each.kind).split())
        for each in move.given
        if each.kind is not None
        and (each.kind.table or each.kind.column.endswith("id"))
        and not each.parameter.listed
        and each.parameter.required
    ]
    nouns = [
        (name.index(noun[-1]), place) for place, (_, noun) in enumerate(things) if noun[-1] in name
    ]
    if nouns and rest[0] not in _PREPOSITIONS:
        return things[min(nouns)[1]][0]
    for each, noun in things:
        role = tokens_of(each.parameter.path[-1])
        if "".join(role).removesuffix("id") in ("".join(noun), noun[-1]):
            return each
    return None


def _target(move: Move, about: Given, describer: Describer) -> Given | None:
    """Where the thing is put that is acted on: the order for ``assign_driver_to_order``."""
    head, _, role = move.tool.name.rpartition("__")[2].rpartition("_to_")
    ends = [tokens_of(part)[-1:] for part in (head, role)]
    wanted = [singular(word) for end in ends for word in end]
    for each in move.given:
        if each is about or each.kind is None or about.kind is None or each.parameter.listed:
            continue
        if wanted == [describer.noun(kind).split()[-1] for kind in (about.kind, each.kind)]:
            return each
    return None


def _spoken(tool: ToolSpec, walk: Walk) -> Sequence[str]:
    """The words of a tool's name, without one that nearly all tools begin with."""
    words = tokens_of(tool.name.rpartition("__")[2])
    first = [tokens_of(name.rpartition("__")[2])[:1] for name in walk.episode.tools]
    common = len(first) > _FEW and first.count(words[:1]) > 0.7 * len(first)
    return words[1:] if (common or words[0] in _ROLES) and len(words) > 1 else words


def _done(name: Sequence[str], phrase: str | None, noun: Sequence[str]) -> str:
    """What a tool does, by its name: ``set_ticket_priority`` is *set the priority of the …*."""
    verb, *rest = name
    if rest[:1] and rest[0] in _PARTICLES:
        verb, rest = f"{verb} {rest[0]}", rest[1:]
    if phrase is None:
        return f"{verb} {_with_articles(rest)}".strip()
    named = any(singular(token) == noun[-1] for token in rest)
    if "".join(rest) == "".join(noun):
        return f"{verb} {phrase}"
    left = [token for token in rest if not named or singular(token) not in noun]
    if not left:
        return f"{verb} {phrase}"
    if left[0] in _PREPOSITIONS:
        return f"{verb} {phrase} {_with_articles(left)}"
    if all(token.endswith("ed") or token in _DONE for token in left):
        return f"{verb} {phrase} as {' '.join(left)}"
    if verb in _SETTING or (len(left) < len(rest) and verb not in _MAKING):
        return f"{verb} the {' '.join(left)} of {phrase}"
    return f"{verb} {_with_articles(left)} {_JOINED.get(verb, 'for')} {phrase}"


def _with_articles(words: Sequence[str]) -> str:
    """``order to batch`` is *an order to a batch*."""
    places = [place for place, word in enumerate(words) if word in _PREPOSITIONS]
    if not places or not words[places[0] + 1 :]:
        return _with_article(words)
    head, preposition, tail = words[: places[0]], words[places[0]], words[places[0] + 1 :]
    after = " ".join(tail) if preposition not in ("to", "from") else _with_articles(tail)
    return f"{_with_article(head)} {preposition} {after}".strip()


def _with_article(words: Sequence[str]) -> str:
    text, last = " ".join(words), (words or [""])[-1]
    if not last or last in _PREPOSITIONS or last in _UNCOUNTED or last.endswith("ed"):
        return text
    if last.endswith("ing") and last not in _COUNTED:
        return text
    if singular(last) != last:
        return text
    vowel = text[0] in "aeiou" and not text.startswith(("uni", "use", "usa", "eu", "one"))
    return f"{'an' if vowel else 'a'} {text}"

"""Questions about what a walk has read: nothing changes, and the answer is what counts.

The answer stands in an answer of a tool, or follows from a whole list of them; that the list is
whole is known from the database. What a guess would find is not asked.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from environments.synthesis.sampling.describing import (
    COMPARED,
    DESCRIBED,
    EXPLICIT,
    PLACES,
    Describer,
    extremes_of,
    is_day,
    is_number,
    is_plural,
    said_value,
    speakable,
    words_of,
)
from environments.synthesis.sampling.graph import Leaf, leaves_of
from environments.synthesis.sampling.tables import Scalar, Tables, tokens_of
from environments.synthesis.sampling.walker import Given, Move
from environments.synthesis.sampling.wording import Clause, said_of, says
from environments.synthesis.walk import DeadEnd, Walk

_COMMON: Final = 3
"""A value that stands in more cells than these is found by guessing."""
_FEWEST: Final = 4
_LEAST: Final = 12
_CHOICES: Final = 8
"""A value out of fewer than these is found by guessing, too."""
_NO_AMOUNTS: Final = PLACES | {"year", "level", "rate", "score", "rating", "percent", "order"}
_SAID_OF_A_CALL: Final = frozenset({"error", "message", "detail", "details", "hint", "success"})
_SWITCHES: Final = frozenset({"true", "false", "none", "null", "unknown"})
_LOOKED_AT: Final = 12
_PAGING: Final = frozenset({"offset", "page", "pages", "limit", "cursor", "total", "count", "size"})


class Question(NamedTuple):
    """What is asked, how the answer is judged, and the right one."""

    clause: Clause
    gate: dict[str, Any]
    answer: str
    about: str
    """The column that is asked for, or compared."""


class _List(NamedTuple):
    """Objects of an answer that tell of rows, all there are of a kind."""

    table: str
    rows: Sequence[Mapping[str, Any]]
    holders: Sequence[Mapping[str, Any]]


class Asker:
    """Makes questions of what the last call of a walk answered."""

    def __init__(self, tables: Tables, describer: Describer, dice: random.Random) -> None:
        self._tables = tables
        self._describer = describer
        self._dice = dice

    def question(self, move: Move, walk: Walk, level: int) -> Question:
        """Raises ``DeadEnd`` where nothing worth a question was answered."""
        makers = [self._total, self._most, self._fact, self._fact]
        self._dice.shuffle(makers)
        for make in makers:
            try:
                return make(move, walk, level)
            except DeadEnd:
                continue
        raise DeadEnd("nothing to ask")

    # One fact ------------------------------------------------------------------------------------

    def _fact(self, move: Move, walk: Walk, level: int) -> Question:
        leaves = list(leaves_of(walk.steps[move.number].result))
        self._dice.shuffle(leaves)
        for leaf in itertools.islice(filter(self._worth, leaves), _LOOKED_AT):
            subject = self._subject(leaf, move, walk, level)
            if subject is None or str(leaf.value) in subject.text:
                continue
            words = words_of(str(leaf.path[-1]))
            if words in subject.text:
                continue
            gate, how, answer = _judged(leaf.value)
            verb = "are" if is_plural(str(leaf.path[-1])) else "is"
            text = f"what {verb} the {words} of {subject.text}? Answer with {how}"
            return Question(subject._replace(text=text), gate, answer, words)
        raise DeadEnd("no fact to ask for")

    def _worth(self, leaf: Leaf) -> bool:
        name, value = str(leaf.path[-1]), leaf.value
        if isinstance(leaf.path[-1], int) or self._is_part(leaf):
            return False
        if not speakable(name, value) or {*tokens_of(name)} & (_PAGING | _SAID_OF_A_CALL):
            return False
        if self._tables.places(value) > _COMMON or self._few(leaf):
            return False
        if isinstance(value, str):
            told = (len(value) >= 4 or not value.isalpha()) and value.lower() not in _SWITCHES
            return told and self._tables.has(value)
        return abs(value) >= _LEAST

    def _is_part(self, leaf: Leaf) -> bool:
        """Whether its name says too little: it stands deep in an object that tells of no row."""
        inside = len(leaf.path) > 1 and isinstance(leaf.path[-2], str)
        return inside and self._describer.owner(leaf.holder) is None

    def _few(self, leaf: Leaf) -> bool:
        """Whether its column has so few values that one might as well guess."""
        owner = self._describer.owner(leaf.holder)
        name = str(leaf.path[-1])
        if owner is None or name not in owner[1]:
            return False
        rows = self._tables[owner[0]].rows
        different = len({row[name] for row in rows})
        word = isinstance(leaf.value, str) and leaf.value.isalpha()
        return different < _CHOICES and (different < len(rows) or word)

    def _subject(self, leaf: Leaf, move: Move, walk: Walk, level: int) -> Clause | None:
        """Whose fact it is, in words, with all that the call has to be given."""
        owner = self._describer.owner(leaf.holder)
        things = [each for each in move.given if each.thing is not None]
        others = [each for each in move.given if each.thing is None]
        if owner is not None:
            table, row = owner
            if any(row.get(one.parameter.name, one.value) != one.value for one in others):
                return None  # it was found beside what was asked for
            for each in others:
                if each.kind is not None and self._tables.row(each.kind, each.value) == row:
                    told = f"{self._describer.noun(each.kind)} {each.value}"
                    clause = Clause(told, EXPLICIT, (str(each.value),), ())
                    return _detailed(clause, [one for one in others if one is not each])
            if str(leaf.path[-1]) not in row and 2 * sum(n in row for n in leaf.holder) < len(
                leaf.holder
            ):
                return None  # it tells more of something else
            said = self._describer.row(table, row, leaf.holder, max(level, DESCRIBED))
            if row.get(str(leaf.path[-1])) == leaf.value:  # it is so whatever is chosen
                others = [each for each in others if not each.parameter.schema.get("enum")]
            if said is not None and (len(things) != 1 or level != COMPARED):
                return _detailed(Clause(said.phrase, said.implicit, said.figures, ()), others)
            if owner[1] != self._row_of(things):
                return None
        if len(things) != 1 or any(isinstance(part, int) for part in leaf.path):
            return None  # of a list, it is the fact of an item
        said = said_of(things[0], walk, move.number, self._describer, level)
        plain = tuple(things) if said.implicit == EXPLICIT else ()
        return _detailed(Clause(said.phrase, said.implicit, said.figures, plain), others)

    def _row_of(self, things: Sequence[Any]) -> Mapping[str, Any] | None:
        if len(things) != 1:
            return None
        thing = things[0].thing
        return self._tables.row(thing.kind, thing.leaf.value)

    # Of a whole list -----------------------------------------------------------------------------

    def _total(self, move: Move, walk: Walk, level: int) -> Question:
        listed, whose = self._whole(move, walk, level)
        columns = [
            name
            for name in self._shared(listed)
            if all(is_number(row[name]) for row in listed.rows) and _adds_up(name)
        ]
        if not columns:
            raise DeadEnd("nothing adds up")
        name = self._dice.choice(columns)
        total = round(sum(row[name] for row in listed.rows), 2)
        if abs(total) < _LEAST or self._tables.places(total):
            raise DeadEnd("too easy to guess")
        text = f"what is the total {words_of(name)} of {whose.text}? Answer with the number alone"
        gate = {"numeric": total, "tolerance": 0.01}
        clause = whose._replace(text=text, implicit=COMPARED)
        return Question(clause, gate, _written(total), name)

    def _most(self, move: Move, walk: Walk, level: int) -> Question:
        listed, whose = self._whole(move, walk, level)
        for name in self._dice.sample(self._shared(listed), len(self._shared(listed))):
            values = [row[name] for row in listed.rows]
            if not all(map(is_number, values)) or len({*values}) < 3 or not _adds_up(name):
                continue
            best = self._dice.choice((max, min))(values)
            if values.count(best) > 1:
                continue
            at = values.index(best)
            label = self._label(listed, at)
            if label is None:
                continue
            word = extremes_of(name, best)[best != max(values)]
            answer = str(listed.rows[at][label])
            text = (
                f"of {whose.text}, which one has the {word} {words_of(name)}? "
                f"Answer with its {words_of(label)} alone"
            )
            clause = whose._replace(text=text, implicit=COMPARED)
            return Question(clause, {"norm": answer}, answer, name)
        raise DeadEnd("nothing to compare by")

    def _label(self, listed: _List, at: int) -> str | None:
        """A column that tells the one row from the others, and is a word for it."""
        for name in self._shared(listed):
            value = listed.rows[at][name]
            if isinstance(value, str) and len(self._tables.alike(listed.table, {name: value})) == 1:
                return name
        return None

    def _shared(self, listed: _List) -> list[str]:
        """The columns that are told of every row."""
        pairs = zip(listed.rows, listed.holders, strict=True)
        shown = [{*self._describer.shown(listed.table, row, holder)} for row, holder in pairs]
        columns = self._tables[listed.table].columns
        return [name for name in columns if all(name in each for each in shown)]

    def _whole(self, move: Move, walk: Walk, level: int) -> tuple[_List, Clause]:
        """A list in the answer that is whole, and whose it is."""
        things = [each for each in move.given if each.thing is not None]
        if len(things) != len(move.given) or len(things) > 1:
            raise DeadEnd("it depends on more than one thing")
        for holders in _lists(walk.steps[move.number].result):
            owners = [self._describer.owner(holder) for holder in holders]
            if len(holders) < _FEWEST or None in owners:
                continue
            (table, _), *_ = found = [owner for owner in owners if owner is not None]
            rows = [row for _, row in found]
            if any(other != table for other, _ in found):
                continue
            noun = words_of(table.rpartition("__")[2])
            if not things:
                if len(self._tables[table].rows) == len(rows):
                    every = Clause(f"all {noun}", DESCRIBED, (), ())
                    return _List(table, rows, holders), every
                continue
            column = self._referring(table, things[0].thing, rows)
            if column is None:
                continue
            said = said_of(things[0], walk, move.number, self._describer, level)
            plain = tuple(things) if said.implicit == EXPLICIT else ()
            whose = Clause(
                f"those {noun} records that belong to {said.phrase}",
                said.implicit,
                said.figures,
                plain,
            )
            return _List(table, rows, holders), whose
        raise DeadEnd("no list that is known to be whole")

    def _referring(self, table: str, thing: Any, rows: Sequence[Mapping[str, Any]]) -> str | None:
        """The column by which all rows of a table that name the thing are these."""
        for column in self._tables[table].refers:
            if self._tables.referred(table, column) != thing.kind:
                continue
            alike = self._tables.alike(table, {column: thing.leaf.value})
            if len(alike) == len(rows) and all(row in alike for row in rows):
                return column
        return None


def _lists(result: Any) -> Iterator[list[Mapping[str, Any]]]:
    """The lists of objects in an answer."""
    if isinstance(result, list) and result and all(isinstance(one, Mapping) for one in result):
        yield result
    for inner in result.values() if isinstance(result, Mapping) else ():
        yield from _lists(inner)


def _detailed(subject: Clause, others: Sequence[Given]) -> Clause | None:
    """A subject with what else the call is given, as far as it does not say that itself; ``None``
    where that would be the id of what it describes."""
    rest = [each for each in others if not says(subject.text, each.value)]
    if any(each.kind is not None for each in rest):
        return None
    if not rest:
        return subject
    parts = [
        f"{words_of(each.parameter.path[-1], alone=False)}: {said_value(each.value)}"
        for each in rest
    ]
    figures = (*subject.figures, *(str(each.value) for each in rest))
    return subject._replace(text=f"{subject.text} ({'; '.join(parts)})", figures=figures)


def _judged(value: Scalar) -> tuple[dict[str, Any], str, str]:
    """How an answer is judged, what is said of it, and how it is written."""
    if is_day(value):
        return {"norm": value}, "the date alone, as YYYY-MM-DD", str(value)
    if isinstance(value, str):
        return {"norm": value}, "it alone", value
    if isinstance(value, int):
        return {"numeric": value}, "the number alone", str(value)
    return {"numeric": value, "tolerance": 0.01}, "the number alone", _written(value)


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _adds_up(name: str) -> bool:
    """Whether it is an amount of something, not a year or a position."""
    return not {*tokens_of(name)} & _NO_AMOUNTS

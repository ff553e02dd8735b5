"""Things in words: what tells a row apart from all others, as somebody says it who knows no ids.

What is said of a row is what a tool has answered of it and what stands in the initial database, and
no other row of the table has it; so the words mean one row, and it can be found by the tools.
"""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from environments.names import singular
from environments.synthesis.sampling.graph import Leaf, leaves_of
from environments.synthesis.sampling.tables import Kind, Scalar, Tables, tokens_of

EXPLICIT, DESCRIBED, COMPARED = 0, 1, 2
"""How implicit an instruction is: things by their ids; by a name; by what they have in common with
others, by comparison, or by what they are to another thing."""
LABELS: Final = ("name", "title", "subject", "label", "full_name", "email", "username", "serial")
"""Columns that people know a row by, the best first."""
_LONGEST: Final = 60
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_WHEN: Final = frozenset({"on", "until", "by", "from", "since"})
_INSIDE: Final = frozenset({"to", "from", "for", "by", "at", "with", "and", "is", "has", "per"})
_NO_NOUNS: Final = frozenset({
    "since", "owes", "available", "spent", "paid", "due", "used", "sent", "left", "reserved",
    "free", "committed", "refunded", "required", "enabled", "active", "counted",
})  # fmt: skip
"""Last words of columns that no *the* can stand before."""
PLACES: Final = frozenset({
    "position", "rank", "lat", "lon", "lng", "latitude", "longitude", "number", "no", "version",
    "port", "code", "zip",
})  # fmt: skip
"""In names of numbers that are no amounts."""
_UNITS: Final = frozenset({
    "cents", "minutes", "hours", "seconds", "days", "percent", "kg", "km", "eur", "usd",
    "pct", "cm", "mm", "m", "t", "kb", "mb", "hl",
})  # fmt: skip
_FEW: Final = 3
_KEPT_BY_CLOCK: Final = frozenset({"created", "updated", "modified", "changed"})
_SWITCH: Final = frozenset({0, 1, None})


class Said(NamedTuple):
    """A thing in words."""

    phrase: str
    implicit: int = EXPLICIT
    figures: tuple[str, ...] = ()
    """What has to be said of it, in whatever words."""


class Thing(NamedTuple):
    """What a leaf of an answer names, and where that stood."""

    kind: Kind
    leaf: Leaf
    call: int


def said_value(value: Any) -> str:
    """A value as an instruction has it: texts in quotes, but for single words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(said_value, value))
    text = str(value)
    return f"“{text}”" if re.search(r"[\s,;()]", text) else text


def words_of(name: str, *, alone: bool = True) -> str:
    """A column or a parameter, in words: ``daily_limit_cents`` is *daily limit in cents*, and
    ``due_on``, where it stands ``alone`` in a sentence, the *“due on” date*."""
    tokens = [token for token in tokens_of(name) if token != "id"] or list(tokens_of(name))
    measured = len(tokens) > 1 and tokens[-1] in _UNITS and tokens[-2] not in _INSIDE
    unit = f" in {tokens.pop()}" if measured else ""
    words = " ".join(tokens)
    if not alone or (len(tokens) == 1 and words not in _NO_NOUNS | _INSIDE | _WHEN):
        return f"{words}{unit}"
    if tokens[-1] in _WHEN:
        return f"“{words}” date"
    if tokens[-1] in _NO_NOUNS or {*tokens} & _INSIDE:
        return f"“{words}” value{unit}"
    return f"{words}{unit}"


class Describer:
    """Finds words for things. ``answered`` is what tools were given and have said so far: only what
    can be read with them is said of a row that a walk has not read, and rows are compared only
    where a tool lists them when asked for nothing more."""

    def __init__(
        self, tables: Tables, dice: random.Random, answered: Iterable[tuple[Mapping[str, Any], Any]]
    ) -> None:
        self._tables = tables
        self._dice = dice
        self._changed: Mapping[str, Collection[str]] = {}
        self._added: Mapping[str, Sequence[Mapping[str, Any]]] = {}
        self._readable: set[tuple[str, str]] = set()
        self._listed: set[str] = set()
        for arguments, result in answered:
            for holder in {id(leaf.holder): leaf.holder for leaf in leaves_of(result)}.values():
                if found := self.owner(holder):
                    table, row = found
                    self._readable |= {(table, name) for name in self.shown(table, row, holder)}
                    self._listed |= set() if arguments else {table}

    def after(
        self,
        changed: Mapping[str, Collection[str]],
        added: Mapping[str, Sequence[Mapping[str, Any]]],
    ) -> Describer:
        """One for whom some columns of tables have other values than in the beginning, so that
        nothing is said by them, and there are more rows, which what is said must not fit either."""
        other = copy.copy(self)
        other._changed, other._added = changed, added
        return other

    def noun(self, kind: Kind) -> str:
        return " ".join(self._tables[kind.table].noun) if kind.table else words_of(kind.column)

    def was_there(self, thing: Thing) -> bool:
        """Whether a thing is a row of the beginning."""
        return self._tables.row(thing.kind, thing.leaf.value) is not None

    def described(self, thing: Thing, level: int) -> Said:
        """A thing in words, as implicit as ``level`` where that can be, else less."""
        row = self._tables.row(thing.kind, thing.leaf.value)
        explicit = Said(f"{self.noun(thing.kind)} {thing.leaf.value}", EXPLICIT)
        if row is None or level == EXPLICIT:
            return explicit._replace(figures=(str(thing.leaf.value),))
        owner = self.owner(thing.leaf.holder)
        if owner is None:
            return explicit._replace(figures=(str(thing.leaf.value),))
        table, holder = owner
        if table == thing.kind.table and holder == row:
            holder = {n: v for n, v in thing.leaf.holder.items() if n != thing.kind.column}
            said = self.row(table, row, holder, level)
        else:
            said = self._through(thing, table, holder, level)
        return said or explicit._replace(figures=(str(thing.leaf.value),))

    def owner(self, holder: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
        """The row of the beginning that an object in an answer tells of, and its table."""
        best: tuple[int, str, Mapping[str, Any]] | None = None
        for kind in self._tables.kinds:
            for value in _scalars(holder):
                row = self._tables.row(kind, value)
                if row is None:
                    continue
                shared = [name for name in holder if name in row]
                alike = sum(_same(holder[name], row[name]) for name in shared)
                if alike >= 2 and 2 * alike > len(shared) and (best is None or alike > best[0]):
                    best = (alike, kind.table, row)
        return None if best is None else best[1:]

    def shown(self, table: str, row: Mapping[str, Any], holder: Mapping[str, Any]) -> list[str]:
        """The columns whose value an answer showed and a person would speak of."""
        return [
            name
            for name in self._tables[table].columns
            if name in holder
            and _same(holder[name], row[name])
            and speakable(name, row[name])
            and name not in self._changed.get(table, ())
            and name not in self._tables[table].refers
            and name != self._tables[table].unique[0]
            and not {other[name] for other in self._tables[table].rows} <= _SWITCH
        ]

    def _through(
        self, thing: Thing, table: str, holder: Mapping[str, Any], level: int
    ) -> Said | None:
        """What a thing is to another one that can be told: *the assignee of the ticket “…”*."""
        column = str(thing.leaf.path[-1])
        if level < COMPARED or column not in holder or holder[column] != thing.leaf.value:
            return None
        if column in self._changed.get(table, ()):
            return None
        others = {n: v for n, v in thing.leaf.holder.items() if v != thing.leaf.value}
        said = self.row(table, holder, others, DESCRIBED)
        if said is None:
            return None
        return Said(f"the {words_of(column)} of {said.phrase}", COMPARED, said.figures)

    def row(
        self, table: str, row: Mapping[str, Any], holder: Mapping[str, Any], level: int
    ) -> Said | None:
        """A row in words that no other row fits, or ``None``."""
        noun = " ".join(self._tables[table].noun)
        shown = self.shown(table, row, holder)
        ways = [self._label(table, noun, row, shown)]
        if level == COMPARED:
            ways[:0] = [
                self._extreme(table, noun, row, shown),
                self._several(table, noun, row, shown),
            ]
            if self._dice.random() < 0.5:
                ways[0], ways[1] = ways[1], ways[0]
        return next((said for said in ways if said is not None), None)

    def _alike(self, table: str, values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The rows that have these values, at the start or by now."""
        new = self._added.get(table, ())
        return [
            *self._tables.alike(table, values),
            *(row for row in new if all(row.get(name) == value for name, value in values.items())),
        ]

    def _label(
        self, table: str, noun: str, row: Mapping[str, Any], shown: Sequence[str]
    ) -> Said | None:
        """By one value that no other row has; rather by a name than by anything else."""
        texts = [name for name in shown if isinstance(row[name], str) and not is_day(row[name])]
        for name in sorted(texts, key=_place):
            if len(self._alike(table, {name: row[name]})) == 1:
                value = said_value(row[name])
                own = tuple(token for token in tokens_of(name) if token not in noun.split())
                plain = not own or _place("_".join(own)) < 3
                known_by = "" if plain else f"with {words_of(name)} "
                return Said(f"the {noun} {known_by}{value}", DESCRIBED, (str(row[name]),))
        return None

    def _several(
        self, table: str, noun: str, row: Mapping[str, Any], shown: Sequence[str]
    ) -> Said | None:
        """By two or three values that only this row has together."""
        options = [
            names
            for size in (2, 3)
            for names in itertools.combinations(shown, size)
            if all(len(self._alike(table, {name: row[name]})) > 1 for name in names)
        ]
        self._dice.shuffle(options)
        for names in options[:20]:
            if len(self._alike(table, {name: row[name] for name in names})) == 1:
                parts = [f"{words_of(name)} {said_value(row[name])}" for name in names]
                listed = f"{', '.join(parts[:-1])} and {parts[-1]}"
                figures = tuple(str(row[name]) for name in names)
                return Said(f"the {noun} with {listed}", COMPARED, figures)
        return None

    def _belonging(
        self, table: str, noun: str, row: Mapping[str, Any], shown: Sequence[str]
    ) -> Said | None:
        """By a row that it refers to and what tells it from others that do."""
        columns = list(self._tables[table].refers)
        self._dice.shuffle(columns)
        for column in columns:
            kind = self._tables.referred(table, column)
            other = None if kind is None else self._tables.row(kind, row[column])
            if kind is None or other is None:
                continue
            readable = [name for name in other if (kind.table, name) in self._readable]
            whose = self._label(kind.table, self.noun(kind), other, readable)
            if whose is None:
                continue
            role = words_of(column)
            of = f"of {whose.phrase}" if role in whose.phrase else f"whose {role} is {whose.phrase}"
            for names in ((), *((name,) for name in shown)):
                values = {name: row[name] for name in names}
                if len(self._alike(table, {column: row[column], **values})) == 1:
                    having = "".join(f" with {words_of(n)} {said_value(row[n])}" for n in names)
                    figures = (*map(str, values.values()), *whose.figures)
                    return Said(f"the {noun}{having} {of}", COMPARED, figures)
        return None

    def _extreme(
        self, table: str, noun: str, row: Mapping[str, Any], shown: Sequence[str]
    ) -> Said | None:
        """By having the most or the least of something, of all rows or of those of a kind."""
        ordered = [name for name in shown if is_number(row[name]) or is_day(row[name])]
        ordered = [name for name in ordered if not {*tokens_of(name)} & PLACES]
        if table not in self._listed:
            return None
        kinds: list[str] = [name for name in shown if name not in ordered]
        options = [(name, among) for name in ordered for among in (*kinds, "")]
        self._dice.shuffle(options)
        for name, among in options[:20]:
            rows = self._alike(table, {among: row[among]} if among else {})
            values = [other[name] for other in rows if other.get(name) is not None]
            if len(values) < _FEW or values.count(row[name]) > 1:
                continue
            words = extremes_of(name, row[name])
            for word, best in zip(words, (max, min), strict=True):
                if (
                    all(type(value) is type(row[name]) for value in values)
                    and best(values) == row[name]
                ):
                    of = (
                        f" of those with {words_of(among)} {said_value(row[among])}"
                        if among
                        else ""
                    )
                    phrase = f"the {noun} with the {word} {words_of(name)}{of}"
                    return Said(phrase, COMPARED, (str(row[among]),) if among else ())
        return None


def extremes_of(name: str, value: Scalar) -> tuple[str, str]:
    """The words for having the most and the least of something."""
    if is_day(value):
        return ("latest", "earliest")
    return ("most", "fewest") if is_plural(name) else ("highest", "lowest")


def is_plural(name: str) -> bool:
    """Whether a column counts things, or names several."""
    tokens = tokens_of(name)
    word = tokens[0 if "a" in tokens else -1]
    if word in _NO_NOUNS or (word in _UNITS and len(tokens) > 1):
        return False
    return singular(word) != word and not word.endswith("as")


def _scalars(holder: Mapping[str, Any]) -> Iterator[Scalar]:
    for value in holder.values():
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield value


def _same(told: Any, stored: Any) -> bool:
    if isinstance(told, list | dict):
        return False
    return bool(told == stored)


def speakable(name: str, value: Any) -> bool:
    """Whether a person would speak of a value: no id, no time to the second, no long text."""
    tokens = tokens_of(name)
    if value is None or isinstance(value, bool | bytes) or {*tokens} & _KEPT_BY_CLOCK:
        return False
    if tokens[-1:] == ("id",):
        return False
    if isinstance(value, str):
        plain = value.strip() and "\n" not in value and len(value) <= _LONGEST
        return bool(plain) and not _INSTANT.match(value) and value[0] not in "[{"
    return True


def _place(name: str) -> int:
    return LABELS.index(name) if name in LABELS else len(LABELS)


def is_number(value: Any) -> bool:
    """Whether it is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_day(value: Any) -> bool:
    """Whether it is a date, as databases write them."""
    return isinstance(value, str) and _DAY.fullmatch(value) is not None

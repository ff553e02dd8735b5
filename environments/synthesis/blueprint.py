"""What a domain is made of: entities, rules, actions, and features that may be left out.

A blueprint is data. ``compose`` takes one and a seed and gives a design; ``render`` writes that as
a pack. See ``blueprints/__init__.py`` on how to write one.

Conditions and values are one expression language, a small part of Python's, read by
``expressions``: it becomes Python in the tools and SQL where the generator looks for rows to which
an action can be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Sort = Literal[
    "person", "made", "text", "choice", "integer", "money", "day", "moment", "flag", "ref",
    "email", "phone", "code",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """What a column or an argument holds, and what its values look like."""

    sort: Sort
    values: tuple[str, ...] = ()
    """Of a choice the choices, the first being where a new row starts; of a text the sentences; of
    a made name its patterns."""
    low: float = 0
    high: float = 0
    entity: str = ""
    share: float = 0.0
    """Of an optional value how often it is missing; of a flag how often it is set."""
    step: float = 1

    @property
    def optional(self) -> bool:
        return self.sort != "flag" and self.share > 0


def person() -> Kind:
    """The full name of a person."""
    return Kind("person")


def made(*patterns: str) -> Kind:
    """A proper name out of patterns: ``{city} {surname} {street} {company} {word}`` and the lists
    of words in ``words`` of the blueprint, e.g. ``{colour} {animal}``."""
    return Kind("made", patterns)


def text(*sentences: str, missing: float = 0.0) -> Kind:
    """Free text, one of the sentences. An agent may word it otherwise unless it is quoted."""
    return Kind("text", sentences, share=missing)


def choice(*values: str) -> Kind:
    """One of a few words. Of a state, the first is where a new row starts."""
    return Kind("choice", values)


def integer(low: int, high: int, step: int = 1, missing: float = 0.0) -> Kind:
    return Kind("integer", low=low, high=high, step=step, share=missing)


def money(low: float, high: float, step: float = 0.5) -> Kind:
    return Kind("money", low=low, high=high, step=step)


def day(low: int, high: int, missing: float = 0.0) -> Kind:
    """A date, between so many days from the clock's start (negative: before it)."""
    return Kind("day", low=low, high=high, share=missing)


def moment(low: int, high: int, missing: float = 0.0) -> Kind:
    """A point in time; what a tool writes there nobody judges."""
    return Kind("moment", low=low, high=high, share=missing)


def flag(share: float) -> Kind:
    """0 or 1, set for such a share of the rows."""
    return Kind("flag", share=share)


def ref(entity: str, missing: float = 0.0) -> Kind:
    """A row of another entity; the column is called by the attribute's name and ``_id``."""
    return Kind("ref", entity=entity, share=missing)


def email() -> Kind:
    """An address made from the row's label."""
    return Kind("email")


def phone() -> Kind:
    return Kind("phone")


def code(pattern: str) -> Kind:
    """``#`` stands for a digit, ``?`` for a letter: ``PX-####``."""
    return Kind("code", (pattern,))


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column.

    The words say how a person speaks of rows by it: ``before`` puts the value before the noun
    (*an open loan*), ``after`` is a phrase behind it (*of {}*, *in {}*), ``least`` and ``most`` are
    superlatives (*the cheapest room*).
    """

    name: str
    kind: Kind
    before: bool = False
    after: str = ""
    least: str = ""
    most: str = ""
    chance: float = 1.0
    """How often an environment has it at all; only for what no rule speaks of."""
    editable: bool = False
    """Whether the update tool of the entity takes it."""
    given: bool = True
    """Whether the create tool takes it; otherwise a new row starts with ``start``."""
    start: str | int | float | None = None
    unit: str = ""
    """What a number counts: ``kg``, ``seats``. Only integers with one are summed up."""
    doc: str = ""
    """What people call it, where that is not its name: ``amount asked for``."""

    @property
    def words(self) -> str:
        return self.doc or self.name.replace("_", " ")

    @property
    def column(self) -> str:
        return f"{self.name}_id" if self.kind.sort == "ref" else self.name


@dataclass(frozen=True, slots=True)
class Entity:
    """One table. ``name`` is its noun in the singular, ``_`` for a space."""

    name: str
    attributes: tuple[Attribute, ...]
    rows: tuple[int, int] = (20, 40)
    plural: str = ""
    label: str = ""
    """The attribute by which people call a row; unique. Without one, rows are described."""
    noun: str = ""
    said: str = "{}"
    """How a label is said: ``{}``, ``the {} branch``, ``"{}"``."""
    prefix: str = ""
    key: tuple[str, ...] = ()
    """Names of refs that together are the key, for a link; otherwise there is an ``id``."""
    creatable: bool = False
    removable: bool = False
    """Whether rows nothing refers to may be deleted by a tool."""
    log: bool = False
    """Rows are only ever added, by actions; they have a number for a key."""
    doc: str = ""

    @property
    def table(self) -> str:
        return self.plural or plural_of(self.name)

    @property
    def words(self) -> str:
        return (self.noun or self.name).replace("_", " ")

    def attribute(self, name: str) -> Attribute:
        return next(each for each in self.attributes if name in (each.name, each.column))


# --- what an action does, step by step ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Need:
    """A rule: where ``condition`` does not hold the action is refused with ``code``."""

    condition: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Let:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Find:
    """The row of ``entity`` with these values, by the name ``row``; none is refused."""

    row: str
    entity: str
    where: Mapping[str, str]
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Put:
    """New values for a row at hand."""

    row: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PutAll:
    """New values for all rows of ``entity`` with such values."""

    entity: str
    where: Mapping[str, str]
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Add:
    """A new row, by the name ``row`` from here on. What is left out starts as the kind says."""

    entity: str
    values: Mapping[str, str]
    row: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete a row at hand."""

    row: str


@dataclass(frozen=True, slots=True)
class DropAll:
    entity: str
    where: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class When:
    """Steps taken only where a condition holds."""

    condition: str
    steps: tuple[Step, ...]


Step = Need | Let | Find | Put | PutAll | Add | Drop | DropAll | When


def need(condition: str, code: str, message: str) -> Need:
    """``message`` may speak of rows and arguments: ``{room.name} seats {room.seats}``."""
    return Need(condition, code, message)


def let(name: str, value: str) -> Let:
    return Let(name, value)


def find(row: str, entity: str, code: str, message: str, **where: str) -> Find:
    return Find(row, entity, where, code, message)


def put(row: str, **values: str) -> Put:
    return Put(row, values)


def put_all(entity: str, where: Mapping[str, str], **values: str) -> PutAll:
    return PutAll(entity, where, values)


def add(entity: str, **values: str) -> Add:
    return Add(entity, values, entity)


def drop(row: str) -> Drop:
    return Drop(row)


def drop_all(entity: str, **where: str) -> DropAll:
    return DropAll(entity, where)


def when(condition: str, *steps: Step) -> When:
    return When(condition, steps)


@dataclass(frozen=True, slots=True)
class Take:
    """What an action takes: a row named by its id, a row such a one refers to, or a value."""

    name: str
    entity: str = ""
    via: str = ""
    """``copy.title_id``: the row is that which this column names; the agent does not give it."""
    kind: Kind | None = None
    doc: str = ""


def the(entity: str, name: str = "") -> Take:
    """A row the agent names by its id."""
    return Take(name or entity, entity)


def via(entity: str, column: str, name: str = "") -> Take:
    return Take(name or entity, entity, via=column)


def arg(name: str, kind: Kind, doc: str = "") -> Take:
    """A value the agent gives. The first sentence of a text is its example."""
    return Take(name, kind=kind, doc=doc)


@dataclass(frozen=True, slots=True)
class Action:
    """A tool that does business: checks rules, then changes rows.

    ``asks`` are ways to ask for it, imperative clauses without a full stop that name what it takes:
    ``lend {copy} to {member} for {days} days``.
    """

    name: str
    doc: str
    takes: tuple[Take, ...]
    does: tuple[Step, ...]
    asks: tuple[str, ...]
    policy: str = ""
    chance: float = 1.0
    """How often an environment has it; only for actions nothing else depends on."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What an environment of the domain may have besides. Features combine freely."""

    name: str
    entities: tuple[Entity, ...] = ()
    attributes: Mapping[str, tuple[Attribute, ...]] = field(default_factory=dict)
    """Further columns by entity."""
    actions: tuple[Action, ...] = ()
    extends: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    """Further steps by action: rules and lets before its first change, changes at its end."""
    constants: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)
    settle: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Features without which this one makes no sense; taken along."""
    excludes: tuple[str, ...] = ()
    """Features it stands in for: another way to keep the same thing."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A domain."""

    domain: str
    titles: tuple[str, ...]
    """Patterns as in ``made``."""
    summary: str
    role: str
    """Who the agent is: ``You work at the front desk of {title}.``"""
    entities: tuple[Entity, ...]
    actions: tuple[Action, ...]
    features: tuple[Feature, ...]
    constants: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)
    """Limits by name; an environment has one of the values."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settle: tuple[str, ...] = ()
    """SQL that makes random rows agree with one another and with the rules."""
    invariants: tuple[str, ...] = ()
    """Queries for rows that must never be: each gives none, at the start and after any run."""
    policy: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    currency: str = "EUR"


def plural_of(name: str) -> str:
    """The plural of an English noun, ``_`` for spaces: ``entry`` gives ``entries``."""
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    if name.endswith(("s", "x", "ch", "sh", "z")):
        return f"{name}es"
    return f"{name}s"

"""The words of the language: what each one takes, declared once for the parser and the schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from environments.assertions.values import is_number, show
from environments.errors import PackInvalid
from environments.spec import ToolSpec


class TableInfo(msgspec.Struct, frozen=True):
    """The columns of a table, and those of its primary key."""

    columns: tuple[str, ...]
    key: tuple[str, ...]


class _Pending:
    """Stands for the value of a query until there is an initial state to ask."""

    def __repr__(self) -> str:
        return "(by sql)"


PENDING: Final = _Pending()


@dataclass(frozen=True, slots=True)
class Scope:
    """What a verifier may speak of. ``tools`` is ``None`` where they are not known, and then not
    checked. ``value_of`` gives the value of a query (sql, place), or ``PENDING``."""

    tables: Mapping[str, TableInfo]
    tools: Mapping[str, ToolSpec] | None
    value_of: Callable[[str, str], Any]

    def resolved(self, value: Any, place: str) -> Any:
        """The value, or that of the query it is, itself or inside a list."""
        if isinstance(value, list):
            return [self.resolved(item, place) for item in value]
        if not (isinstance(value, Mapping) and "sql" in value):
            return value
        if len(value) > 1 or not isinstance(value["sql"], str):
            raise PackInvalid(
                f"{place}: sql stands alone, as a value",
                hint='e.g. {"ge": {"sql": "SELECT max(total) FROM orders"}}',
            )
        return self.value_of(value["sql"], place)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its JSON Schema, and what refuses any other (``PackInvalid``) and makes it
    ready for use. ``sql`` says whether a query on the initial state may stand for it."""

    schema: Mapping[str, Any]
    prepare: Callable[[Any, str], Any] = lambda value, place: value
    sql: bool = False

    def read(self, value: Any, place: str, scope: Scope) -> Any:
        if self.sql:
            value = scope.resolved(value, place)
            if value is PENDING or (isinstance(value, list) and PENDING in value):
                return value
        return self.prepare(value, place)


@dataclass(frozen=True, slots=True)
class Word:
    kind: Kind
    meaning: str
    required: bool = False


def read(
    source: Any, place: str, words: Mapping[str, Word], scope: Scope, what: str = "key"
) -> dict[str, Any]:
    """The values of an object by word, each made ready. Raises ``PackInvalid`` naming the word
    that is unknown or takes no such value."""
    if not isinstance(source, Mapping):
        raise PackInvalid(f"{place}: must be an object, not {show(source)}")
    for word in source:
        if word not in words:
            raise unknown(word, place, list(words), what)
    for word, declared in words.items():
        if declared.required and word not in source:
            raise PackInvalid(f"{place}: has no {word}")
    return {
        word: words[word].kind.read(value, f"{place}.{word}", scope)
        for word, value in source.items()
    }


def unknown(word: Any, place: str, known: Collection[str], what: str) -> PackInvalid:
    """A typo in a pack: names place, word and the nearest words there are."""
    near = get_close_matches(str(word), list(known), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
    return PackInvalid(f"{place}: unknown {what} {word!r}", hint=hint)


# --- kinds ------------------------------------------------------------------------------------


def of_type(
    schema: Mapping[str, Any], fits: Callable[[Any], bool], must: str, *, sql: bool = False
) -> Kind:
    """The kind of the values that fit."""

    def prepare(value: Any, place: str) -> Any:
        if not fits(value):
            raise PackInvalid(f"{place}: {must}, not {show(value)}")
        return value

    return Kind(schema, prepare, sql)


def one_of(words: Sequence[str], what: str) -> Kind:
    """The kind of a closed list of words."""

    def prepare(value: Any, place: str) -> Any:
        if value not in words:
            raise unknown(value, place, words, what)
        return value

    return Kind({"enum": list(words)}, prepare)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_real(value: Any) -> bool:
    """A number that is no truth value."""
    return is_number(value) and not isinstance(value, bool)


_TEXT_SCHEMA = {"type": "string", "pattern": r"\S"}
TEXT = of_type(_TEXT_SCHEMA, is_text, "must be text", sql=True)
NAME = of_type(_TEXT_SCHEMA, is_text, "must be a name")
ANYTHING = Kind({}, sql=True)
SCALAR = of_type(
    {"type": ["number", "string", "boolean"]},
    lambda value: value is not None and not isinstance(value, (list, dict)),
    "must be a number or text",
    sql=True,
)
NUMBER = of_type({"type": "number"}, is_real, "must be a number", sql=True)
NUMBER_NOT_NEGATIVE = of_type(
    {"type": "number", "minimum": 0},
    lambda value: is_real(value) and value >= 0,
    "must be a number, not negative",
)
WEIGHT = of_type(
    {"type": "number", "exclusiveMinimum": 0},
    lambda value: is_real(value) and value > 0,
    "must be a number above 0",
)
LIST = of_type({"type": "array"}, lambda value: isinstance(value, list), "must be a list", sql=True)
BOOL = of_type({"type": "boolean"}, lambda value: isinstance(value, bool), "must be true or false")
TRUE = of_type({"const": True}, lambda value: value is True, "can only be true")
OBJECT = of_type({"type": "object"}, lambda value: isinstance(value, Mapping), "must be an object")
COLUMNS = of_type(
    {"type": "array", "items": {"type": "string"}},
    lambda value: isinstance(value, list),
    "must be a list of columns",
)
MATCHER = Kind({"$ref": "#/$defs/matcher"})
CELLS = of_type(
    {"type": "object", "additionalProperties": {"$ref": "#/$defs/matcher"}},
    lambda value: isinstance(value, Mapping),
    "must be an object of columns",
)
PATHS = of_type(
    {"type": "object", "additionalProperties": {"$ref": "#/$defs/matcher"}},
    lambda value: isinstance(value, Mapping),
    "must be an object of paths",
)

"""Which kind of thing a name speaks of: by its words, and by the values seen under it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from environments.names import singular
from environments.synthesis.sampling.tables import Kind, Scalar, Tables, tokens_of

_NAMING: Final = ("id", "no", "number", "code", "key", "ref", "reference", "sku")
"""Last words of a name that names a thing."""
_COUNTING: Final = frozenset({"max", "min", "total", "count", "num", "amount", "quantity", "avg"})
"""Words of names that say how many, not which: ``max_total_sales`` is no sale."""
_ATTRIBUTES: Final = frozenset(
    (word,) for word in ("email", "message", "address", "phone", "text", "note", "price", "date")
)
"""Nouns by which one more often means a text than a row."""
JSON_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
}
"""Of values that can name anything."""


class Naming:
    """Which kind of thing a parameter or a field names."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._by_name: dict[tuple[str, ...], list[Kind]] = defaultdict(list)
        for kind in tables.kinds:
            if kind.column in tables[kind.table].refers:
                continue  # it names the other row
            noun, column = tables[kind.table].noun, tokens_of(kind.column)
            names = {(*noun, *column), (*noun[-1:], *column)}
            if tables[kind.table].unique[0] == kind.column:
                names |= {(*noun, "id"), (*noun[-1:], "id")}
                names |= {name for name in (noun, noun[-1:]) if name not in _ATTRIBUTES}
            if len(column) > 1 or column[-1:] not in (("id",), ("name",), ("title",), ("number",)):
                names.add(column)
            for name in names:
                self._by_name[name].append(kind)
        for table in tables:
            for word in _NAMING if table.unique else ():
                for head in (table.noun, table.noun[-1:]):
                    self._by_name[*head, word].append(Kind(table.name, table.unique[0]))
            for name_of_row in table.refers:
                referred = tables.referred(table.name, name_of_row)
                if referred is not None:
                    self._by_name[tokens_of(name_of_row)].append(referred)

    def of_parameter(
        self, tool: str, name: str, schema: Mapping[str, Any], used: Sequence[Any]
    ) -> Kind | None:
        """What a tool takes by a name; ``used`` are values that were taken."""
        if not can_name(schema):
            return None
        wanted = JSON_TYPES[str(schema["type"])]
        return self._of(tool, tokens_of(name), [one for one in used if isinstance(one, wanted)])

    def of_field(self, tool: str, place: tuple[str, ...], values: Sequence[Scalar]) -> Kind | None:
        """What a field of a tool's answers names."""
        names = [part for part in place if part != "*"]
        tokens = tokens_of(names[-1])
        holder = tokens_of(names[-2]) if len(names) > 1 else ()
        holder = (*holder[:-1], singular(holder[-1])) if holder else ()
        return self._of(tool, tokens, values, holder)

    def _of(
        self,
        tool: str,
        tokens: tuple[str, ...],
        values: Sequence[Any],
        holder: tuple[str, ...] = (),
    ) -> Kind | None:
        """The kind that a name and the values seen under it speak for."""
        if not tokens or _COUNTING & {*tokens}:
            return None
        tokens = (*tokens[:-1], singular(tokens[-1]))
        near = self._near(tool, tokens, holder)
        about = [singular(token) for token in tokens_of(tool.rpartition("__")[2])]
        loose = [k for token in about[::-1] for k in self._by_name.get((token, tokens[-1]), ())]
        fitting = [kind for kind in (*near, *loose) if self._hold(kind, values)]
        if fitting:
            return fitting[0]
        if values and all(map(_is_name, values)):
            by_value = [kind for kind in self._tables.kinds if self._hold(kind, values)]
            if len(by_value) == 1 and len({*values}) > 1:
                return by_value[0]
        if near and not values:
            return near[0]
        if tokens[-1] in _NAMING and (len(tokens) > 1 or holder):
            new = near[0] if near and _of_type(values, near[0], self._tables) else None
            return new or Kind("", "_".join(tokens if len(tokens) > 1 else (*holder, *tokens)))
        return None

    def _near(self, tool: str, tokens: tuple[str, ...], holder: tuple[str, ...]) -> list[Kind]:
        """The kinds a name may stand for, the nearest first; those of the tool's own member of a
        world before others."""
        names = [tokens, *(tokens[start:] for start in range(1, len(tokens)))]
        if len(tokens) == 1:
            about = [singular(token) for token in tokens_of(tool.rpartition("__")[2])]
            names = [(*holder, *tokens)] if holder else []
            names += [(token, *tokens) for token in about[::-1]] + [tokens]
        found = [kind for name in names for kind in self._by_name.get(name, ())]
        member = tool.rpartition("__")[0]
        found.sort(key=lambda kind: kind.table.rpartition("__")[0] != member)
        return list(dict.fromkeys(found))

    def _hold(self, kind: Kind, values: Sequence[Any]) -> bool:
        """Whether the values name rows: most of them, for some may be of rows made since."""
        there = [self._tables.row(kind, value) is not None for value in values]
        return bool(there) and 2 * sum(there) > len(there)


def can_name(schema: Mapping[str, Any]) -> bool:
    """Whether what fits a schema can name anything: it is no choice of a few."""
    return not schema.get("enum") and schema.get("type") in JSON_TYPES


def _is_name(value: Any) -> bool:
    """Whether it looks made up to name a thing, not like a word of a language."""
    return isinstance(value, str) and any(letter.isdigit() or letter == "@" for letter in value)


def _of_type(values: Sequence[Any], kind: Kind, tables: Tables) -> bool:
    known = {type(row[kind.column]) for row in tables[kind.table].rows}
    return {type(value) for value in values} <= known

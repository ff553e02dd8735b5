"""How different environments are once their names are forgotten."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from environments.synthesis.blueprint import Entity, Kind
from environments.synthesis.offline.compose import Design, Tool

ALIKE: Final = 0.9
"""From this Jaccard similarity of tables and tools on, an environment is a duplicate."""
_WORDS: Final = 3


def schema_parts(design: Design) -> tuple[str, ...]:
    """Each table with its names erased: types, nulls, checks, keys, and what it refers to."""
    plain = {name: _own(entity) for name, entity in design.entities.items()}
    parts = []
    for entity in design.entities.values():
        refers = sorted(
            plain[each.kind.entity] for each in entity.attributes if each.kind.sort == "ref"
        )
        parts.append(_digest("table", plain[entity.name], *refers))
    return _numbered(parts)


def tool_parts(design: Design) -> tuple[str, ...]:
    """Each tool with its names erased: what it takes, what it does to which kind of table."""
    plain = {name: _own(entity) for name, entity in design.entities.items()}
    return _numbered([_digest("tool", *_tool(tool, design, plain)) for tool in design.tools])


def fingerprint(schema: Iterable[str]) -> str:
    """One value for a whole schema, names erased."""
    return _digest(*sorted(schema))


def similarity(one: Collection[str], other: Collection[str]) -> float:
    """Jaccard: what both have over what either has."""
    first, second = frozenset(one), frozenset(other)
    return len(first & second) / len(first | second) if first | second else 1.0


def diversity(
    environments: Sequence[tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]],
) -> dict[str, Any]:
    """Of environments as (schema, signatures, shapes of oracles, instructions): how many differ.

    A duplicate is one that is ``ALIKE`` to any before it.
    """
    sets = [frozenset((*schema, *signatures)) for schema, signatures, _, _ in environments]
    duplicates = _duplicates(sets)
    same = sum(len(shapes) - len(set(shapes)) for _, _, shapes, _ in environments)
    tasks = sum(len(shapes) for _, _, shapes, _ in environments)
    texts = [text for _, _, _, instructions in environments for text in instructions]
    return {
        "environments": len(sets),
        "schemas": len({fingerprint(schema) for schema, _, _, _ in environments}),
        "duplicates": len(duplicates),
        "tasks": tasks,
        "tasks_with_a_shape_seen_in_their_environment": same,
        "instructions": len(texts),
        "different_instructions": len(set(texts)),
        "openings": len(_openings(texts)),
    }


def _duplicates(sets: Sequence[frozenset[str]]) -> list[int]:
    """The positions of those that are alike to an earlier one.

    Only pairs that share a part rare enough to tell are compared: two that are alike share nine
    tenths of their parts, so one of the rarest tenth of each and one more.
    """
    frequency = Counter(itertools.chain.from_iterable(sets))
    seen: dict[str, list[int]] = {}
    found = []
    for position, parts in enumerate(sets):
        rare = sorted(parts, key=lambda part: (frequency[part], part))
        telling = rare[: len(rare) // 10 + 1]
        near = {other for part in telling for other in seen.get(part, ())}
        if any(similarity(sets[other], parts) >= ALIKE for other in sorted(near)):
            found.append(position)
        for part in telling:
            seen.setdefault(part, []).append(position)
    return found


def _openings(texts: Iterable[str]) -> Counter[str]:
    """First words of instructions."""
    return Counter(" ".join(text.split()[:_WORDS]) for text in texts)


def _own(entity: Entity) -> str:
    columns = sorted(_column(each.kind) for each in entity.attributes)
    key = "log" if entity.log else f"key{len(entity.key)}"
    return _digest(key, "label" if entity.label else "", *columns)


def _column(kind: Kind) -> str:
    stored = {"integer": "integer", "flag": "flag", "money": "real", "ref": "ref"}.get(
        kind.sort, "text"
    )
    choices = str(len(kind.values)) if kind.sort == "choice" else ""
    return f"{stored}{'?' if kind.optional else ''}{choices}"


def _tool(tool: Tool, design: Design, plain: Mapping[str, str]) -> list[str]:
    parts = [tool.job, plain.get(tool.entity, "")]
    if tool.action is not None:
        parts += sorted(
            plain[take.entity] if take.kind is None else _column(take.kind)
            for take in tool.action.takes
            if not take.via
        )
        parts += [type(step).__name__ for step in tool.action.does]
    elif tool.entity:
        entity = design.entities[tool.entity]
        chosen = tool.filters or tool.fields
        parts += sorted(_column(entity.attribute(column).kind) for column in chosen)
        parts += [str(tool.searched), str(len(tool.sorts)), str(len(tool.children))]
    return parts


def _numbered(parts: Sequence[str]) -> tuple[str, ...]:
    """The second of equal parts is another one than the first."""
    counts: Counter[str] = Counter()
    numbered = []
    for part in sorted(parts):
        counts[part] += 1
        numbered.append(part if counts[part] == 1 else f"{part}*{counts[part]}")
    return tuple(numbered)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:12]

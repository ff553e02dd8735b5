"""How a person speaks of a row, and the calls that find out which one is meant."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from environments.synthesis.blueprint import Attribute, Entity, Kind
from environments.synthesis.offline.compose import Design
from environments.synthesis.offline.phrase import worded
from environments.synthesis.walk import DeadEnd, Walk
from environments.trajectory import Step

_PAGES = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A row as it is called in an instruction, and where its id stands in the calls so far."""

    phrase: str
    reference: str
    """``${N.path}`` of its id."""
    implicit: int
    """0 by its name, 1 by what is said of it, 2 by comparison with others."""


@dataclass
class Scene:
    """The rows as they are now and as they were, beside a walk under way."""

    design: Design
    before: sqlite3.Connection
    now: sqlite3.Connection
    walk: Walk
    dice: random.Random
    known: dict[tuple[str, str], Found] = field(default_factory=dict)

    def row(self, entity: str, key: str) -> dict[str, Any]:
        table = self.design.entities[entity].table
        cursor = self.now.execute(f"SELECT * FROM {table} WHERE id = ?", (key,))
        record = cursor.fetchone()
        if record is None:
            raise DeadEnd(f"{entity} {key} is gone")
        return dict(zip((column[0] for column in cursor.description), record, strict=True))

    def is_new(self, entity: str, key: str) -> bool:
        """Whether the row was made in this walk."""
        table = self.design.entities[entity].table
        return not self.before.execute(f"SELECT 1 FROM {table} WHERE id = ?", (key,)).fetchone()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], expect_error: str | None = None
    ) -> Step:
        """Call a tool, and keep ``now`` what it is in the guest."""
        step = await self.walk.call(tool, arguments, expect_error)
        for change in step.changes:
            apply_changes(self.now, change.changes)
        return step


def apply_changes(connection: sqlite3.Connection, changes: Mapping[str, Any]) -> None:
    """Repeat row changes of a step (``Changeset.to_json()``) on a copy of the rows."""
    for table, kinds in changes.items():
        for row in kinds.get("removed", ()):
            where = " AND ".join(f'"{name}" IS ?' for name in row)
            connection.execute(f"DELETE FROM {table} WHERE {where}", tuple(row.values()))
        for change in kinds.get("changed", ()):
            sets = ", ".join(f'"{name}" = ?' for name in change["after"])
            where = " AND ".join(f'"{name}" IS ?' for name in change["key"])
            values = (*change["after"].values(), *change["key"].values())
            connection.execute(f"UPDATE {table} SET {sets} WHERE {where}", values)
        for row in kinds.get("added", ()):
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())
            )


def said(value: Any, kind: Kind, currency: str = "EUR") -> str:
    """A value as it stands in a sentence."""
    match kind.sort:
        case "day":
            day = date.fromisoformat(str(value))
            return f"{day.day} {day:%B %Y}"
        case "money":
            amount = f"{value:,.2f}".removesuffix(".00")
            return f"{amount} {currency}"
        case "choice":
            return str(value).replace("_", " ")
    return str(value)


async def describe(scene: Scene, entity_name: str, key: str, level: int) -> Found:
    """Call a row something that means just it, and find its id as an agent would.

    ``level`` is how implicit the words may be. Raises ``DeadEnd`` where nothing means just it.
    """
    known = scene.known.get((entity_name, key))
    if known is not None:
        return known
    entity = scene.design.entities[entity_name]
    row = scene.row(entity_name, key)
    found: Found | None = None
    if entity.label and (level < 2 or scene.dice.random() < 0.4):
        found = await _by_label(scene, entity, row)
    else:
        found = await _by_words(scene, entity, row, level)
        if found is None and entity.label:
            found = await _by_label(scene, entity, row)
    if found is None:
        raise DeadEnd(f"no words mean just {entity_name} {key}")
    scene.known[entity_name, key] = found
    return found


async def _by_label(scene: Scene, entity: Entity, row: Mapping[str, Any]) -> Found:
    label = str(row[entity.label])
    reference = await _listed(scene, entity, {"text": label}, row["id"])
    return Found(entity.said.format(label), reference, 0)


async def _by_words(
    scene: Scene, entity: Entity, row: Mapping[str, Any], level: int
) -> Found | None:
    """By what is said of it; with ``level`` 2 rather by comparison with others."""
    usable = [each for each in told_apart_by(scene, entity) if row[each.column] is not None]
    scene.dice.shuffle(usable)
    sets = [
        chosen for size in (1, 2, 3) for chosen in itertools.combinations(usable, size)
        if sum(1 for each in chosen if each.before) <= 1
    ]  # fmt: skip
    plain = [chosen for chosen in sets if _matches(scene, entity, chosen, row) == (1, 1)]
    compared = _comparisons(scene, entity, [(), *sets], row) if level >= 1 or not plain else []
    if compared and (level >= 2 or not plain):
        return await _compared(scene, entity, row, scene.dice.choice(compared[:4]))
    if plain:
        smallest = [chosen for chosen in plain if len(chosen) == len(plain[0])]
        return await _filtered(scene, entity, row, scene.dice.choice(smallest))
    return None


def told_apart_by(scene: Scene, entity: Entity) -> list[Attribute]:
    """The columns a person tells rows apart by, that the finding tool takes."""
    tool = scene.design.tool("find", entity.name)
    filters = tool.filters if tool else ()
    return [
        each for each in entity.attributes if (each.before or each.after) and each.column in filters
    ]


def _matches(
    scene: Scene, entity: Entity, chosen: Sequence[Attribute], row: Mapping[str, Any]
) -> tuple[int, int]:
    """How many rows have the same values there, at the start and now."""
    where = " AND ".join(f"{each.column} = ?" for each in chosen) or "1"
    values = tuple(row[each.column] for each in chosen)
    sql = f"SELECT count(*) FROM {entity.table} WHERE {where}"
    before, now = (
        connection.execute(sql, values).fetchone()[0] for connection in (scene.before, scene.now)
    )
    return before, now


Comparison = tuple[tuple[Attribute, ...], Attribute, str]
"""Filters, the column compared by, and its superlative."""


def _comparisons(
    scene: Scene, entity: Entity, sets: Sequence[tuple[Attribute, ...]], row: Mapping[str, Any]
) -> list[Comparison]:
    found: list[Comparison] = []
    for chosen in sets:
        if len(chosen) > 2 or _matches(scene, entity, chosen, row)[0] < 2:
            continue
        for each in entity.attributes:
            for word, order in ((each.least, "ASC"), (each.most, "DESC")):
                if word and _is_first(scene, entity, chosen, row, f"{each.column} {order}"):
                    found.append((chosen, each, word))
    return found


def _is_first(
    scene: Scene, entity: Entity, chosen: Sequence[Attribute], row: Mapping[str, Any], order: str
) -> bool:
    """Whether the row alone comes first in this order, at the start and now."""
    column = order.split()[0]
    where = " AND ".join([*(f"{each.column} = ?" for each in chosen), f"{column} IS NOT NULL"])
    values = tuple(row[each.column] for each in chosen)
    sql = f"SELECT id, {column} FROM {entity.table} WHERE {where} ORDER BY {order} LIMIT 2"
    for connection in (scene.before, scene.now):
        first = connection.execute(sql, values).fetchall()
        if not first or first[0][0] != row["id"]:
            return False
        if len(first) == 2 and first[0][1] == first[1][1]:
            return False
    return True


async def _filtered(
    scene: Scene, entity: Entity, row: Mapping[str, Any], chosen: Sequence[Attribute]
) -> Found:
    arguments, phrase = await narrowed(scene, entity, row, chosen)
    reference = await _listed(scene, entity, arguments, row["id"])
    return Found(f"the {phrase}", reference, 1)


async def _compared(scene: Scene, entity: Entity, row: Mapping[str, Any], how: Comparison) -> Found:
    chosen, column, word = how
    arguments, phrase = await narrowed(scene, entity, row, chosen)
    tool = scene.design.tool("find", entity.name)
    if tool is not None and column.column in tool.sorts:
        arguments["sort"] = column.column if word == column.least else f"{column.column}_desc"
    reference = await _listed(scene, entity, arguments, row["id"])
    return Found(f"the {word} {phrase}", reference, 2)


async def narrowed(
    scene: Scene,
    entity: Entity,
    row: Mapping[str, Any],
    chosen: Sequence[Attribute],
    many: bool = False,
) -> tuple[dict[str, Any], str]:
    """Arguments of the finding tool for the row's values of these columns, and the noun phrase
    they come to."""
    arguments: dict[str, Any] = {}
    front, behind = "", ""
    for each in sorted(chosen, key=lambda each: each.kind.sort != "ref"):
        value = row[each.column]
        if each.kind.sort == "ref":
            other = await describe(scene, each.kind.entity, value, 0)
            arguments[each.column] = other.reference
            spoken = other.phrase
        else:
            arguments[each.column] = bool(value) if each.kind.sort == "flag" else value
            spoken = said(value, each.kind, scene.design.blueprint.currency)
        if each.before:
            front += f"{spoken} "
        else:
            after = each.after.replace("that is ", "that are ") if many else each.after
            behind += " " + worded(after, {"": spoken})
    words = entity.table.replace("_", " ") if many else entity.words
    return arguments, f"{front}{words}{behind}"


async def _listed(scene: Scene, entity: Entity, arguments: dict[str, Any], key: str) -> str:
    """A reference to the row's id in the answer of its finding tool, further pages if need be."""
    tool = scene.design.tool("find", entity.name)
    assert tool is not None
    paged = scene.design.listing == "paged"
    for page in range(1, _PAGES + 1 if paged else 2):
        more = {"page": page} if page > 1 else {}
        step = await scene.call(tool.name, {**arguments, **more})
        place = scene.walk.place_of(len(scene.walk.steps) - 1, "id", key)
        if place is not None:
            return place + ".id}"
        if not paged or page >= step.result["pages"]:
            break
    raise DeadEnd(f"{tool.name} does not list {key}")

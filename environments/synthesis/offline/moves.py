"""What a task is put together of: one thing to do, the words for it, and the calls it takes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from environments.synthesis.blueprint import Action, Add, Attribute, Entity, Need
from environments.synthesis.offline.candidates import bindings, rules_of
from environments.synthesis.offline.compose import Tool
from environments.synthesis.offline.describe import (
    Found,
    Scene,
    describe,
    narrowed,
    said,
    told_apart_by,
)
from environments.synthesis.offline.fabricate import plain_value
from environments.synthesis.offline.phrase import an, listed, worded
from environments.synthesis.offline.steps import result_of
from environments.synthesis.walk import DeadEnd

_TRIED = 6
_MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Move:
    """Something done, or refused: ``clause`` is imperative, without a capital or a full stop."""

    clause: str
    tool: str
    implicit: int
    """How implicit the rows were that it names, the highest of them."""
    texts: tuple[str, ...] = ()
    """Values somebody worded."""


async def act(scene: Scene, action: Action, level: int, about: Sequence[str] = ()) -> Move:
    """Do an action to rows its rules accept, rather to one of ``about`` (ids).

    Raises ``DeadEnd``.
    """
    for _ in range(_TRIED):
        found = bindings(scene.design, scene.now, action, scene.dice)
        if about:
            near = [each for each in found if set(about) & set(map(str, each.values()))]
            found = near or found
        if found:
            return await _bound(scene, action, found[0], level)
    raise DeadEnd(f"nothing to {action.name}")


async def refused(scene: Scene, action: Action, level: int) -> tuple[Move, dict[str, Any]]:
    """Try an action that just one rule refuses; also what it was tried with."""
    rules = rules_of(action)
    scene.dice.shuffle(rules)
    for rule in rules:
        for _ in range(2):
            found = bindings(scene.design, scene.now, action, scene.dice, broken=rule)
            if found:
                return await _bound(scene, action, found[0], level, rule), found[0]
    raise DeadEnd(f"no rule of {action.name} stands against anything")


async def instead(scene: Scene, action: Action, level: int, tried: Mapping[str, Any]) -> Move:
    """Do the action to something close to what it was refused for."""
    best: list[dict[str, Any]] = []
    for _ in range(_TRIED):
        best += bindings(scene.design, scene.now, action, scene.dice)
    if not best:
        raise DeadEnd(f"nothing to {action.name} instead")
    alike = max(best, key=lambda each: sum(each[name] == tried[name] for name in each))
    return await _bound(scene, action, alike, level)


async def _bound(
    scene: Scene, action: Action, binding: Mapping[str, Any], level: int, rule: Need | None = None
) -> Move:
    arguments: dict[str, Any] = {}
    spoken: dict[str, str] = {}
    texts: list[str] = []
    implicit = 0
    currency = scene.design.blueprint.currency
    for take in action.takes:
        if take.via:
            continue
        value = binding[take.name]
        if take.kind is None:
            found = await describe(scene, take.entity, value, level)
            arguments[f"{take.name}_id"], spoken[take.name] = found.reference, found.phrase
            implicit = max(implicit, found.implicit)
        else:
            arguments[take.name] = bool(value) if take.kind.sort == "flag" else value
            spoken[take.name] = said(value, take.kind, currency)
            if take.kind.sort == "text":
                texts.append(value)
    step = await scene.call(action.name, arguments, rule.code if rule else None)
    if rule is None:
        _remember_added(scene, action, step.result)
    clause = worded(scene.dice.choice(action.asks), spoken)
    return Move(clause, action.name, implicit, tuple(texts))


def _remember_added(scene: Scene, action: Action, result: Any) -> None:
    """The new row can be spoken of from here on."""
    row = result_of(action)
    for step in action.does:
        if isinstance(step, Add) and step.row == row and "id" in result:
            number = len(scene.walk.steps) - 1
            words = scene.design.entities[step.entity].words
            new = Found(f"the new {words}", f"${{{number}.id}}", 1)
            scene.known[step.entity, result["id"]] = new


async def act_on_all(scene: Scene, action: Action) -> Move:
    """Do an action to every row of a kind, where there are a few and its rules accept them all."""
    takes = [take for take in action.takes if take.entity and not take.via]
    if len(takes) != 1:
        raise DeadEnd(f"{action.name} is not for one row")
    entity = scene.design.entities[takes[0].entity]
    found = bindings(scene.design, scene.now, action, scene.dice)
    able = {each[takes[0].name]: each for each in found}
    for first in found[:_TRIED]:
        for chosen, keys in _groups(scene, entity, first[takes[0].name]):
            if 2 <= len(keys) <= _MOST_AT_ONCE and all(key in able for key in keys):
                return await _each(scene, action, first, (entity, chosen, keys))
    raise DeadEnd(f"no few rows to {action.name}")


Group = tuple[Entity, Sequence[Attribute], Sequence[str]]


def _groups(scene: Scene, entity: Entity, key: str) -> list[tuple[Sequence[Attribute], list[str]]]:
    """Sets of rows that share something with this one that can be said of them."""
    row = scene.row(entity.name, key)
    usable = [each for each in told_apart_by(scene, entity) if row[each.column] is not None]
    groups: list[tuple[Sequence[Attribute], list[str]]] = []
    for size in (1, 2):
        for chosen in itertools.combinations(usable, size):
            where = " AND ".join(f"{each.column} = ?" for each in chosen)
            keys = scene.now.execute(
                f"SELECT id FROM {entity.table} WHERE {where} ORDER BY id",
                tuple(row[each.column] for each in chosen),
            ).fetchall()
            groups.append((chosen, [record[0] for record in keys]))
    scene.dice.shuffle(groups)
    return groups


async def _each(scene: Scene, action: Action, binding: Mapping[str, Any], group: Group) -> Move:
    entity, chosen, keys = group
    (take,) = [each for each in action.takes if each.entity and not each.via]
    row = scene.row(entity.name, keys[0])
    phrase, number = await list_matching(scene, entity, chosen, row)
    spoken: dict[str, str] = {take.name: f"every {phrase}"}
    values: dict[str, Any] = {}
    for other in action.takes:
        if other.kind is not None:
            value = binding[other.name]
            values[other.name] = bool(value) if other.kind.sort == "flag" else value
            spoken[other.name] = said(value, other.kind, scene.design.blueprint.currency)
    for key in keys:
        place = scene.walk.place_of(number, "id", key)
        if place is None:
            raise DeadEnd("the rows are not all on one page")
        await scene.call(action.name, {f"{take.name}_id": place + ".id}", **values})
    clause = worded(scene.dice.choice(action.asks), spoken)
    texts = tuple(
        binding[each.name] for each in action.takes if each.kind and each.kind.sort == "text"
    )
    return Move(clause, action.name, 2, texts)


async def list_matching(
    scene: Scene, entity: Entity, chosen: Sequence[Attribute], row: Mapping[str, Any]
) -> tuple[str, int]:
    """List the rows that share these values; the noun phrase for one, and the call's number."""
    arguments, phrase = await narrowed(scene, entity, row, chosen)
    tool = scene.design.tool("find", entity.name)
    assert tool is not None
    await scene.call(tool.name, arguments)
    return phrase, len(scene.walk.steps) - 1


async def create(scene: Scene, tool: Tool) -> Move:
    """Add a new row with the entity's creating tool."""
    entity = scene.design.entities[tool.entity]
    arguments: dict[str, Any] = {}
    details: list[str] = []
    label = ""
    for each in entity.attributes:
        if not each.given or (each.kind.optional and scene.dice.random() < 0.5):
            continue
        words = each.words
        if each.kind.sort == "ref":
            key = _any_of(scene, each.kind.entity)
            other = await describe(scene, each.kind.entity, key, 0)
            arguments[each.column] = other.reference
            details.append(f"{words}: {other.phrase}")
            continue
        value = _new_value(scene, entity, each, label)
        arguments[each.column] = bool(value) if each.kind.sort == "flag" else value
        if each.name == entity.label:
            label = str(value)
        elif each.kind.sort == "flag":
            details.append(f"{words}: {'yes' if value else 'no'}")
        else:
            details.append(f"{words}: {said(value, each.kind, scene.design.blueprint.currency)}")
    step = await scene.call(tool.name, arguments)
    number = len(scene.walk.steps) - 1
    phrase = entity.said.format(label) if label else f"the new {entity.words}"
    scene.known[entity.name, step.result["id"]] = Found(phrase, f"${{{number}.id}}", 0)
    verb = tool.name.partition("_")[0]
    called = f" called {label}" if label else ""
    clause = f"{verb} {an(f'new {entity.words}')}{called}"
    return Move(f"{clause} ({'; '.join(details)})" if details else clause, tool.name, 0)


def _any_of(scene: Scene, entity: str) -> str:
    keys = scene.now.execute(f"SELECT id FROM {scene.design.tables[entity]} ORDER BY id").fetchall()
    if not keys:
        raise DeadEnd(f"there is no {entity}")
    return str(scene.dice.choice(keys)[0])


def _new_value(scene: Scene, entity: Entity, attribute: Attribute, label: str) -> Any:
    """A value for a new row; a label that no row has."""
    if attribute.kind.sort == "email":
        local = ".".join("".join(c if c.isalpha() else " " for c in label.lower()).split())
        return f"{local or 'office'}@{scene.dice.choice(('home', 'desk', 'letters'))}.example"
    for _ in range(20):
        value = plain_value(attribute.kind, scene.dice, scene.design)
        taken = f"SELECT 1 FROM {entity.table} WHERE {attribute.column} = ?"
        if attribute.name != entity.label or not scene.now.execute(taken, (value,)).fetchone():
            return value
    raise DeadEnd(f"every {attribute.name} is taken")


async def update(scene: Scene, tool: Tool, level: int, key: str | None = None) -> Move:
    """Change one or two values of a row with the entity's updating tool."""
    entity = scene.design.entities[tool.entity]
    key = key or _any_of(scene, entity.name)
    row = scene.row(entity.name, key)
    found = await describe(scene, entity.name, key, level)
    fields = scene.dice.sample(tool.fields, min(len(tool.fields), scene.dice.choice((1, 1, 2))))
    flags = [column for column in fields if entity.attribute(column).kind.sort == "flag"]
    fields = flags[:1] or fields
    arguments: dict[str, Any] = {f"{entity.name}_id": found.reference}
    changes: list[str] = []
    texts: list[str] = []
    for column in fields:
        attribute = entity.attribute(column)
        value, spoken = await _other_value(scene, entity, attribute, row)
        arguments[column] = value
        changes.append(f"{attribute.words} to {spoken}")
        if attribute.kind.sort == "text":
            texts.append(value)
    await scene.call(tool.name, arguments)
    if flags:
        words = entity.attribute(flags[0]).words
        clause = f"mark {found.phrase} as {'' if arguments[flags[0]] else 'not '}{words}"
        return Move(clause, tool.name, found.implicit)
    verb = scene.dice.choice(("change", "set"))
    clause = f"{verb} the {listed(changes, 'and the')} for {found.phrase}"
    return Move(clause, tool.name, found.implicit, tuple(texts))


async def _other_value(
    scene: Scene, entity: Entity, attribute: Attribute, row: Mapping[str, Any]
) -> tuple[Any, str]:
    """Another value than the row has: as an argument, and in words."""
    old = row[attribute.column]
    for _ in range(20):
        if attribute.kind.sort == "ref":
            key = _any_of(scene, attribute.kind.entity)
            if key != old:
                other = await describe(scene, attribute.kind.entity, key, 0)
                return other.reference, other.phrase
        else:
            label = str(row.get(entity.label) or entity.name)
            value = _new_value(scene, entity, attribute, label)
            if value != old:
                shown = bool(value) if attribute.kind.sort == "flag" else value
                return shown, said(value, attribute.kind, scene.design.blueprint.currency)
    raise DeadEnd(f"no other {attribute.name} to be had")


async def delete(scene: Scene, tool: Tool, level: int) -> Move:
    """Delete a row that nothing refers to."""
    entity = scene.design.entities[tool.entity]
    where = (
        " AND ".join(
            f"id NOT IN (SELECT {each.column} FROM {other.table} WHERE {each.column} IS NOT NULL)"
            for other, each in scene.design.referring(entity.name)
        )
        or "1"
    )
    keys = scene.now.execute(f"SELECT id FROM {entity.table} WHERE {where} ORDER BY id").fetchall()
    if not keys:
        raise DeadEnd(f"every {entity.name} is referred to")
    found = await describe(scene, entity.name, scene.dice.choice(keys)[0], level)
    await scene.call(tool.name, {f"{entity.name}_id": found.reference})
    return Move(f"delete {found.phrase}", tool.name, found.implicit)

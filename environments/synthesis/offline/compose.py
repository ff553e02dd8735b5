"""From a blueprint and a seed to a design: which features, columns, limits and tools there are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

from environments.synthesis.blueprint import (
    Action,
    Add,
    Attribute,
    Blueprint,
    Drop,
    DropAll,
    Entity,
    Feature,
    Put,
    PutAll,
    Step,
    When,
)

Job = Literal["find", "get", "create", "update", "delete", "do", "summarise"]
Listing = Literal["paged", "limited", "plain"]

PAGE = 25
_FEWEST, _MOST = 2, 4
_MOST_TOOLS, _LEAST_SPARE = 24, 4
_FIRST_DAY = date(2026, 1, 5)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool to be. ``filters`` of a finding tool are columns it takes, ``fields`` of an
    updating one those it sets, and of a summary those it can group by."""

    job: Job
    name: str
    entity: str = ""
    action: Action | None = None
    filters: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    searched: bool = False
    """Whether it also finds rows by words of their label."""
    sorts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    """Of a getting tool the entities whose rows of this one it answers too."""
    total: str = ""


@dataclass(frozen=True, slots=True)
class Design:
    """One environment to be; everything about it but its rows and tasks."""

    name: str
    blueprint: Blueprint
    seed: str
    features: tuple[str, ...]
    entities: Mapping[str, Entity]
    actions: tuple[Action, ...]
    constants: Mapping[str, int | float]
    tools: tuple[Tool, ...]
    settle: tuple[str, ...]
    invariants: tuple[str, ...]
    policy: tuple[str, ...]
    today: date
    listing: Listing

    @property
    def tables(self) -> dict[str, str]:
        return {name: entity.table for name, entity in self.entities.items()}

    def tool(self, job: Job, entity: str) -> Tool | None:
        return next((t for t in self.tools if t.job == job and t.entity == entity), None)

    def referring(self, entity: str) -> list[tuple[Entity, Attribute]]:
        """The columns that refer to rows of ``entity``."""
        return [
            (other, attribute)
            for other in self.entities.values()
            for attribute in other.attributes
            if attribute.kind.sort == "ref" and attribute.kind.entity == entity
        ]


def compose(blueprint: Blueprint, seed: int, number: int) -> Design:
    """The design of the domain's environment ``number`` in the run of ``seed``.

    Numbers go through the sets of features that fit together, in an order of the seed, so that two
    environments of a domain have different ones as long as there are any left.
    """
    own = f"{seed}/{blueprint.domain}/{number}"
    dice = random.Random(f"{own}/design")
    chosen = _features(blueprint, seed, number)
    entities = _entities(blueprint, chosen, dice)
    actions = _actions(blueprint, chosen, dice)
    parts: list[Blueprint | Feature] = [blueprint, *chosen]
    constants = {
        name: dice.choice(values) for part in parts for name, values in part.constants.items()
    }
    tools = _Tools(entities, actions, dice).all()
    return Design(
        name=f"{blueprint.domain}-{number:04d}",
        blueprint=blueprint,
        seed=own,
        features=tuple(feature.name for feature in chosen),
        entities=entities,
        actions=actions,
        constants=constants,
        tools=tools,
        settle=_named(entities, [sql for part in parts for sql in part.settle]),
        invariants=_named(entities, [sql for part in parts for sql in part.invariants]),
        policy=(*blueprint.policy, *(line for each in chosen for line in each.policy)),
        today=_FIRST_DAY + timedelta(days=dice.randrange(300)),
        listing=dice.choice(("paged", "limited", "plain")),
    )


def _named(entities: Mapping[str, Entity], statements: Sequence[str]) -> tuple[str, ...]:
    """SQL with entities in braces called by their tables."""
    named = []
    for statement in statements:
        for entity in entities.values():
            statement = statement.replace(f"{{{entity.name}}}", entity.table)
        named.append(statement)
    return tuple(named)


def feature_sets(blueprint: Blueprint) -> list[tuple[str, ...]]:
    """The sets of features that fit together and are neither few nor nearly all."""
    by_name = {feature.name: feature for feature in blueprint.features}
    found: dict[tuple[str, ...], None] = {}
    fewest = min(_FEWEST, len(by_name))
    for size in range(fewest, min(_MOST, len(by_name)) + 1):
        for names in itertools.combinations(by_name, size):
            if _fit(by_name, names):
                found[names] = None
    return list(found)


def _fit(by_name: Mapping[str, Feature], names: Sequence[str]) -> bool:
    there = set(names)
    return all(
        there.issuperset(by_name[name].needs) and there.isdisjoint(by_name[name].excludes)
        for name in names
    )


def _features(blueprint: Blueprint, seed: int, number: int) -> tuple[Feature, ...]:
    sets = feature_sets(blueprint)
    random.Random(f"{seed}/{blueprint.domain}/features").shuffle(sets)
    names = sets[number % len(sets)] if sets else ()
    return tuple(feature for feature in blueprint.features if feature.name in names)


def _entities(
    blueprint: Blueprint, chosen: Sequence[Feature], dice: random.Random
) -> dict[str, Entity]:
    parts: list[Blueprint | Feature] = [blueprint, *chosen]
    entities = {entity.name: entity for part in parts for entity in part.entities}
    for feature in chosen:
        for name, attributes in feature.attributes.items():
            if name in entities:
                there = entities[name]
                entities[name] = replace(there, attributes=(*there.attributes, *attributes))
    return {
        name: replace(
            entity,
            attributes=tuple(
                each
                for each in entity.attributes
                if each.chance == 1 or dice.random() < each.chance
            ),
            prefix=entity.prefix or _prefix(name, dice),
        )
        for name, entity in entities.items()
    }


def _prefix(name: str, dice: random.Random) -> str:
    """How ids of an entity begin; different for every entity of an environment by its name."""
    letters = "".join(part[:2] for part in name.split("_")).upper()
    return f"{dice.choice((letters, name.split('_')[-1][:4].upper()))}-"


def _actions(
    blueprint: Blueprint, chosen: Sequence[Feature], dice: random.Random
) -> tuple[Action, ...]:
    parts: list[Blueprint | Feature] = [blueprint, *chosen]
    actions = {
        action.name: action
        for part in parts
        for action in part.actions
        if action.chance == 1 or dice.random() < action.chance
    }
    for feature in chosen:
        for name, steps in feature.extends.items():
            if name in actions:
                actions[name] = _extended(actions[name], steps)
    return tuple(actions.values())


def _extended(action: Action, steps: Sequence[Step]) -> Action:
    """The action with further rules before its first change, and further changes at its end."""
    changing = Put | PutAll | Add | Drop | DropAll | When
    first = next(
        (place for place, step in enumerate(action.does) if isinstance(step, changing)),
        len(action.does),
    )
    rules = [step for step in steps if not isinstance(step, changing)]
    changes = [step for step in steps if isinstance(step, changing)]
    does = (*action.does[:first], *rules, *action.does[first:], *changes)
    return replace(action, does=does)


class _Tools:
    """Which tools there are beside the actions, and what they are called."""

    def __init__(
        self, entities: Mapping[str, Entity], actions: Sequence[Action], dice: random.Random
    ) -> None:
        self.entities = entities
        self.actions = actions
        self.dice = dice
        self.make = dice.choice(("add", "create", "register"))
        self.alter = dice.choice(("update", "edit", "change"))
        self.finds = dice.choice((("search", "list"), ("find", "list"), ("list", "list")))
        self.sorting = dice.random() < 0.5

    def all(self) -> tuple[Tool, ...]:
        tools: list[Tool] = []
        for entity in self.entities.values():
            tools += self._of(entity)
        tools += [Tool("do", action.name, action=action) for action in self.actions]
        tools = self._few(tools)
        taken: set[str] = {tool.name for tool in tools if tool.job == "do"}
        unique = []
        for tool in tools:
            if tool.job == "do" or tool.name not in taken:
                unique.append(tool)
                taken.add(tool.name)
        return tuple(unique)

    def _few(self, tools: list[Tool]) -> list[Tool]:
        """Without some of the tools that nothing else needs, where there are too many."""
        spare = [tool for tool in tools if tool.job != "do" and not self._locates(tool)]
        self.dice.shuffle(spare)
        gone = spare[: max(0, min(len(tools) - _MOST_TOOLS, len(spare) - _LEAST_SPARE))]
        return [tool for tool in tools if tool not in gone]

    def _locates(self, tool: Tool) -> bool:
        """Whether it finds rows that other tools take."""
        return tool.job == "find" and not (
            self.entities[tool.entity].log or self.entities[tool.entity].key
        )

    def _of(self, entity: Entity) -> list[Tool]:
        plain = not entity.key and not entity.log
        tools = [self._finding(entity)]
        if plain and (not entity.label or self.dice.random() < 0.7):
            tools.append(self._getting(entity))
        if entity.creatable and plain:
            tools.append(Tool("create", f"{self.make}_{entity.name}", entity.name))
        editable = tuple(each.column for each in entity.attributes if each.editable)
        if editable and plain:
            tools.append(
                Tool("update", f"{self.alter}_{entity.name}", entity.name, fields=editable)
            )
        if entity.removable and plain:
            tools.append(Tool("delete", f"delete_{entity.name}", entity.name))
        summary = self._summary(entity)
        if summary is not None and self.dice.random() < 0.35:
            tools.append(summary)
        return tools

    def _finding(self, entity: Entity) -> Tool:
        filters = tuple(
            each.column
            for each in entity.attributes
            if each.kind.sort in ("ref", "choice", "flag")
            or (each.after and each.name != entity.label)
        )
        numbers = [each.column for each in entity.attributes if each.least or each.most]
        searched = bool(entity.label)
        verb = self.finds[0 if searched else 1]
        return Tool(
            "find",
            f"{verb}_{entity.table}",
            entity.name,
            filters=filters,
            searched=searched,
            sorts=tuple(numbers) if self.sorting else (),
        )

    def _getting(self, entity: Entity) -> Tool:
        children = [
            other.name
            for other in self.entities.values()
            if any(
                each.kind.sort == "ref" and each.kind.entity == entity.name
                for each in other.attributes
            )
        ]
        few = tuple(children[: self.dice.randint(0, 2)])
        return Tool("get", f"get_{entity.name}", entity.name, children=few)

    def _summary(self, entity: Entity) -> Tool | None:
        groups = tuple(
            each.column
            for each in entity.attributes
            if each.kind.sort in ("choice", "ref") and not each.kind.optional
        )
        if not groups or entity.rows[1] < 15:
            return None
        totals = [each.name for each in entity.attributes if each.kind.sort in ("money", "integer")]
        total = self.dice.choice(totals) if totals else ""
        return Tool(
            "summarise", f"summarise_{entity.table}", entity.name, fields=groups, total=total
        )

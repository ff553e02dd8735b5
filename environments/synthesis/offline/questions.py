"""Tasks that only ask: an answer gate and nothing else."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from environments.synthesis.blueprint import Attribute, Entity
from environments.synthesis.offline.describe import Scene, describe, narrowed, said, told_apart_by
from environments.synthesis.offline.phrase import capital
from environments.synthesis.walk import DeadEnd

_FEW_ROWS = 12
_COMMON = 9
_PAGES = 6


@dataclass(frozen=True, slots=True)
class Question:
    """An instruction, the answer gate of its verifier, and the right answer."""

    instruction: str
    gate: dict[str, Any]
    answer: str
    implicit: int


async def ask(scene: Scene) -> Question:
    """A question that the finding tools answer. Raises ``DeadEnd``."""
    entities = _many(scene)
    makers = [_total, _number, _first, _which, _property]
    for _ in range(4):
        entity, maker = scene.dice.choice(entities), scene.dice.choice(makers)
        try:
            return await maker(scene, entity)
        except DeadEnd:
            scene.walk.calls.clear()
            scene.walk.steps.clear()
            scene.known.clear()
    raise DeadEnd("no question came of it")


def _many(scene: Scene) -> list[Entity]:
    """Entities of which there are enough rows to ask about."""
    return [
        entity
        for entity in scene.design.entities.values()
        if not entity.key and not entity.log and entity.rows[0] >= _FEW_ROWS
    ]


def _filters(
    scene: Scene, entity: Entity, least: int, most: int
) -> tuple[Sequence[Attribute], list[dict[str, Any]]]:
    """Columns and the rows that agree in them with some row, between ``least`` and ``most``."""
    usable = told_apart_by(scene, entity)
    rows = _all_rows(scene.before, entity.table)
    if not rows:
        raise DeadEnd(f"no {entity.table}")
    options = [chosen for size in (1, 2, 0) for chosen in itertools.combinations(usable, size)]
    for _ in range(12):
        chosen = scene.dice.choice(options)
        one = scene.dice.choice(rows)
        if any(one[each.column] is None for each in chosen):
            continue
        alike = [row for row in rows if all(row[e.column] == one[e.column] for e in chosen)]
        if least <= len(alike) <= most:
            return chosen, alike
    raise DeadEnd(f"no such set of {entity.table}")


def _all_rows(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, record, strict=True)) for record in cursor]


async def _read_all(scene: Scene, entity: Entity, arguments: Mapping[str, Any]) -> None:
    """List what the arguments find, all pages of it."""
    tool = scene.design.tool("find", entity.name)
    assert tool is not None
    for page in range(1, _PAGES):
        step = await scene.call(tool.name, {**arguments, **({"page": page} if page > 1 else {})})
        if scene.design.listing != "paged" or page >= step.result["pages"]:
            return
    raise DeadEnd("too many pages")


def _rare(scene: Scene, value: str) -> bool:
    """Whether the value does not stand in the database anyway, where a guess would find it."""
    for entity in scene.design.entities.values():
        for each in entity.attributes:
            sql = f"SELECT 1 FROM {entity.table} WHERE CAST({each.column} AS TEXT) = ? LIMIT 1"
            if scene.before.execute(sql, (value,)).fetchone():
                return False
    return True


async def _total(scene: Scene, entity: Entity) -> Question:
    numbers = [each for each in entity.attributes if each.kind.sort in ("money", "integer")]
    summed = [each for each in numbers if each.kind.sort == "money" or each.unit]
    if not summed:
        raise DeadEnd("nothing to sum up")
    column = scene.dice.choice(summed)
    chosen, rows = _filters(scene, entity, 3, 25)
    total = round(sum(row[column.name] or 0 for row in rows), 2)
    if total < 20 or not _rare(scene, f"{total:g}"):
        raise DeadEnd("too easy to guess")
    arguments, phrase = await narrowed(scene, entity, rows[0], chosen, many=True)
    await _read_all(scene, entity, arguments)
    words = column.words
    every = "" if chosen else "all "
    pattern = scene.dice.choice((
        "What is the total {words} of {every}{the}{phrase}? Answer with the number only.",
        "Add up the {words} of {every}{the}{phrase} and give me just the sum.",
        "I need the sum of the {words} over {every}{the}{phrase}, as a plain number.",
    ))  # fmt: skip
    the = "the " if chosen else ""
    text = pattern.format(words=words, every=every, the=the, phrase=phrase)
    return Question(text, {"numeric": total, "tolerance": 0.01}, f"{total:g}", 1 if chosen else 0)


async def _number(scene: Scene, entity: Entity) -> Question:
    chosen, rows = _filters(scene, entity, _COMMON, 60)
    if not chosen or not _rare(scene, str(len(rows))):
        raise DeadEnd("too easy to guess")
    arguments, phrase = await narrowed(scene, entity, rows[0], chosen, many=True)
    await _read_all(scene, entity, arguments)
    pattern = scene.dice.choice((
        "How many {phrase} are there? Answer with the number only.",
        "Count the {phrase} for me; I only need the number.",
    ))  # fmt: skip
    return Question(pattern.format(phrase=phrase), {"numeric": len(rows)}, str(len(rows)), 1)


async def _first(scene: Scene, entity: Entity) -> Question:
    compared = [each for each in entity.attributes if each.least or each.most]
    if not entity.label or not compared:
        raise DeadEnd("nothing to compare by")
    column = scene.dice.choice(compared)
    word = scene.dice.choice([each for each in (column.least, column.most) if each])
    chosen, rows = _filters(scene, entity, 3, 60)
    there = [row for row in rows if row[column.column] is not None]
    there.sort(key=lambda row: row[column.column], reverse=word == column.most)
    if len(there) < 2 or there[0][column.column] == there[1][column.column]:
        raise DeadEnd("no single first")
    arguments, phrase = await narrowed(scene, entity, rows[0], chosen)
    await _read_all(scene, entity, arguments)
    label = str(there[0][entity.label])
    words = entity.attribute(entity.label).words
    pattern = scene.dice.choice((
        "Which is the {word} {phrase}? Answer with its {label} only.",
        "Tell me the {label} of the {word} {phrase}, and nothing else.",
        "What is the {label} of the {word} {phrase}? Just the {label}, please.",
    ))  # fmt: skip
    text = pattern.format(word=word, phrase=phrase, label=words)
    return Question(text, {"norm": label}, label, 2)


async def _which(scene: Scene, entity: Entity) -> Question:
    if not entity.label:
        raise DeadEnd("rows have no name")
    chosen, rows = _filters(scene, entity, 2, 6)
    if not chosen:
        raise DeadEnd("too many")
    labels = [str(row[entity.label]) for row in rows]
    if any("," in label or ";" in label for label in labels):
        raise DeadEnd("names with commas make no list")
    arguments, phrase = await narrowed(scene, entity, rows[0], chosen, many=True)
    await _read_all(scene, entity, arguments)
    words = entity.attribute(entity.label).words
    pattern = scene.dice.choice((
        "Which are the {phrase}? Answer with their {label}s, separated by commas.",
        "List the {label}s of all {phrase}, separated by commas, and nothing else.",
    ))  # fmt: skip
    text = pattern.format(phrase=phrase, label=words)
    return Question(text, {"set_eq": labels}, ", ".join(labels), 1)


async def _property(scene: Scene, entity: Entity) -> Question:
    telling = [
        each
        for each in entity.attributes
        if each.kind.sort in ("day", "email", "phone", "person", "money")
        and each.name != entity.label
    ]
    if not telling:
        raise DeadEnd("nothing to tell")
    column = scene.dice.choice(telling)
    rows = [r for r in _all_rows(scene.before, entity.table) if r[column.column] is not None]
    if not rows:
        raise DeadEnd("nothing known")
    row = scene.dice.choice(rows)
    found = await describe(scene, entity.name, row["id"], scene.dice.choice((1, 2)))
    value = row[column.column]
    if said(value, column.kind, scene.design.blueprint.currency) in found.phrase:
        raise DeadEnd("the question says the answer")
    words = column.words
    if column.kind.sort == "money":
        if value < 5 or sum(r[column.column] == value for r in rows) > 1:
            raise DeadEnd("too easy to guess")
        text = f"What is the {words} of {found.phrase}? Answer with the number only."
        return Question(text, {"numeric": value}, f"{value:g}", found.implicit)
    if column.kind.sort == "day":
        wanted = _day_wanted(words, found.phrase)
        text = f"Give me {wanted}, as YYYY-MM-DD and nothing else."
        return Question(text, {"exact": value}, str(value), found.implicit)
    text = f"What is the {words} of {found.phrase}? Answer with it alone."
    return Question(capital(text), {"norm": str(value)}, said(value, column.kind), found.implicit)


def _day_wanted(words: str, phrase: str) -> str:
    """The day in a column of such words, as a noun phrase."""
    verb = words.removesuffix(" on")
    if verb.endswith("s"):
        return f"the day on which {phrase} {verb}"
    if words.startswith("day"):
        return f"the {words} for {phrase}"
    return f"the “{words}” date of {phrase}"


async def counted(scene: Scene) -> tuple[str, bool]:
    """A condition on how many rows there are of a kind, and whether it holds; looked up."""
    entity = scene.dice.choice(_many(scene))
    chosen, rows = _filters(scene, entity, 2, 20)
    if not chosen:
        raise DeadEnd("nothing to count")
    arguments, phrase = await narrowed(scene, entity, rows[0], chosen, many=True)
    await _read_all(scene, entity, arguments)
    holds = scene.dice.random() < 0.5
    bound = len(rows) - scene.dice.randint(1, 2) if holds else len(rows) + scene.dice.randint(0, 2)
    if bound < 2:
        raise DeadEnd("more than one of many things")
    return f"there are more than {bound} {phrase}", holds

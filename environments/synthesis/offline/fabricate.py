"""Rows for a design: made up from its seed, then made to agree with one another."""

from __future__ import annotations

import random
import re
import sqlite3
import string
from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from environments.errors import EnvhubError, InfrastructureFault
from environments.synthesis.blueprint import Attribute, Entity, Kind
from environments.synthesis.offline.compose import Design

if TYPE_CHECKING:
    from faker import Faker

Row = dict[str, Any]
_TOKEN = re.compile(r"\{(\w+)\}")
_TRIES = 200


class BlueprintWrong(EnvhubError):
    """A blueprint contradicts itself."""

    code = "BLUEPRINT_WRONG"
    kind = "environment"


class FakerUnavailable(InfrastructureFault):
    """Faker is not installed."""

    code = "FAKER_UNAVAILABLE"


@cache
def people() -> Faker:
    """Names, streets and companies. Raises ``FakerUnavailable``."""
    try:
        from faker import Faker
    except ImportError as error:
        raise FakerUnavailable(
            "Faker is not installed", hint="pip install 'mcp-env-hub[synth]'"
        ) from error
    return Faker("en_GB")


def fabricate(design: Design, schema: str) -> sqlite3.Connection:
    """A database in memory with the design's rows, as they are at the start of an episode.

    Raises ``BlueprintWrong`` where the rows break the schema or an invariant, and
    ``FakerUnavailable``.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    dice = random.Random(f"{design.seed}/rows")
    connection.create_function("random", 0, lambda: dice.getrandbits(62))
    connection.executescript(schema)
    try:
        for table, rows in _Rows(design, dice).all().items():
            for row in rows:
                columns, marks = ", ".join(row), ", ".join("?" * len(row))
                connection.execute(
                    f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row.values())
                )
        for statement in design.settle:
            connection.execute(statement)
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.Error as error:
        raise BlueprintWrong(f"{design.name}: {error}", hint="look at kinds and settle") from error
    if broken:
        raise BlueprintWrong(f"{design.name}: rows refer to none: {broken[:3]}")
    violated = violations(design, connection)
    if violated:
        raise BlueprintWrong(f"{design.name}: its rows break {violated[0]!r}")
    return connection


def violations(design: Design, connection: sqlite3.Connection) -> list[str]:
    """The invariants that do not hold."""
    return [sql for sql in design.invariants if connection.execute(sql).fetchone() is not None]


def name_from(
    patterns: tuple[str, ...], words: Mapping[str, tuple[str, ...]], dice: random.Random
) -> str:
    """A proper name out of one of the patterns."""
    fake = people()
    fake.seed_instance(dice.getrandbits(32))
    makers: dict[str, Callable[[], str]] = {
        "city": fake.city, "surname": fake.last_name, "street": fake.street_name,
        "company": fake.company, "first": fake.first_name, "word": fake.word,
    }  # fmt: skip

    def one(token: re.Match[str]) -> str:
        name = token.group(1)
        if name in words:
            return dice.choice(words[name])
        return makers[name]()

    made = _TOKEN.sub(one, dice.choice(patterns))
    return re.sub("#", lambda _: dice.choice(string.digits), made)


class _Rows:
    def __init__(self, design: Design, dice: random.Random) -> None:
        self.design = design
        self.dice = dice
        self.rows: dict[str, list[Row]] = {}
        self.start = datetime.combine(design.today, time(9))

    def all(self) -> dict[str, list[Row]]:
        """By table, each after those it refers to."""
        waiting = dict(self.design.entities)
        while waiting:
            ready = [
                entity
                for entity in waiting.values()
                if not any(
                    each.kind.entity in waiting and each.kind.entity != entity.name
                    for each in entity.attributes
                    if each.kind.sort == "ref"
                )
            ]
            if not ready:
                raise BlueprintWrong(f"{self.design.name}: {', '.join(waiting)} refer in a circle")
            for entity in ready:
                self.rows[entity.name] = self._fill(waiting.pop(entity.name))
        tables = self.design.tables
        return {tables[name]: rows for name, rows in self.rows.items()}

    def _fill(self, entity: Entity) -> list[Row]:
        self.rows[entity.name] = rows = []
        seen: set[Any] = set()
        first = self.dice.randrange(100, 9000)
        for number in range(self.dice.randint(*entity.rows)):
            row: Row = {}
            if not entity.key:
                row["id"] = number + 1 if entity.log else f"{entity.prefix}{first + number * 7}"
            for _ in range(_TRIES):
                self._values(entity, row, number)
                known = self._identity(entity, row)
                if known is None or known not in seen:
                    seen.add(known)
                    rows.append(row)
                    break
        return rows

    @staticmethod
    def _identity(entity: Entity, row: Row) -> Any:
        if entity.key:
            return tuple(row[f"{name}_id"] for name in entity.key)
        return row[entity.label] if entity.label else None

    def _values(self, entity: Entity, row: Row, number: int) -> None:
        for attribute in entity.attributes:
            row[attribute.column] = self._value(attribute, entity, row)

    def _value(self, attribute: Attribute, entity: Entity, row: Row) -> Any:
        kind, dice = attribute.kind, self.dice
        if kind.optional and dice.random() < kind.share:
            return None
        match kind.sort:
            case "ref":
                return self._refer(kind, entity)
            case "email":
                local = re.sub(r"[^a-z]+", ".", str(row[entity.label]).lower()).strip(".")
                return f"{local}@{dice.choice(('mail', 'post', 'inbox'))}.example"
            case "made":
                return name_from(kind.values, self.design.blueprint.words, dice)
            case "moment":
                at = self.start + timedelta(
                    days=dice.randint(int(kind.low), int(kind.high)), minutes=dice.randrange(480)
                )
                return at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return plain_value(kind, dice, self.design)

    def _refer(self, kind: Kind, entity: Entity) -> Any:
        others = self.rows[kind.entity]
        if kind.entity == entity.name:
            return self.dice.choice(others)["id"] if others else None
        return self.dice.choice(others)["id"]


def plain_value(kind: Kind, dice: random.Random, design: Design) -> Any:
    """A value that depends on nothing but its kind."""
    match kind.sort:
        case "person":
            fake = people()
            fake.seed_instance(dice.getrandbits(32))
            return f"{fake.first_name()} {fake.last_name()}"
        case "made":
            return name_from(kind.values, design.blueprint.words, dice)
        case "choice" | "text":
            return dice.choice(kind.values)
        case "integer":
            return int(kind.low) + int(kind.step) * dice.randint(
                0, int((kind.high - kind.low) // kind.step)
            )
        case "money":
            steps = int((kind.high - kind.low) / kind.step)
            return round(kind.low + kind.step * dice.randint(0, steps), 2)
        case "day":
            chosen = design.today + timedelta(days=dice.randint(int(kind.low), int(kind.high)))
            return chosen.isoformat()
        case "flag":
            return int(dice.random() < kind.share)
        case "phone":
            return f"0{dice.randrange(1000, 9999)} {dice.randrange(100000, 999999)}"
        case "code":
            letters = re.sub("#", lambda _: dice.choice(string.digits), kind.values[0])
            return re.sub(r"\?", lambda _: dice.choice("ABCDEFGHKLMNPRSTUVWXYZ"), letters)
    raise BlueprintWrong(f"a {kind.sort} depends on its row")

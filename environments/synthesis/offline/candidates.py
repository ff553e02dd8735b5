"""Rows to which an action can be done, or can not for just one reason; found by SQL."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from environments.synthesis.blueprint import Action, Find, Let, Need, Take
from environments.synthesis.offline.compose import Design
from environments.synthesis.offline.expressions import condition, sql, sql_literal
from environments.synthesis.offline.fabricate import plain_value

_JOINED = 20_000
"""Above so many combinations of rows only some rows of each entity are looked at."""
_SOME = 24
_KEPT = 200

Binding = Mapping[str, Any]
"""What an action takes: ids of rows and values, by the names it has for them."""


@dataclass(frozen=True, slots=True)
class Query:
    """An action's rules as SQL over the rows it takes, with values for its arguments."""

    source: str
    joins: tuple[str, ...]
    rules: tuple[tuple[Need, str], ...]
    arguments: Mapping[str, Any]


def bindings(
    design: Design,
    rows: sqlite3.Connection,
    action: Action,
    dice: random.Random,
    broken: Need | None = None,
) -> list[dict[str, Any]]:
    """Some bindings that the action's rules accept, in a random order; with ``broken``, such as
    that rule alone refuses."""
    query = _query(design, action, dice)
    named = [take for take in action.takes if take.entity and not take.via]
    where = list(query.joins)
    where += [f"NOT ({text})" if rule is broken else f"({text})" for rule, text in query.rules]
    where += _sampled(design, rows, named, dice)
    chosen = ", ".join(f'"{take.name}".id' for take in named) or "1"
    clause = f" WHERE {' AND '.join(where)}" if where else ""
    found = rows.execute(f"SELECT {chosen} FROM {query.source}{clause} LIMIT 4000").fetchall()
    picked = dice.sample(found, min(len(found), _KEPT))
    names = [take.name for take in named]
    return [{**dict(zip(names, record, strict=False)), **query.arguments} for record in picked]


def rules_of(action: Action) -> list[Need]:
    """The rules an action checks before it changes anything."""
    rules = []
    for step in action.does:
        if isinstance(step, Need):
            rules.append(step)
        elif not isinstance(step, Let | Find):
            break
    return rules


def _query(design: Design, action: Action, dice: random.Random) -> Query:
    tables, today = design.tables, design.today.isoformat()
    names = {name: sql_literal(value) for name, value in design.constants.items()}
    arguments: dict[str, Any] = {}
    sources, joins, rules = [], [], []
    for take in action.takes:
        if take.kind is not None:
            arguments[take.name] = plain_value(take.kind, dice, design)
            names[take.name] = sql_literal(arguments[take.name])
        else:
            sources.append(f'{tables[take.entity]} AS "{take.name}"')
            if take.via:
                joins.append(f'"{take.name}".id = {sql(take.via, tables, names, today)}')
    for step in action.does:
        match step:
            case Need():
                rules.append((step, sql(step.condition, tables, names, today)))
            case Let():
                names[step.name] = sql(step.value, tables, names, today)
            case Find():
                sources.append(f'{tables[step.entity]} AS "{step.row}"')
                for keyword, value in step.where.items():
                    column, compared = condition(keyword)
                    written = sql(value, tables, names, today)
                    joins.append(f'"{step.row}".{column} {compared} {written}')
            case _:
                break
    return Query(", ".join(sources) or "(SELECT 1)", tuple(joins), tuple(rules), arguments)


def _sampled(
    design: Design, rows: sqlite3.Connection, named: Sequence[Take], dice: random.Random
) -> list[str]:
    """Conditions that keep the number of combinations small."""
    ids = {
        take.name: [
            key
            for (key,) in rows.execute(f"SELECT id FROM {design.tables[take.entity]} ORDER BY id")
        ]
        for take in named
    }
    combined = 1
    for keys in ids.values():
        combined *= max(1, len(keys))
    if combined <= _JOINED:
        return []
    return [
        f'"{name}".id IN ({", ".join(map(sql_literal, dice.sample(keys, _SOME)))})'
        for name, keys in ids.items()
        if len(keys) > _SOME
    ]

"""Assertions from what an oracle changed: the ground truth, less what is made up on the way.

Pinned is every value the task decides; open are ids that tools make (bound, where other rows name
them), points in time, and free text is compared but for case and white space.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from snapshots import Changeset
from snapshots.rows import RowChange


@dataclass(frozen=True, slots=True)
class Leeway:
    """What a verifier leaves open."""

    open_columns: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By table, columns whose new values nobody judges."""
    texts: Collection[str] = ()
    """Values that somebody worded; letter case and white space do not count in them."""
    order: Collection[str] = ()
    """Tables, each after those it refers to."""


def verifier_of(changes: Changeset, leeway: Leeway) -> dict[str, Any]:
    """A verifier that asks for just these changes."""
    rank = {table: number for number, table in enumerate(leeway.order)}
    tables = sorted(changes.tables, key=lambda table: (rank.get(table, len(rank)), table))
    made = _made_ids(changes)
    named = _named(changes, made)
    bound = {value: name for value, name in made.items() if value in named}
    entries: list[dict[str, Any]] = []
    for table in tables:
        entries += [_entry(table, change, leeway, bound) for change in changes.rows(table)]
    return {"expect": _counted(entries)}


def _made_ids(changes: Changeset) -> dict[Any, str]:
    """Names for the single-column keys of added rows."""
    made: dict[Any, str] = {}
    for table in changes.tables:
        for number, change in enumerate(c for c in changes.rows(table) if c.kind == "added"):
            if len(change.key) == 1 and "rowid" not in change.key:
                (value,) = change.key.values()
                made[value] = f"{table}_{number + 1}"
    return made


def _named(changes: Changeset, made: Mapping[Any, str]) -> set[Any]:
    """The made ids that other rows hold."""
    return {
        value
        for table in changes.tables
        for change in changes.rows(table)
        for column, value in (change.after or {}).items()
        if column not in change.key and isinstance(value, str) and value in made
    }


def _entry(
    table: str, change: RowChange, leeway: Leeway, made: Mapping[Any, str]
) -> dict[str, Any]:
    free = set(leeway.open_columns.get(table, ()))
    if change.kind == "removed":
        return {"table": table, "change": "removed", "where": dict(change.key)}
    after = change.after or {}
    if change.kind == "changed":
        fixed = {
            name: _matcher(value, leeway, made) for name, value in after.items() if name not in free
        }
        entry: dict[str, Any] = {"table": table, "where": dict(change.key), "set": fixed}
        also = sorted(free & set(after))
        if not fixed:
            return {
                "table": table,
                "where": dict(change.key),
                "set": {n: {"any": True} for n in also},
            }
        return {**entry, "also": also} if also else entry
    where: dict[str, Any] = {}
    single = len(change.key) == 1
    for name, value in after.items():
        if single and name in change.key:
            if value in made and isinstance(value, str):
                where[name] = {"bind": made[value]}
        elif name not in free:
            where[name] = _matcher(value, leeway, made)
    return {"table": table, "change": "added", "where": where}


def _matcher(value: Any, leeway: Leeway, made: Mapping[Any, str]) -> Any:
    if value is None:
        return {"null": True}
    if isinstance(value, str) and value in made:
        return {"var": made[value]}
    if isinstance(value, str) and value in leeway.texts:
        return {"norm": value}
    if isinstance(value, float) and not value.is_integer():
        return {"approx": value, "within": 0.005}
    return value


def _counted(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Equal entries as one with their number."""
    counts: dict[bytes, tuple[dict[str, Any], int]] = {}
    for entry in entries:
        key = msgspec.json.encode(entry)
        counts[key] = (entry, counts.get(key, (entry, 0))[1] + 1)
    return [entry if count == 1 else {**entry, "count": count} for entry, count in counts.values()]

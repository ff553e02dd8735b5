"""Tasks from calls that are known to solve them: tried out, and what they change is expected."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from environments.catalogue import Pack
from environments.documents import HIDDEN, Layout, Rows, decode, encode, read_binding
from environments.documents.layout import AT, IN
from environments.documents.mapping import columns
from environments.environment import Environment
from environments.episode import Episode
from environments.errors import InvalidArguments, UnknownTool
from environments.importers.documented import write_tasks
from environments.importers.trial import LONG, try_out
from environments.joint import joined
from environments.spec import OracleCall, Task
from snapshots import Changeset

UNJUDGED: Final[dict[str, Any]] = {"trace": [{"ended": "ok"}]}
"""The verifier of a task until it is known what its calls change."""
_NEVER_MADE: Final = frozenset({UnknownTool.code, InvalidArguments.code})


class Gold(msgspec.Struct, frozen=True, kw_only=True):
    """A task without its verifier. Documents go by the names of their packs: a world has one of
    each that it mounts."""

    task: Task
    documents: Mapping[str, Any]
    """What it begins with."""
    finals: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What it should end with, as far as that is known."""


class _Part(NamedTuple):
    """A document of an environment."""

    prefix: str
    """Of its tables."""
    layout: Layout
    rows: Rows
    """Of the pack's own document."""


def _parts(pack: Pack) -> dict[str, _Part]:
    found = {}
    for each in pack.members or (pack,):
        layout = read_binding(each.path).layout
        prefix = joined(each.name, "") if pack.members else ""
        found[each.name] = _Part(prefix, layout, pack_rows(each, layout))
    return found


async def judged(environment: Environment, golds: Sequence[Gold]) -> list[Task | str]:
    """Each task with a verifier, or why its calls are no solution of it. It must be in the
    environment already, with any verifier.

    The calls are made twice, with two seeds: what differs was drawn, and may be anything.
    """
    parts = _parts(environment.pack)
    return [await _judged(environment, parts, gold) for gold in golds]


def tried_out(folder: Path, golds: Sequence[Gold]) -> tuple[tuple[Task, ...], list[str]]:
    """The tasks of the pack in ``folder``, judged, whose calls lead where they should; and why
    others do not. Its ``tasks.jsonl`` is left unjudged."""
    if not golds:
        return (), []
    write_tasks(folder, [gold.task for gold in golds])
    told = try_out(folder, lambda trial: judged(trial, golds))
    left_out = [
        f"task {gold.task.id} is left out: {found}"
        for gold, found in zip(golds, told, strict=True)
        if isinstance(found, str)
    ]
    return tuple(found for found in told if not isinstance(found, str)), left_out


async def ends(environment: Environment, golds: Sequence[Gold]) -> list[Any]:
    """The documents that the calls of those tasks end with whose calls can be made."""
    parts = _parts(environment.pack)
    found = []
    for gold in golds:
        made = await _made(environment, gold.task, 0)
        if isinstance(made, str):
            continue
        for name, part in parts.items():
            start = encode(part.layout, gold.documents[name], part.rows)
            after = changed(part.layout, start, made[1], part.prefix)
            found.append(decode(part.layout, after))
    return found


async def _judged(environment: Environment, parts: Mapping[str, _Part], gold: Gold) -> Task | str:
    runs = []
    for seed in (0, 1):
        made = await _made(environment, gold.task, seed)
        if isinstance(made, str):
            return made
        runs.append(made)
    (oracle, changes), (_, others) = runs
    loose: Loose = {}
    for name, part in parts.items():
        start = encode(part.layout, gold.documents[name], part.rows)
        after = changed(part.layout, start, changes, part.prefix)
        others_after = [changed(part.layout, start, others, part.prefix)]
        if gold.finals.get(name) is not None:
            others_after.append(encode(part.layout, gold.finals[name], after))
        for end in others_after:
            told = _loosen(part, start, after, end, loose)
            if told:
                return told
    expected = _expected(changes, loose, {f"{part.prefix}{HIDDEN}" for part in parts.values()})
    verifier: dict[str, Any] = (
        {"expect": expected} if expected else {"trace": [_called(call) for call in oracle]}
    )
    return msgspec.structs.replace(gold.task, oracle=tuple(oracle), verifier=verifier)


async def _made(
    environment: Environment, task: Task, seed: int
) -> tuple[list[OracleCall], Changeset] | str:
    """The calls of a task with the errors they are answered with, and what they changed; or why
    they cannot be made."""
    episode = await Episode.start(environment, task=task.id, seed=seed, horizon=LONG)
    oracle = []
    try:
        for call in task.oracle:
            error = (await episode.call(call.tool, call.arguments)).error
            if error is not None and (error.kind != "agent" or error.code in _NEVER_MADE):
                return f"its call of {call.tool} fails: {error.message[:200]}"
            code = error.code if error is not None else None
            oracle.append(msgspec.structs.replace(call, expect_error=code))
        return oracle, episode.changes()
    finally:
        await episode.close()


def pack_rows(pack: Pack, layout: Layout) -> Rows:
    """The rows of the pack's own document, read from its files."""
    names = columns(layout)
    rows: Rows = {table: {} for table in names}
    for batch in pack.recipe().rows:
        width = 2 if names[batch.table][0] == IN else 1
        for row in batch.rows:
            rows[batch.table][row[:width]] = row
    return rows


def changed(layout: Layout, rows: Rows, changes: Changeset, prefix: str = "") -> Rows:
    """The rows once ``changes`` were made to them, in which their tables have a ``prefix``."""
    after = {table: dict(held) for table, held in rows.items()}
    net = changes.to_json()
    for table, names in columns(layout).items():
        told = net.get(prefix + table)
        if told is None:
            continue
        width = len(told["key"])
        for row in told["removed"]:
            del after[table][tuple(row[name] for name in names[:width])]
        for change in told["changed"]:
            key = tuple(change["key"][name] for name in names[:width])
            held = dict(zip(names, after[table][key], strict=True)) | change["after"]
            after[table][key] = tuple(held[name] for name in names)
        for row in told["added"]:
            key = tuple(row[name] for name in names[:width])
            after[table][key] = tuple(row[name] for name in names)
    return after


Loose = dict[str, set[str]]
"""By table the columns whose values were drawn."""


def _loosen(part: _Part, start: Rows, after: Rows, end: Rows, loose: Loose) -> str:
    """Add the columns in which two ends of the same calls differ; or say why these are not the
    same. New rows whose keys were drawn are taken for one another in their order."""
    for table, names in columns(part.layout).items():
        mine, theirs = after[table], end[table]
        new = [
            [key for key in _in_order(names, rows) if key not in start[table] and key not in other]
            for rows, other in ((mine, theirs), (theirs, mine))
        ]
        gone = {key for key in start[table] if (key in mine) is not (key in theirs)}
        if gone or len(new[0]) != len(new[1]):
            return f"its calls end elsewhere: with other rows of {part.prefix}{table}"
        pairs = [(mine[a], theirs[b]) for a, b in zip(*new, strict=True)]
        pairs += [(row, theirs[key]) for key, row in mine.items() if key in theirs]
        for one, other in pairs:
            differing = {
                name for name, a, b in zip(names, one, other, strict=True) if name != AT and a != b
            }
            if differing and one in start[table].values():
                what = f"{part.prefix}{table}.{min(differing)}"
                return f"its calls end elsewhere: {what} is not changed by them"
            loose.setdefault(part.prefix + table, set()).update(differing)
    return ""


def _in_order(names: list[str], rows: Mapping[Any, Any]) -> list[Any]:
    at = names.index(AT) if AT in names else 0
    return sorted(rows, key=lambda key: (type(rows[key][at]).__name__, rows[key][at]))


def _expected(changes: Changeset, loose: Loose, unjudged: Collection[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for table, told in changes.to_json().items():
        if table in unjudged:
            continue
        free = {AT} | loose.get(table, set())
        for change in ("added", "removed"):
            for row in told[change]:
                fixed = row if change == "added" else {name: row[name] for name in told["key"]}
                where = {name: _is(v) for name, v in fixed.items() if name not in free}
                found.append({"table": table, "change": change, "where": where})
        for row in told["changed"]:
            values = {name: _is(v) for name, v in row["after"].items() if name not in free}
            also = sorted(free & row["after"].keys() - {AT})
            where = {name: _is(value) for name, value in row["key"].items()}
            entry: dict[str, Any] = {"table": table, "change": "changed", "where": where}
            if values:
                entry["set"] = values
            if also:
                entry["also"] = also
            if values or also:
                found.append(entry)
    return _counted(found)


def _counted(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries that say the same as one, with their number."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        alike.setdefault(json.dumps(entry), []).append(entry)
    return [
        same[0] if len(same) == 1 else {**same[0], "count": len(same)} for same in alike.values()
    ]


def _is(value: Any) -> dict[str, Any]:
    return {"null": True} if value is None else {"eq": value}


def _called(call: OracleCall) -> dict[str, Any]:
    plain: Mapping[str, Any] = {
        name: _is(value)
        for name, value in call.arguments.items()
        if not isinstance(value, dict | list) and "." not in name
    }
    entry: dict[str, Any] = {"tool": call.tool, "ended": call.expect_error or "ok"}
    return {**entry, "arguments": plain} if plain else entry

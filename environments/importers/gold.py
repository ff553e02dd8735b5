"""Tasks from calls that are known to solve them: tried out, and what they change is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from environments.documents import HIDDEN, Layout, Rows, decode, encode
from environments.documents.layout import AT
from environments.documents.mapping import columns
from environments.environment import Environment
from environments.episode import Episode
from environments.errors import InvalidArguments, UnknownTool
from environments.importers.trial import LONG
from environments.spec import OracleCall, Task
from snapshots import Changeset

UNJUDGED: Final[dict[str, Any]] = {"trace": [{"ended": "ok"}]}
"""The verifier of a task until it is known what its calls change."""


_NEVER_MADE: Final = frozenset({UnknownTool.code, InvalidArguments.code})


class Gold(msgspec.Struct, frozen=True, kw_only=True):
    """A task without its verifier, and the document it should end with, if that is known."""

    task: Task
    document: Any
    """What it begins with."""
    final: Any = None


async def judged(environment: Environment, layout: Layout, gold: Gold) -> Task | str:
    """The task with a verifier, or why its calls are no solution of it. It must be in the
    environment already, with any verifier."""
    episode = await Episode.start(environment, task=gold.task.id, horizon=LONG)
    oracle = []
    try:
        for call in gold.task.oracle:
            step = await episode.call(call.tool, call.arguments)
            if step.error is not None and (
                step.error.kind != "agent" or step.error.code in _NEVER_MADE
            ):
                return f"its call of {call.tool} fails: {step.error.message[:200]}"
            code = step.error.code if step.error is not None else None
            oracle.append(msgspec.structs.replace(call, expect_error=code))
        changes = episode.changes()
    finally:
        await episode.close()
    start = encode(layout, gold.document, encode(layout, environment_document(environment, layout)))
    loose = _loose(layout, start, changes, gold)
    if isinstance(loose, str):
        return loose
    expected = list(_expected(layout, changes, loose))
    verifier: dict[str, Any] = (
        {"expect": expected} if expected else {"trace": [_called(call) for call in oracle]}
    )
    return msgspec.structs.replace(gold.task, oracle=tuple(oracle), verifier=verifier)


def environment_document(environment: Environment, layout: Layout) -> Any:
    """What the pack's own document is, from its data files."""
    return decode(layout, pack_rows(environment, layout))


def pack_rows(environment: Environment, layout: Layout) -> Rows:
    names = columns(layout)
    rows: Rows = {table: {} for table in names}
    for batch in environment.pack.recipe().rows:
        width = 2 if names[batch.table][0] == "_in" else 1
        for row in batch.rows:
            rows[batch.table][row[:width]] = row
    return rows


def changed(layout: Layout, rows: Rows, changes: Changeset) -> Rows:
    """The rows once ``changes`` were made to them."""
    after = {table: dict(held) for table, held in rows.items()}
    told = changes.to_json()
    for table, names in columns(layout).items():
        if table not in told:
            continue
        width = len(told[table]["key"])
        for row in told[table]["removed"]:
            del after[table][tuple(row[name] for name in names[:width])]
        for change in told[table]["changed"]:
            key = tuple(change["key"][name] for name in names[:width])
            held = dict(zip(names, after[table][key], strict=True)) | change["after"]
            after[table][key] = tuple(held[name] for name in names)
        for row in told[table]["added"]:
            key = tuple(row[name] for name in names[:width])
            after[table][key] = tuple(row[name] for name in names)
    return after


Loose = dict[str, set[str]]


def _loose(layout: Layout, start: Rows, changes: Changeset, gold: Gold) -> Loose | str:
    """The columns, by table, whose values the original drew otherwise; or why it ended elsewhere
    altogether."""
    if gold.final is None:
        return {}
    after = changed(layout, start, changes)
    wanted = encode(layout, gold.final, after)
    loose: Loose = {}
    for table, names in columns(layout).items():
        if after[table].keys() != wanted[table].keys():
            return f"its calls end elsewhere than its final document: other rows of {table}"
        for key, row in wanted[table].items():
            for name, mine, theirs in zip(names, after[table][key], row, strict=True):
                if mine == theirs or name == AT:
                    continue
                if start[table].get(key) == after[table][key]:
                    return f"its calls end elsewhere: {table}.{name} is not changed by them"
                loose.setdefault(table, set()).add(name)
    return loose


def _expected(layout: Layout, changes: Changeset, loose: Loose) -> Sequence[dict[str, Any]]:
    found = []
    for table, told in changes.to_json().items():
        if table == HIDDEN:
            continue
        free = {AT} | loose.get(table, set())
        for change in ("added", "removed"):
            for row in told[change]:
                fixed = row if change == "added" else {name: row[name] for name in told["key"]}
                where = {name: _is(v) for name, v in fixed.items() if name not in free}
                found.append({"table": table, "change": change, "where": where})
        for row in told["changed"]:
            values = {name: _is(v) for name, v in row["after"].items() if name not in free}
            entry: dict[str, Any] = {
                "table": table,
                "change": "changed",
                "where": {name: _is(value) for name, value in row["key"].items()},
            }
            if values:
                entry["set"] = values
            if also := sorted(free & row["after"].keys() - {AT}):
                entry["also"] = also
            if values or also:
                found.append(entry)
    return found


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

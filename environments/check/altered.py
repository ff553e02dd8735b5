"""Oracles altered a little, and what that must do to the reward."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from difflib import SequenceMatcher
from typing import Any, Final

from environments.assertions import TableInfo
from environments.assertions.values import norm
from environments.check.report import Finding, finding
from environments.check.runs import SEED, Plan, Run, oracle_plan, play
from environments.environment import WAIT, Environment
from environments.spec import OracleCall, Task
from environments.verifier import Evidence, score_episode
from snapshots import Changeset

ALIKE: Final = 0.95
"""How similar two instructions may be (1 is equal) before they are reported."""


async def extra_reads(environment: Environment, runs: Sequence[Run]) -> Finding:
    """Each reading call twice, and every reading tool that needs no argument first: still 1."""
    bare = [
        OracleCall(tool=tool.name)
        for tool in environment.tools.values()
        if tool.read_only and not tool.input_schema.get("required")
    ]
    problems = []
    for run in runs:
        plan: list[tuple[int | None, OracleCall]] = [(None, call) for call in bare]
        for number, call in oracle_plan(run.task):
            plan.append((number, call))
            tool = environment.tools.get(call.tool)
            if tool is not None and tool.read_only and call.expect_error is None:
                plan.append((None, call))
        again = await play(environment, run.task, plan, run.task.answer)
        if again.value != 1.0:
            why = again.problem or again.reward.reason
            problems.append(f"task {run.task.id}: with further reads the oracle fails: {why}")
    return finding("further reads cost nothing", problems)


async def dropped_writes(environment: Environment, runs: Sequence[Run]) -> Finding:
    """Reported, not failed: a task may have a write that is only a courtesy."""
    problems = []
    for run in runs:
        for number, step in enumerate(run.steps):
            if not any(change.actor == "agent" for change in step.changes):
                continue
            plan: Plan = [(n, call) for n, call in oracle_plan(run.task) if n != number]
            without = await play(environment, run.task, plan, run.task.answer)
            if without.value == 1.0 and not without.problem:
                problems.append(
                    f"task {run.task.id}: scores 1 without oracle call {number} ({step.tool})"
                )
    return finding("every write matters", problems, hard=False)


async def stray_changes(environment: Environment, runs: Sequence[Run]) -> Finding:
    """One more changed row, in any table the task allows no change of, must cost the reward."""
    ignored = set(environment.pack.spec.changes.ignore_tables)
    strays = {
        table: stray
        for table, info in environment.tables.items()
        if table not in ignored and (stray := _stray(environment, table, info)) is not None
    }
    problems = []
    for run in runs:
        allowed = {entry.get("table") for entry in run.task.verifier.get("allow", ())}
        touched = run.changes.to_json()
        branch, moment = await environment.start(run.task, SEED)
        for table, entry in strays.items():
            if table in allowed or _touches(touched.get(table, {}), entry["key"]):
                continue
            extra = Changeset.from_json(
                {table: {"key": list(entry["key"]), "added": [], "removed": [], "changed": [entry]}}
            )
            evidence = Evidence(branch, moment, run.changes.concat(extra), run.task.answer)
            reward = await score_episode(environment.sandbox, environment.pack, run.task, evidence)
            if reward.value != 0.0:
                where = "/".join(str(value) for value in entry["key"].values())
                problems.append(
                    f"task {run.task.id}: a stray change of {table} {where} still scores "
                    f"{reward.value}"
                )
    return finding("stray changes cost the reward", problems, note=f"in {len(strays)} tables")


def _stray(environment: Environment, table: str, info: TableInfo) -> dict[str, Any] | None:
    """A change of the table's last row that nobody asked for, as an entry of a changeset."""
    unjudged = environment.pack.spec.changes.ignore_columns.get(table, ())
    if not info.key or not set(info.key) <= set(info.columns):
        return None
    with closing(_open(environment)) as connection:
        order = ", ".join(f'"{column}" DESC' for column in info.key)
        columns = ", ".join(f'"{column}"' for column in info.columns)
        found = connection.execute(
            f'SELECT {columns} FROM "{table}" ORDER BY {order} LIMIT 1'
        ).fetchone()
    if found is None:
        return None
    row = dict(zip(info.columns, found, strict=True))
    for column, value in row.items():
        if column in info.key or column in unjudged or isinstance(value, bytes):
            continue
        key = {name: row[name] for name in info.key}
        return {"key": key, "before": {column: value}, "after": {column: f"{value} (stray)"}}
    return None


def _open(environment: Environment) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{environment.snapshot.path}?immutable=1", uri=True)


def _touches(changes: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    entries = [entry["key"] for entry in changes.get("changed", ())]
    rows = [*entries, *changes.get("added", ()), *changes.get("removed", ())]
    return any(all(row.get(name) == value for name, value in key.items()) for row in rows)


# --- reported only ----------------------------------------------------------------------------


def coverage(environment: Environment, runs: Sequence[Run]) -> Finding:
    """Which tools no oracle calls and which tables none of them changes."""
    called = {step.tool for run in runs for step in run.steps}
    changed = {table for run in runs for table in run.changes.tables}
    tools = [name for name in environment.tools if name not in called and name != WAIT]
    tables = [name for name in environment.tables if name not in changed]
    problems = [f"tools no oracle calls: {', '.join(tools)}"] if tools else []
    note = f"all {len(called)} tools; {len(changed)} of {len(environment.tables)} tables change"
    if tools and tables:
        problems.append(f"tables no oracle changes: {', '.join(tables)}")
    return finding("oracles cover the tools", problems, note=note, hard=False)


def alike(tasks: Sequence[Task]) -> Finding:
    """Tasks that say nearly the same."""
    return finding("tasks differ", list(_alike(tasks)), note=f"{len(tasks)} tasks", hard=False)


def _alike(tasks: Sequence[Task]) -> Iterator[str]:
    if not tasks:
        yield "there are no tasks"
    texts = [norm(task.instruction) for task in tasks]
    for index, text in enumerate(texts):
        matcher = SequenceMatcher(b=text, autojunk=False)
        for earlier in range(max(0, index - 200), index):
            matcher.set_seq1(texts[earlier])
            if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
                continue
            if matcher.ratio() >= ALIKE:
                yield f"tasks {tasks[earlier].id} and {tasks[index].id} read alike"

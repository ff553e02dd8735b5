"""What an environment is made of, and what the gate found; told alike by all ways of making one."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from environments.check.gate import try_gates
from environments.check.report import CheckReport, Finding
from environments.environment import WAIT, Environment
from environments.sandbox.host import Sandbox
from environments.spec import Task
from environments.synthesis.erased import erased_tables, erased_tools
from environments.synthesis.walk import shape_of
from environments.trajectory import Record
from snapshots import SnapshotStore
from snapshots.shapes import quoted

_TASK: Final = re.compile(r"task (\S+?)[: ]")
"""How a finding names the task it is of."""
_MOST_DETAIL: Final = 400
"""Characters of what a gate says."""


class Makeup(Record, frozen=True, kw_only=True):
    """What an environment is made of."""

    tables: int = 0
    tools: int = 0
    rows: int = 0
    """In its initial database."""
    tasks: int = 0
    difficulties: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many of its tasks have which difficulty."""
    tools_called: int = 0
    """How many tools some oracle calls."""
    tables_changed: int = 0
    """How many tables some oracle changes."""
    gates: tuple[Finding, ...] = ()
    """What each gate found, cut short."""
    shapes: tuple[str, ...] = ()
    """Of each task's oracle."""
    instructions: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    """The tables and the tools with all names erased."""


async def gate_report(folder: Path, store: SnapshotStore, sandbox: Sandbox) -> CheckReport:
    """What the gate says of the pack in ``folder``. Where it fails and a worker ran out of time
    meanwhile, it is tried once more: on a busy machine that happens to what is sound.

    Raises ``InfrastructureFault``.
    """
    before = sandbox.statistics().ends.get("deadline", 0)
    report = await try_gates(folder, store, sandbox)
    if report.passed or sandbox.statistics().ends.get("deadline", 0) == before:
        return report
    return await try_gates(folder, store, sandbox)


def at_fault(failed: Iterable[Finding]) -> Iterator[tuple[str, str]]:
    """The tasks that findings name, each with what is said of it."""
    for finding in failed:
        for line in finding.detail.splitlines():
            if found := _TASK.match(line):
                yield found[1], f"{finding.name}: {line}"


def makeup_of(environment: Environment, tasks: Sequence[Task], report: CheckReport) -> Makeup:
    """Of an environment that was checked with these tasks, whether or not it is opened with them.
    Plays nothing: the gate has."""
    tools = [tool for tool in environment.tools.values() if tool.name != WAIT]
    tables = {table: info.columns for table, info in environment.tables.items()}
    with closing(sqlite3.connect(environment.snapshot.uri, uri=True)) as database:
        rows = _count(database, tables)
        schema = erased_tables(database, tables)
    return Makeup(
        tables=len(tables),
        tools=len(tools),
        rows=rows,
        tasks=len(tasks),
        difficulties=dict(Counter(task.difficulty for task in tasks)),
        tools_called=len({*report.tools_called} - {WAIT}),
        tables_changed=len(report.tables_changed),
        gates=tuple(
            msgspec.structs.replace(one, detail=_brief(one.detail)) for one in report.findings
        ),
        shapes=tuple(shape_of(task.oracle) for task in tasks),
        instructions=tuple(task.instruction for task in tasks),
        schema=schema,
        signatures=erased_tools(tools),
    )


def _count(database: sqlite3.Connection, tables: Mapping[str, object]) -> int:
    sql = "SELECT count(*) FROM {}"
    return sum(database.execute(sql.format(quoted(one))).fetchone()[0] for one in tables)


def _brief(detail: str) -> str:
    return detail if len(detail) <= _MOST_DETAIL else f"{detail[:_MOST_DETAIL]} ..."

"""How good a pack is in three respects, measured by execution where that can be, and graded by a
judge where it cannot; the two are told apart.

The respects are those AWM grades its environments by. Feasibility: can the tasks be done? Data
alignment: is what the tasks speak of there? Toolset completeness: do the tools do what is needed?
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final, Literal

import msgspec

from environments.check.loading import load
from environments.check.oracles import judge_oracles
from environments.check.probing import Probe, broken_tools, probe
from environments.check.randomly import Pools, known_values
from environments.check.report import Finding
from environments.check.runs import Run, oracle_plan, play, side_by_side
from environments.environment import WAIT, Environment
from environments.errors import InfrastructureFault
from environments.llm import ChatMessage, Usage
from environments.sandbox.host import Sandbox
from environments.trajectory import Record
from environments.verifier.judge import Judge
from snapshots import SnapshotStore

Respect = Literal["task_feasibility", "data_alignment", "toolset_completeness"]
RESPECTS: Final[tuple[Respect, ...]] = (
    "task_feasibility", "data_alignment", "toolset_completeness"
)  # fmt: skip

_PROMPTS: Final = Path(__file__).parents[1] / "verifier" / "prompts"
_SAMPLE_ROWS: Final = 3
_MAX_TASKS: Final = 60
_REFERENCE: Final = re.compile(r"\b[A-Z]{1,5}-(?=[A-Z-]*\d)[A-Z0-9]+(?:-[A-Z0-9]+)*\b")
"""Ids as instructions write them: INC-47584, PR-26-0164."""


class Grade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    grade: Annotated[int, msgspec.Meta(ge=1, le=5)]


class Review(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the judge must answer."""

    task_feasibility: Grade
    data_alignment: Grade
    toolset_completeness: Grade
    problems: tuple[str, ...] = ()


class Measured(Record, frozen=True, kw_only=True):
    """``good`` of ``of`` things hold, as was found by running them."""

    what: str
    good: int
    of: int
    problems: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        return self.good / self.of if self.of else None


class QualityReport(Record, frozen=True, kw_only=True):
    """``measured`` by execution, ``review`` by the judge; ``unreviewed`` says why there is none."""

    path: str
    environment: str
    digest: str
    measured: dict[Respect, Measured]
    review: Review | None = None
    model: str = ""
    usage: Usage = Usage()
    unreviewed: str = ""


async def assess(
    path: Path, store: SnapshotStore, sandbox: Sandbox, judge: Judge | None = None
) -> QualityReport:
    """Measure the pack in folder ``path``, and have it graded if there is a ``judge``.

    A pack that cannot be opened has nothing measured. Raises ``InfrastructureFault``, but not for
    a judge that cannot answer.
    """
    findings: list[Finding] = []
    environment = await load(path, store, sandbox, findings, judge)
    if environment is None:
        why = next(found.detail for found in findings if not found.passed)
        return QualityReport(
            path=str(path), environment=path.name, digest="", measured={}, unreviewed=why
        )
    tasks = list(environment.pack.tasks.values())
    runs = await side_by_side(
        tasks, lambda task: play(environment, task, oracle_plan(task), task.answer)
    )
    sound = judge_oracles(runs, environment, findings)
    probes = [
        *await probe(environment, sound),
        *(Probe(step) for run in runs for step in run.steps),
    ]
    report = QualityReport(
        path=str(path),
        environment=environment.name,
        digest=environment.digest,
        measured={
            "task_feasibility": _feasible(runs, sound, findings),
            "data_alignment": _aligned(environment, runs),
            "toolset_completeness": _working(environment, runs, probes),
        },
        unreviewed="" if judge else "no judge is set",
    )
    return await _reviewed(report, environment, judge) if judge else report


# --- by execution -----------------------------------------------------------------------------


def _feasible(runs: Sequence[Run], sound: Sequence[Run], findings: Sequence[Finding]) -> Measured:
    problems = [line for found in findings if not found.passed for line in found.detail.split("\n")]
    return Measured(
        what="tasks whose oracle scores 1 within the steps they have",
        good=len(sound),
        of=len(runs),
        problems=tuple(problems),
    )


def _aligned(environment: Environment, runs: Sequence[Run]) -> Measured:
    """Ids must be in the data: those that instructions write, and those that oracles call with."""
    pools = known_values(environment, most=None)
    known = {str(value) for values in pools.values() for value in values}
    problems = [
        f"task {run.task.id}: not in the data: {', '.join(missing)}"
        for run in runs
        if (missing := sorted(set(_dangling(run, pools, known))))
    ]
    return Measured(
        what="tasks that speak only of ids that are there",
        good=len(runs) - len(problems),
        of=len(runs),
        problems=tuple(problems),
    )


def _dangling(run: Run, pools: Pools, known: set[str]) -> Iterator[str]:
    wanted = msgspec.json.encode((run.task.verifier, run.task.oracle, run.task.initial)).decode()
    for reference in _REFERENCE.findall(run.task.instruction):
        if reference not in known and reference not in wanted:
            yield reference
    seen = msgspec.json.encode([run.task.initial]).decode()
    for call, step in zip(run.task.oracle, run.steps, strict=False):
        for name, value in call.arguments.items():
            is_id = name.endswith("id") and name in pools and isinstance(value, str)
            if not is_id or call.expect_error is not None or value.startswith("${"):
                continue
            if value not in known and value not in seen:
                yield value
        seen += msgspec.json.encode([step.result, step.changes]).decode()


def _working(environment: Environment, runs: Sequence[Run], probes: Sequence[Probe]) -> Measured:
    called = {step.tool for run in runs for step in run.steps if step.error is None}
    broken = broken_tools(probes)
    tools = [name for name in environment.tools if name != WAIT]
    problems = [f"{name} breaks" for name in tools if name in broken]
    problems += [f"{name} is called by no oracle" for name in tools if name not in called | broken]
    return Measured(
        what="tools that an oracle calls with success and that nothing breaks",
        good=sum(name in called and name not in broken for name in tools),
        of=len(tools),
        problems=tuple(problems),
    )


# --- by the judge -----------------------------------------------------------------------------


async def _reviewed(report: QualityReport, environment: Environment, judge: Judge) -> QualityReport:
    try:
        given = await judge.opinion(_prompt(report, environment), Review)
    except InfrastructureFault as error:
        return msgspec.structs.replace(report, unreviewed=str(error))
    return msgspec.structs.replace(
        report,
        review=given.opinion,
        model=judge.llm.endpoint.model,
        usage=Usage() if given.cached else given.usage,
    )


def _prompt(report: QualityReport, environment: Environment) -> list[ChatMessage]:
    pack = environment.pack
    spec = pack.spec
    tools = [
        {"name": tool.name, "description": tool.description, "arguments": tool.input_schema}
        for tool in environment.tools.values()
    ]
    tasks = [
        {
            "id": task.id,
            "instruction": task.instruction,
            "calls": [call.tool for call in task.oracle],
        }
        for task in list(pack.tasks.values())[:_MAX_TASKS]
    ]
    text = Template((_PROMPTS / "quality.case.txt").read_text(encoding="utf-8")).substitute(
        environment=_json({"name": spec.name, "title": spec.title, "summary": spec.summary}),
        policy=pack.policy.strip() or "None.",
        tools="\n".join(map(_json, tools)),
        tables="\n".join(map(_json, _tables(environment))),
        tasks="\n".join(map(_json, tasks)),
        measured=_json(report.measured),
    )
    system = (_PROMPTS / "quality.system.txt").read_text(encoding="utf-8")
    return [ChatMessage("system", system), ChatMessage("user", text)]


def _tables(environment: Environment) -> Iterator[dict[str, Any]]:
    with closing(sqlite3.connect(environment.snapshot.uri, uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode(errors="replace")[:80]
        for table, info in environment.tables.items():
            quoted = table.replace('"', '""')
            (count,) = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()
            rows = connection.execute(f'SELECT * FROM "{quoted}" LIMIT {_SAMPLE_ROWS}').fetchall()
            shown = [
                ["(blob)" if isinstance(cell, bytes) else cell for cell in row] for row in rows
            ]
            yield {"table": table, "columns": info.columns, "count": count, "rows": shown}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

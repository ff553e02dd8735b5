"""The gates, in order: those that read, those that play, those that alter what is played."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from environments.check.altered import alike, coverage, dropped_writes, extra_reads, stray_changes
from environments.check.loading import load
from environments.check.probing import Probe, judge, probe
from environments.check.report import CheckReport, Finding, finding
from environments.check.runs import Run, first_difference, oracle_plan, play
from environments.environment import WAIT, Environment
from environments.episode import Episode
from environments.sandbox.host import Description, Sandbox, SandboxLimits
from environments.spec import Task
from snapshots import SnapshotStore


async def check_pack(path: Path) -> CheckReport:
    """Try every gate on the pack in folder ``path``, with workers of its own.

    A pack at fault is a failed finding, never an exception. Raises ``InfrastructureFault``.
    """
    started = time.perf_counter()
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="envhub-check-") as scratch:
        store = SnapshotStore(Path(scratch) / "snapshots")
        async with Sandbox(SandboxLimits()) as sandbox:
            environment = await load(path, store, sandbox, findings)
            if environment is not None:
                await _play_gates(environment, findings)
    return CheckReport(
        path=path,
        environment=environment.name if environment else path.name,
        digest=environment.digest if environment else "",
        findings=tuple(findings),
        seconds=round(time.perf_counter() - started, 3),
    )


async def _play_gates(environment: Environment, findings: list[Finding]) -> None:
    tasks = list(environment.pack.tasks.values())
    runs = [await play(environment, task, oracle_plan(task), task.answer) for task in tasks]
    sound = _judge_oracles(runs, environment, findings)
    if tasks:
        findings.append(await _doing_nothing(environment, tasks))
    if sound:
        findings.append(await _replays(environment, sound))
        findings.append(await extra_reads(environment, sound))
        findings.append(await stray_changes(environment, sound))
        findings.append(await dropped_writes(environment, sound))
    tried = await probe(environment, sound)
    steps = [step for run in runs for step in run.steps]
    findings.extend(judge(environment, [*tried, *map(Probe, steps)]))
    findings.append(coverage(environment, runs))
    findings.append(alike(tasks))


def _judge_oracles(
    runs: Sequence[Run], environment: Environment, findings: list[Finding]
) -> list[Run]:
    """The runs whose oracle does what it should; only they can be altered with any meaning."""
    limit = environment.pack.spec.limits.max_steps
    problems: list[str] = []
    unpaid: list[str] = []
    sound = []
    for run in runs:
        faults = list(_oracle_faults(run, run.task.max_steps or limit))
        problems.extend(f"task {run.task.id}: {fault}" for fault in faults)
        if run.value is None:
            unpaid.append(f"task {run.task.id}: {run.reward.reason}")
        elif run.value != 1.0:
            unpaid.append(f"task {run.task.id} scored {run.value:g}: {run.reward.reason}")
        elif not faults:
            sound.append(run)
    calls = sum(len(run.steps) for run in runs)
    findings.append(
        finding("oracle calls succeed", problems, note=f"{calls} calls of {len(runs)} tasks")
    )
    findings.append(finding("the oracle scores 1", unpaid))
    return sound


def _oracle_faults(run: Run, max_steps: int) -> list[str]:
    faults = [] if run.task.oracle else ["has no oracle"]
    if len(run.task.oracle) > max_steps:
        faults.append(f"its oracle takes {len(run.task.oracle)} steps of {max_steps}")
    for number, (call, step) in enumerate(zip(run.task.oracle, run.steps, strict=False)):
        code = step.error.code if step.error else None
        if code == call.expect_error:
            continue
        answered = f"{code}: {step.error.message}" if step.error else "no error"
        wanted = f", expected {call.expect_error}" if call.expect_error else ""
        faults.append(f"oracle call {number} ({call.tool}) answered {answered}{wanted}")
    if run.problem:
        faults.append(f"oracle call {len(run.steps)}: {run.problem}")
    return faults


async def _doing_nothing(environment: Environment, tasks: Sequence[Task]) -> Finding:
    problems = []
    for task in tasks:
        episode = await Episode.start(environment, task=task.id)
        for answer in (None, ""):
            reward = await episode.score(answer, "fraction")
            if reward.value != 0.0:
                earned = "was not scored" if reward.value is None else f"scores {reward.value:g}"
                problems.append(f"task {task.id}: doing nothing {earned}; {reward.reason}")
                break
        await episode.close()
    return finding("doing nothing scores 0", problems)


async def _replays(environment: Environment, runs: Sequence[Run]) -> Finding:
    problems = []
    async with _fresh_workers(environment) as fresh:
        for run in runs:
            for where, place in (("a used worker", environment), ("a fresh worker", fresh)):
                again = await play(place, run.task, oracle_plan(run.task), run.task.answer)
                for number, (one, other) in enumerate(
                    zip(run.record(), again.record(), strict=False)
                ):
                    if different := first_difference(one, other):
                        problems.append(
                            f"task {run.task.id}: call {number} ({run.steps[number].tool}) goes "
                            f"otherwise in {where}: {different}"
                        )
                        break
    return finding("replay is identical", problems, note="in a used and in a fresh worker")


@asynccontextmanager
async def _fresh_workers(environment: Environment) -> AsyncIterator[Environment]:
    """The same environment in a sandbox that takes a new worker for every episode."""
    spec = msgspec.structs.replace(environment.pack.spec, isolation="episode")
    pack = replace(environment.pack, spec=spec)
    async with Sandbox(SandboxLimits()) as sandbox:
        declared = dict(environment.tools)
        if pack.events:
            del declared[WAIT]
        description = Description(tools=tuple(declared.values()), tables=dict(environment.tables))
        yield Environment(pack, environment.snapshot, description, sandbox)

"""The gates, in order: those that read, those that play, those that alter what is played."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from environments.check.altered import dropped_writes, extra_reads
from environments.check.loading import load
from environments.check.noted import alike, coverage
from environments.check.oracles import doing_nothing, judge_oracles, replays
from environments.check.probing import Probe, broken_tools, judge, probe
from environments.check.randomly import random_runs, replays_at_random
from environments.check.report import CheckReport, Finding
from environments.check.runs import (
    Run,
    oracle_plan,
    play,
    require_scored,
    side_by_side,
    tables_changed,
    tools_called,
)
from environments.check.strays import stray_changes
from environments.environment import Environment
from environments.sandbox.host import Sandbox
from environments.verifier.judge import Judge
from snapshots import SnapshotStore

GATES = 18
"""How many findings a pack has that goes through all of them."""

Told = Callable[[Finding], None]


class Findings(list[Finding]):
    """Findings in the order of the gates; ``told`` hears of each as it comes."""

    def __init__(self, told: Told | None = None) -> None:
        super().__init__()
        self._told = told

    def append(self, item: Finding) -> None:
        super().append(item)
        if self._told is not None:
            self._told(item)


async def try_gates(
    path: Path,
    store: SnapshotStore,
    sandbox: Sandbox,
    judge: Judge | None = None,
    told: Told | None = None,
) -> CheckReport:
    """Try every gate on the pack in folder ``path``.

    A pack at fault is a failed finding, never an exception. Raises ``InfrastructureFault``.
    """
    started = time.perf_counter()
    findings = Findings(told)
    environment = await load(path, store, sandbox, findings, judge)
    runs: Sequence[Run] = ()
    if environment is not None:
        runs = await _play(environment, findings)
    return CheckReport(
        path=path,
        environment=environment.name if environment else path.name,
        digest=environment.digest if environment else "",
        findings=tuple(findings),
        seconds=round(time.perf_counter() - started, 3),
        tools_called=tuple(sorted(tools_called(runs))),
        tables_changed=tuple(sorted(tables_changed(runs))),
    )


async def _play(environment: Environment, findings: Findings) -> Sequence[Run]:
    """The runs of the oracles as they stand."""
    tasks = list(environment.pack.tasks.values())
    runs = await side_by_side(
        tasks, lambda task: play(environment, task, oracle_plan(task), task.answer)
    )
    for run in runs:
        require_scored(run.reward)
    sound = judge_oracles(runs, environment, findings)
    tried = await probe(environment, sound)
    steps = [step for run in runs for step in run.steps]
    calls = [*tried, *map(Probe, steps)]
    for found in judge(environment, calls):
        findings.append(found)
    broken = broken_tools(calls)
    gates: list[Callable[[], Awaitable[Finding]]] = []
    if tasks:
        gates.append(lambda: doing_nothing(environment, tasks))
        gates.append(lambda: random_runs(environment, tasks, broken))
    if sound:
        gates.append(lambda: replays(environment, sound))
        gates.append(lambda: extra_reads(environment, sound, broken))
        gates.append(lambda: stray_changes(environment, sound))
        gates.append(lambda: dropped_writes(environment, sound))
    elif environment.pack.imported:
        gates.append(lambda: replays_at_random(environment, broken))
    for gate in gates:
        findings.append(await gate())
    findings.append(coverage(environment, runs))
    findings.append(alike(tasks))
    return runs

"""A lint for reward hacks: ways to be paid that are not the task.

An answer that anybody could give, or that lists everything; the work of another task; a task that
only reads and asks for no answer, so that reading nothing would do.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from environments.check.loading import load
from environments.check.oracles import judge_oracles
from environments.check.randomly import Pools, known_values
from environments.check.report import CheckReport, Finding, finding
from environments.check.runs import Run, judged_as, oracle_plan, play, require_scored, side_by_side
from environments.environment import Environment
from environments.sandbox.host import Sandbox
from environments.spec import Task
from environments.verifier.judge import Judge
from snapshots import SnapshotStore

CONSTANTS: Final = (
    "yes", "no", "true", "false", "none", "nothing", "unknown", "n/a", "-", "0", "1", "100",
    "done", "I have completed the task.", "It is not possible.",
)  # fmt: skip
"""What a policy that has learned nothing of the world may say."""
_LISTED_CHARACTERS: Final = 100_000
_MAX_PAIRS: Final = 20_000


async def lint(
    path: Path, store: SnapshotStore, sandbox: Sandbox, judge: Judge | None = None
) -> CheckReport:
    """Look for reward hacks in the tasks of the pack in folder ``path`` whose oracles score 1.

    A pack at fault is a failed finding, never an exception. Raises ``InfrastructureFault``.
    """
    started = time.perf_counter()
    findings: list[Finding] = []
    environment = await load(path, store, sandbox, findings, judge)
    if environment is not None:
        tasks = list(environment.pack.tasks.values())
        runs = await side_by_side(
            tasks, lambda task: play(environment, task, oracle_plan(task), task.answer)
        )
        for run in runs:
            require_scored(run.reward)
        sound = judge_oracles(runs, environment, findings)
        findings.append(await constant_answers(environment, sound))
        findings.append(await others_work(environment, sound))
        findings.append(reading_without_answer(sound))
    return CheckReport(
        path=path,
        environment=environment.name if environment else path.name,
        digest=environment.digest if environment else "",
        findings=tuple(findings),
        seconds=round(time.perf_counter() - started, 3),
    )


async def constant_answers(environment: Environment, runs: Sequence[Run]) -> Finding:
    """No answer that can be given without looking passes, once the rest of a task is done."""
    asking = [run for run in runs if asks_for_answer(run.task.verifier)]
    everything = _everything(known_values(environment))
    given = [run.task.answer for run in asking if run.task.answer is not None]
    answers = list(dict.fromkeys(given))

    async def problems(run: Run) -> list[str]:
        found = []
        for what, answer in _answers(run.task, answers, everything):
            attempt = replace(run.attempt, answer=answer)
            reward = await judged_as(environment, run.task, attempt)
            if reward.value == 1.0:
                found.append(f"task {run.task.id} is passed by {what}")
        return found

    listed = await side_by_side(asking, problems)
    note = f"{len(asking)} tasks ask for an answer"
    return finding("no constant answer passes", list(itertools.chain(*listed)), note=note)


def _answers(task: Task, answers: Sequence[str], everything: str) -> Iterator[tuple[str, str]]:
    for constant in CONSTANTS:
        yield f"the answer {constant!r}", constant
    yield "its own instruction", task.instruction
    yield "an answer that lists all values of the database", everything
    if len(answers) > 1:
        yield "an answer that lists the answers of all tasks", ", ".join(answers)
    yield "an answer of all numbers up to 100", " ".join(map(str, range(101)))


def _everything(pools: Pools) -> str:
    values = dict.fromkeys(str(value) for values in pools.values() for value in values)
    return ", ".join(values)[:_LISTED_CHARACTERS]


async def others_work(environment: Environment, runs: Sequence[Run]) -> Finding:
    """No task is passed by what the oracle of another one does and answers."""
    pairs = [
        (run, other)
        for run in runs
        for other in runs
        if other is not run and other.task.initial == run.task.initial and _could_pass(run, other)
    ]

    async def problem(pair: tuple[Run, Run]) -> str:
        run, other = pair
        reward = await judged_as(environment, run.task, other.attempt)
        if reward.value != 1.0:
            return ""
        return f"task {run.task.id} is passed by the oracle of task {other.task.id}"

    problems = [found for found in await side_by_side(pairs[:_MAX_PAIRS], problem) if found]
    note = f"{len(runs)} tasks, {min(len(pairs), _MAX_PAIRS)} pairs worth a try"
    return finding("no task is passed by another's work", problems, note=note)


def _could_pass(run: Run, other: Run) -> bool:
    """Whether the other's oracle changed any of the same tables, or neither of them anything."""
    mine, others = set(run.changes.tables), set(other.changes.tables)
    return bool(mine & others) or mine == others


def reading_without_answer(runs: Sequence[Run]) -> Finding:
    """A task whose oracle changes nothing is about finding something out: it must be told."""
    reading = [run for run in runs if not run.changes]
    problems = [
        f"task {run.task.id}: its oracle only reads, and no answer is asked for"
        for run in reading
        if not asks_for_answer(run.task.verifier)
    ]
    note = f"{len(reading)} of {len(runs)} tasks only read"
    return finding("reading tasks ask for an answer", problems, note=note)


def asks_for_answer(verifier: Mapping[str, Any]) -> bool:
    """Whether some way to pass asks for a final answer; code and judges may."""
    if {"answer", "code", "judge"} & verifier.keys():
        return True
    groups = [*verifier.get("all_of", ()), *verifier.get("any_of", ())]
    return any(asks_for_answer(group) for group in groups)

"""The gates on oracles as they stand: they work, they pay, and they give the same again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from environments.check.report import Finding, finding
from environments.check.runs import Run, oracle_plan, play, side_by_side
from environments.environment import Environment
from environments.episode import Episode
from environments.replay import first_difference
from environments.spec import Task
from environments.verifier import RewardMode

_MODES: Final[tuple[RewardMode | None, ...]] = (None, "fraction")
"""As the task declares its reward; and by parts, none of which may come for nothing."""


def judge_oracles(
    runs: Sequence[Run], environment: Environment, findings: list[Finding]
) -> list[Run]:
    """The runs whose oracle does what it should; only they can be altered with any meaning.

    That a task of others has no oracle is noted, and fails nothing."""
    without = [run.task.id for run in runs if not run.task.oracle]
    if environment.pack.imported:
        runs = [run for run in runs if run.task.oracle]
        said = [f"nobody knows that it can be solved: task {name}" for name in without]
        findings.append(finding("tasks have an oracle", said, hard=False))
    limit = environment.pack.spec.limits.max_steps
    problems: list[str] = []
    unpaid: list[str] = []
    sound = []
    for run in runs:
        faults = list(_faults(run, run.task.max_steps or limit))
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


def _faults(run: Run, max_steps: int) -> Iterator[str]:
    if not run.task.oracle:
        yield "has no oracle"
    if len(run.task.oracle) > max_steps:
        yield f"its oracle takes {len(run.task.oracle)} steps of {max_steps}"
    for number, (call, step) in enumerate(zip(run.task.oracle, run.steps, strict=False)):
        code = step.error.code if step.error else None
        if code != call.expect_error:
            answered = f"{code}: {step.error.message}" if step.error else "no error"
            wanted = f", expected {call.expect_error}" if call.expect_error else ""
            yield f"oracle call {number} ({call.tool}) answered {answered}{wanted}"
    if run.problem:
        yield f"oracle call {len(run.steps)}: {run.problem}"


async def doing_nothing(environment: Environment, tasks: Sequence[Task]) -> Finding:
    """No call, with an empty answer and without any: 0, and no part of the reward either."""

    async def earned(task: Task) -> str:
        episode = await Episode.start(environment, task=task.id)
        for answer in (None, ""):
            for mode in _MODES:
                reward = await episode.score(answer, mode)
                if reward.value is None:
                    return f"task {task.id}: doing nothing was not scored; {reward.reason}"
                if reward.value > 0:
                    return f"task {task.id}: doing nothing scores {reward.value:g}; {reward.reason}"
        return ""

    problems = await side_by_side(tasks, earned)
    hard = not environment.pack.imported
    return finding("doing nothing scores 0", [each for each in problems if each], hard=hard)


async def replays(environment: Environment, runs: Sequence[Run]) -> Finding:
    """Every oracle again, backwards through the tasks so that its worker has another past; and
    enough of them to meet every tool they call in workers that have none."""
    fresh = environment.isolated()
    chosen = _covering(runs)
    again = [(run, "a used worker", environment) for run in reversed(runs)]
    again += [(run, "a fresh worker", fresh) for run in chosen]

    async def differs(item: tuple[Run, str, Environment]) -> str:
        run, where, place = item
        other = await play(place, run.task, oracle_plan(run.task), run.task.answer)
        for number, (one, two) in enumerate(zip(run.record(), other.record(), strict=False)):
            if different := first_difference(one, two):
                tool = run.steps[number].tool
                return (
                    f"task {run.task.id}: call {number} ({tool}) goes otherwise in {where}: "
                    f"{different}"
                )
        return ""

    problems = [problem for problem in await side_by_side(again, differs) if problem]
    note = f"{len(runs)} in used workers, {len(chosen)} in fresh ones"
    return finding("replay is identical", problems, note=note)


def _covering(runs: Sequence[Run]) -> list[Run]:
    """Few runs that call every tool which all of them call."""
    chosen: list[Run] = []
    left = {step.tool for run in runs for step in run.steps}
    while left:
        best = max(runs, key=lambda run: len(left & {step.tool for step in run.steps}))
        chosen.append(best)
        left -= {step.tool for step in best.steps}
    return chosen

"""Whether a verifier means what its oracle did: held against the oracle, and against runs that did
a little less, a little more, nothing, or anything.

The gate asks this again of the pack as it ends, whose tools or verifiers may be others by then.
Here it costs a repair or a walk, there the task.
"""

from __future__ import annotations

from environments.check.altered import dropped_writes, extra_reads
from environments.check.oracles import doing_nothing
from environments.check.randomly import random_runs
from environments.check.report import Finding
from environments.check.runs import Run, oracle_plan, play, require_scored
from environments.check.strays import stray_changes
from environments.environment import Environment
from environments.episode import Episode
from environments.oracle import play_oracle
from environments.spec import Task
from environments.synthesis.construct import LATER_SECONDS, SEEDS


async def held(environment: Environment, task: Task) -> list[str]:
    """What is wrong with a task's verifier, held against its oracle as it stands and altered.

    Raises what ``Episode.start`` does, and ``InfrastructureFault`` where nobody could score a run
    for no fault of the task's.
    """
    run = await play(environment, task, oracle_plan(task), task.answer)
    require_scored(run.reward)
    if run.value != 1.0:
        return [f"the oracle scores {run.value}: {run.reward.reason}"]
    if problem := await _elsewhere(environment, task):
        return [problem]
    return [
        line
        for found in await _altered(environment, run)
        if not found.passed
        for line in found.detail.splitlines()
    ]


async def _elsewhere(environment: Environment, task: Task) -> str:
    """Whether the oracle passes under another seed and later, when ids and times are others."""
    later = environment.later(LATER_SECONDS)
    episode = await Episode.start(later, task=task.id, seed=SEEDS[1], horizon=len(task.oracle) + 1)
    run = await play_oracle(episode)
    reward = await episode.score(run.answer)
    await episode.close()
    require_scored(reward)
    if reward.value == 1.0:
        return ""
    return f"with other ids and a later clock the oracle scores {reward.value}: {reward.reason}"


async def _altered(environment: Environment, run: Run) -> list[Finding]:
    runs = [run]
    return [
        await doing_nothing(environment, [run.task]),
        await dropped_writes(environment, runs),
        await extra_reads(environment, runs),
        await stray_changes(environment, runs),
        await random_runs(environment, [run.task]),
    ]

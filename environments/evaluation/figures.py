"""What runs say of a policy: how often it passes, how sure that is, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, variance
from typing import Final

from environments.advantages import pass_at
from environments.evaluation.runs import cost_of
from environments.llm import Usage
from environments.trajectory import Record, Trajectory
from environments.verifier import is_malformed

Z: Final = 1.959963984540054
"""The normal quantile of a two-sided interval of 95 %."""


class Estimate(Record, frozen=True, kw_only=True):
    """A share, and the 95 % interval it lies in."""

    value: float
    low: float
    high: float


class TaskFigures(Record, frozen=True, kw_only=True):
    """One task."""

    environment: str
    task: str
    tries: int
    passed: int
    reward: float
    steps: float


class Figures(Record, frozen=True, kw_only=True):
    """Some tasks together. ``pass_at`` is estimated for k = 1 and for as many tries as all had."""

    name: str
    tasks: int
    runs: int
    pass_at: dict[int, Estimate]
    reward: float
    steps: float
    malformed: float
    """Malformed calls a run."""
    truncated: int
    """Runs that their horizon ended."""
    usage: Usage
    seconds: float
    price: float | None = None
    """What it cost, if prices were given."""


class Prices(Record, frozen=True, kw_only=True):
    """What a million tokens cost."""

    prompt: float
    completion: float

    def of(self, usage: Usage) -> float:
        millions = usage.prompt_tokens * self.prompt + usage.completion_tokens * self.completion
        return round(millions / 1e6, 6)


def by_task(runs: Iterable[Trajectory]) -> list[TaskFigures]:
    """The figures of each task, in the order in which tasks come first."""
    return [
        TaskFigures(
            environment=environment,
            task=task,
            tries=len(tries),
            passed=sum(map(passes, tries)),
            reward=round(fmean(map(_reward, tries)), 6),
            steps=round(fmean(len(run.steps) for run in tries), 3),
        )
        for (environment, task), tries in _grouped(runs).items()
    ]


def figures_of(name: str, runs: Sequence[Trajectory], prices: Prices | None = None) -> Figures:
    """The figures of ``runs``, of which there must be some."""
    tasks = list(_grouped(runs).values())
    tries = min(map(len, tasks))
    costs = [cost_of(run) for run in runs]
    usage = sum((cost.usage for cost in costs), Usage())
    return Figures(
        name=name,
        tasks=len(tasks),
        runs=len(runs),
        pass_at={
            k: estimate([pass_at(k, len(each), sum(map(passes, each))) for each in tasks])
            for k in sorted({1, tries})
        },
        reward=round(fmean(map(_reward, runs)), 6),
        steps=round(fmean(len(run.steps) for run in runs), 3),
        malformed=round(fmean(sum(map(is_malformed, run.steps)) for run in runs), 3),
        truncated=sum(run.truncated for run in runs),
        usage=usage,
        seconds=round(sum(cost.seconds for cost in costs), 3),
        price=None if prices is None else prices.of(usage),
    )


def passes(run: Trajectory) -> bool:
    """Whether the run did all that its task asks."""
    return run.reward is not None and run.reward.outcome == "complete"


def estimate(shares: Sequence[float]) -> Estimate:
    """The mean of what each task gives, with Wilson's interval.

    Tasks are the sample, not runs: runs of a task are alike. The interval is that of as many
    independent trials as would vary as the tasks' shares do, and of no fewer than there are tasks.
    """
    mean, count = fmean(shares), len(shares)
    spread = variance(shares) / count if count > 1 else 0.0
    trials = float(count)
    if spread > 0.0 and 0.0 < mean < 1.0:
        trials = max(trials, mean * (1.0 - mean) / spread)
    centre = mean + Z * Z / (2 * trials)
    reach = Z * math.sqrt(mean * (1.0 - mean) / trials + Z * Z / (4 * trials * trials))
    scale = 1.0 + Z * Z / trials
    return Estimate(
        value=round(mean, 6),
        low=round(max(0.0, (centre - reach) / scale), 6),
        high=round(min(1.0, (centre + reach) / scale), 6),
    )


def _grouped(runs: Iterable[Trajectory]) -> dict[tuple[str, str], list[Trajectory]]:
    tasks: dict[tuple[str, str], list[Trajectory]] = {}
    for run in runs:
        tasks.setdefault((run.environment, run.task or ""), []).append(run)
    return tasks


def _reward(run: Trajectory) -> float:
    return (run.reward.value or 0.0) if run.reward is not None else 0.0

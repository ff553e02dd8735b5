"""Runs of a task's oracle, as it stands and altered, to be compared."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import AgentError, EnvhubError, InfrastructureFault, PackInvalid
from environments.oracle import resolve_oracle
from environments.spec import OracleCall, Task
from environments.trajectory import Reward, Step
from environments.verifier import Attempt
from snapshots import Changeset

SEED: Final = 11
AT_ONCE: Final = 2 * (os.cpu_count() or 1)

Plan = Sequence[tuple[int | None, OracleCall]]
"""Calls, each with its number in the oracle (``None``: an extra one nothing refers to)."""

Before = Callable[[Episode, str, dict[str, Any]], Awaitable[None]]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a plan. ``problem`` is why it could not be played to its end."""

    task: Task
    steps: tuple[Step, ...]
    reward: Reward
    changes: Changeset
    attempt: Attempt
    """The same run, as it was judged."""
    problem: str = ""

    @property
    def value(self) -> float | None:
        return self.reward.value

    def record(self) -> list[dict[str, Any]]:
        """What a replay must give again: answers, changes and clock, but not the time it took."""
        return [
            msgspec.to_builtins(msgspec.structs.replace(step, latency_ms=0.0))
            for step in self.steps
        ]

    def writes(self) -> list[int]:
        """The numbers of the oracle's calls that changed rows (for a run of the oracle)."""
        return [
            number
            for number, step in enumerate(self.steps)
            if any(change.actor == "agent" for change in step.changes)
        ]


def tools_called(runs: Iterable[Run]) -> set[str]:
    return {step.tool for run in runs for step in run.steps}


def tables_changed(runs: Iterable[Run]) -> set[str]:
    return {table for run in runs for table in run.changes.tables}


def oracle_plan(task: Task) -> Plan:
    return tuple(enumerate(task.oracle))


async def play(
    environment: Environment,
    task: Task,
    plan: Plan,
    answer: str | None = None,
    before: Before | None = None,
) -> Run:
    """Play a plan in a fresh episode long enough for it, and score it with ``answer``.

    ``before`` is awaited ahead of each call, with the episode and the call's resolved arguments;
    it must leave the episode as it was.
    """
    problem = ""
    steps: list[Step] = []
    results: list[Any] = [None] * len(task.oracle)
    horizon = len(plan) + 1 + (1000 if before else 0)
    episode = await Episode.start(environment, task=task.id, seed=SEED, horizon=horizon)
    try:
        for number, call in plan:
            arguments = resolve_oracle(call, results)
            if before is not None:
                await before(episode, call.tool, arguments)
            step = await episode.call(call.tool, arguments)
            steps.append(step)
            if number is not None:
                results[number] = step.result
    except (PackInvalid, AgentError) as error:
        problem = str(error)
    reward = await episode.score(answer)
    await episode.close()
    changes, attempt = episode.changes(actor="agent"), episode.attempt(task, answer)
    return Run(task, tuple(steps), reward, changes, attempt, problem)


def require_scored(reward: Reward) -> None:
    """Raises ``InfrastructureFault`` where a run was not scored for a fault of ours."""
    if reward.failure_kind == "infrastructure":
        raise InfrastructureFault(reward.reason)


async def judged_as(environment: Environment, task: Task, attempt: Attempt) -> Reward:
    """What an attempt is worth by the verifier of ``task``."""
    return await environment.score(task, attempt)


async def side_by_side(
    items: Iterable[Item], do: Callable[[Item], Awaitable[Result]], at_once: int = AT_ONCE
) -> list[Result]:
    """``do`` for all items, a few at once; the results in the items' order.

    Where one raises an ``EnvhubError`` the others are cancelled, and it is raised.
    """
    found: dict[int, Result] = {}
    raised: list[EnvhubError] = []
    limiter = anyio.Semaphore(at_once)

    async def one(number: int, item: Item) -> None:
        async with limiter:
            try:
                found[number] = await do(item)
            except EnvhubError as error:
                raised.append(error)
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number, item in enumerate(items):
            group.start_soon(one, number, item)
    if raised:
        raise raised[0]
    return [found[number] for number in sorted(found)]

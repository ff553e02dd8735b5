"""Runs of a task's oracle, as it stands and altered, to be compared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import AgentError, PackInvalid
from environments.oracle import resolve_oracle
from environments.spec import OracleCall, Task
from environments.trajectory import Reward, Step
from snapshots import Changeset

SEED = 11

Plan = Sequence[tuple[int | None, OracleCall]]
"""Calls, each with its number in the oracle (``None``: an extra one nothing refers to)."""

Before = Callable[[Episode, str, dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a plan. ``problem`` is why it could not be played to its end."""

    task: Task
    steps: tuple[Step, ...]
    reward: Reward
    changes: Changeset
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
    return Run(task, tuple(steps), reward, episode.changes(actor="agent"), problem)


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """Where two JSON values first differ, ``result.loan.id: 'L-1' and 'L-2'``; empty if nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            inner = f"{path}.{key}" if path else key
            if found := first_difference(one.get(key), other.get(key), inner):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            if found := first_difference(left, right, f"{path}.{index}"):
                return found
        return ""
    same = type(one) is type(other) and one == other
    return "" if same else f"{path}: {_short(one)} and {_short(other)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Playing a recorded run again: is every step what the record says, and is the reward the same?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, cast, get_args

import anyio
import msgspec

from environments.environment import Environment, Environments
from environments.episode import Episode
from environments.errors import AgentError, EnvhubError, EnvironmentChanged, InfrastructureFault
from environments.spec import Task
from environments.trajectory import Record, Reward, Step, Trajectory
from environments.users.script import SCRIPT, Recorded
from environments.verifier import RewardMode, read_plan

Status = Literal["identical", "rescored", "differs", "outdated", "failed"]
CONFIRMED: Final = frozenset({"identical", "rescored"})
AT_ONCE: Final = 8


class Replayed(Record, frozen=True, kw_only=True):
    """What became of one trajectory when it was played again.

    ``identical``: every step, and the reward byte for byte. ``rescored``: every step, and where
    the record has an unset reward there is one now. ``differs``: ``difference`` says where, in
    ``step`` or (``None``) in the reward. ``outdated``: it was played in another version of its
    environment. ``failed``: it could not be played through no fault of its own.
    """

    id: str
    environment: str
    task: str | None
    steps: int
    status: Status
    step: int | None = None
    difference: str = ""
    recorded: Reward | None = None
    again: Reward | None = None

    @property
    def confirmed(self) -> bool:
        return self.status in CONFIRMED


class Diverged(AgentError):
    """A step came out otherwise than recorded; ``step`` is its index."""

    code = "DIVERGED"

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message, step=step)
        self.step = step


@asynccontextmanager
async def begun_again(environment: Environment, trajectory: Trajectory) -> AsyncIterator[Episode]:
    """A fresh episode where the trajectory's began.

    Raises ``EnvironmentChanged`` and ``InfrastructureFault``.
    """
    if environment.digest != trajectory.digest:
        raise EnvironmentChanged(
            f"{trajectory.id} was played in version {trajectory.digest[:12]} of "
            f"{trajectory.environment}, here is {environment.digest[:12]}",
            hint="put the pack back as it was",
        )
    environment = environment.under(trajectory.faults)
    if trajectory.user not in (None, SCRIPT):  # a model: it is not asked for the same words again
        environment = environment.heard_by(Recorded(trajectory.steps))
    episode = await Episode.start(
        environment,
        task=trajectory.task,
        seed=trajectory.seed,
        horizon=max(1, trajectory.horizon, len(trajectory.steps)),
        malformed=trajectory.malformed,
    )
    yield episode
    await episode.close()


async def take_again(episode: Episode, recorded: Step) -> tuple[Step, str]:
    """Take a recorded step once more: what came of it now, and where that differs if it does."""
    step = await episode.call(recorded.tool, recorded.arguments)
    return step, first_difference(_comparable(recorded), _comparable(step))


@asynccontextmanager
async def played_again(environment: Environment, trajectory: Trajectory) -> AsyncIterator[Episode]:
    """A fresh episode after the trajectory's calls, not scored.

    Raises ``EnvironmentChanged``, ``Diverged`` at the first step that is not as recorded, and
    ``InfrastructureFault``.
    """
    async with begun_again(environment, trajectory) as episode:
        for recorded in trajectory.steps:
            _, different = await take_again(episode, recorded)
            if different:
                raise Diverged(different, recorded.index)
        yield episode


async def replay(environments: Environments, trajectory: Trajectory) -> Replayed:
    """Play it in a fresh episode, compare each step, and score it as it was scored."""
    found = Replayed(
        id=trajectory.id,
        environment=trajectory.environment,
        task=trajectory.task,
        steps=len(trajectory.steps),
        status="identical",
        recorded=trajectory.reward,
    )
    try:
        environment = await environments.get(trajectory.environment)
        async with played_again(environment, trajectory) as episode:
            return await _judged(found, trajectory, episode)
    except Diverged as error:
        return _with(found, status="differs", step=error.step, difference=error.message)
    except EnvironmentChanged as error:
        return _with(found, status="outdated", difference=str(error))
    except AgentError as error:  # no such environment or task here
        return _with(found, status="outdated", difference=str(error))
    except EnvhubError as error:
        return _with(found, status="failed", difference=str(error))


async def replay_all(
    environments: Environments,
    trajectories: Iterable[Trajectory],
    done: Callable[[], None] = lambda: None,
) -> list[Replayed]:
    """All of them, several at once, in their order; ``done`` is called after each."""
    found: dict[int, Replayed] = {}
    limiter = anyio.Semaphore(AT_ONCE)

    async def play(number: int, trajectory: Trajectory) -> None:
        async with limiter:
            found[number] = await replay(environments, trajectory)
        done()

    async with anyio.create_task_group() as tasks:
        for number, trajectory in enumerate(trajectories):
            tasks.start_soon(play, number, trajectory)
    return [found[number] for number in sorted(found)]


async def _judged(found: Replayed, trajectory: Trajectory, episode: Episode) -> Replayed:
    recorded = trajectory.reward
    if episode.clock_ms != trajectory.clock_ms:
        clocks = f"clock_ms: {trajectory.clock_ms} and {episode.clock_ms}"
        return _with(found, status="differs", difference=clocks)
    if recorded is None or episode.task is None:
        return found
    again = await episode.score(trajectory.answer, _mode(recorded, episode.task))
    found = _with(found, again=again)
    if again.failure_kind == "infrastructure":
        raise InfrastructureFault(again.reason)
    if _bytes(again) == _bytes(recorded):
        return found
    if recorded.value is None and recorded.failure_kind == "infrastructure":
        return _with(found, status="rescored", difference=f"was unset: {recorded.reason}")
    different = first_difference(msgspec.to_builtins(recorded), msgspec.to_builtins(again))
    return _with(found, status="differs", difference=f"reward.{different}")


def _mode(recorded: Reward, task: Task) -> RewardMode | None:
    """The way of scoring that was asked for beside what the task declares, if one was."""
    for mode in get_args(RewardMode):
        if mode == recorded.mode and mode != read_plan(task).reward:
            return cast("RewardMode", mode)
    return None


def _with(found: Replayed, **changed: Any) -> Replayed:
    return msgspec.structs.replace(found, **changed)


def _bytes(reward: Reward) -> bytes:
    return msgspec.json.encode(reward, order="sorted")


def _comparable(step: Step) -> Any:
    """A step without what no replay can give again, or what the record leaves out."""
    bare = msgspec.structs.replace(step, latency_ms=0.0, call_key=None, output="")
    return msgspec.json.decode(msgspec.json.encode(bare))


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """Where two JSON values first differ, ``result.loan.id: 'L-1' and 'L-2'``; empty if nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            inner = f"{path}.{key}" if path else key
            if found := first_difference(one.get(key), other.get(key), inner):
                return found
        return ""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            if found := first_difference(left, right, f"{path}.{index}"):
                return found
        return ""
    same = type(one) is type(other) and one == other
    return "" if same else f"{path}: {_short(one)} and {_short(other)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

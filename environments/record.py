"""Trajectories: made from episodes, written and read as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from environments.chat import Message, calls_of, conversation, openai_tool
from environments.episode import Episode
from environments.errors import AgentError
from environments.trajectory import (
    ModelCall,
    Reward,
    StopReason,
    Trajectory,
    Window,
)
from environments.verifier import is_malformed


class TrajectoryInvalid(AgentError):
    """A line is no trajectory of a version known here; the message names file and line."""

    code = "TRAJECTORY_INVALID"


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What only the rollout's side knows of a run."""

    messages: tuple[Message, ...] | None = None
    """What the policy saw and said; by default a conversation is made up from the steps."""
    group: str | None = None
    repetition: int = 0
    policy: str | None = None
    tokens: dict[str, Any] = {}
    training_step: int | None = None
    window: Window | None = None
    calls: tuple[ModelCall, ...] = ()


def trajectory_of(episode: Episode, provenance: Provenance | None = None) -> Trajectory:
    """The run so far. What tools printed is left out: it is for the pack's author alone."""
    given = provenance or Provenance()
    pack, task, reward = episode.environment.pack, episode.task, episode.reward
    steps = tuple(msgspec.structs.replace(step, output="") for step in episode.steps)
    stop, failed = _stop(episode), reward is not None and reward.value is None
    messages = given.messages
    if messages is None:
        instruction = task.instruction if task else ""
        horizon = episode.horizon if task and task.tells_remaining else None
        messages = tuple(conversation(pack.policy, instruction, steps, episode.answer, horizon))
    return Trajectory(
        id=episode.id,
        environment=pack.spec.name,
        digest=pack.digest,
        task=task.id if task else None,
        instruction=task.instruction if task else None,
        seed=episode.seed,
        malformed=episode.malformed,
        faults=episode.environment.faults,
        user=episode.environment.user.name if task and task.user else None,
        group=given.group,
        repetition=given.repetition,
        policy=given.policy,
        horizon=episode.horizon,
        tools=tuple(map(openai_tool, episode.tools.values())),
        messages=messages,
        steps=steps,
        clock_ms=episode.clock_ms,
        answer=episode.answer,
        reward=reward,
        terminated=stop in ("answered", "closed", "malformed"),
        truncated=stop == "horizon",
        failed=failed,
        stop_reason=stop,
        mask=failed,
        tokens=given.tokens,
        training_step=given.training_step,
        window=given.window,
        calls=given.calls or calls_of(messages, given.window),
    )


def _stop(episode: Episode) -> StopReason:
    reward: Reward | None = episode.reward
    if reward is not None and reward.value is None:
        return "failed"
    if episode.malformed == "end" and any(map(is_malformed, episode.steps[-1:])):
        return "malformed"
    if len(episode.steps) >= episode.horizon and episode.answer is None:
        return "horizon"
    if reward is not None:
        return "answered"
    return "closed" if episode.closed else "live"


def write_lines(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write one line each; returns how many."""
    count = 0
    with path.open("wb") as file:
        for trajectory in trajectories:
            file.write(msgspec.json.encode(trajectory) + b"\n")
            count += 1
    return count


def read_lines(path: Path) -> Iterator[Trajectory]:
    """The trajectories of a file, empty lines aside. Raises ``TrajectoryInvalid``."""
    decoder = msgspec.json.Decoder(Trajectory)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _decoded(decoder, line, f"{path}: line {number}")
    except OSError as error:
        raise TrajectoryInvalid(f"cannot read {path}: {error.strerror}") from error


def _decoded(decoder: msgspec.json.Decoder[Trajectory], line: bytes, place: str) -> Trajectory:
    try:
        return decoder.decode(line)
    except msgspec.DecodeError as error:
        raise TrajectoryInvalid(
            f"{place} is no trajectory: {error}", hint="see docs/trajectories.md for the format"
        ) from None

"""What an episode is to its player, apart from how the hub is asked."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

import msgspec

from environments.chat import CountTokens, Transcript, observation, opening
from environments.faults import FaultCurriculum
from environments.spec import FaultPlan
from environments.trajectory import Window
from hub.training import GroupDetail, GroupInfo
from hub.wire import CallAnswer, EpisodeInfo, Status


class Given(TypedDict, total=False):
    """On what terms an episode or group is begun; see ``hub.wire.Terms``."""

    seed: int
    horizon: int | None
    schedule: str | None
    training_step: int | None
    faults: str | FaultPlan | None
    fault_curriculum: FaultCurriculum | None
    malformed: Literal["observe", "penalise", "end"]
    policy_version: str | None
    window: Window | None
    lease_seconds: float | None
    wait_seconds: float
    key: str | None


def keyed(terms: Given) -> Given:
    """Terms under which a repeated request begins nothing twice."""
    return terms if terms.get("key") is not None else {**terms, "key": secrets.token_hex(16)}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An episode as it was when its player came to it."""

    id: str
    environment: str
    task: str | None
    instruction: str
    policy: str
    """The rules of the place."""
    seed: int
    horizon: int
    steps: int = 0
    status: Status = "live"
    group: str | None = None
    repetition: int = 0
    window: Window | None = None
    lease_seconds: float | None = None
    tells_remaining: bool = False


def place_of(info: EpisodeInfo, window: Window | None = None) -> Place:
    """An episode of its own."""
    return Place(
        id=info.id,
        environment=info.environment,
        task=info.task,
        instruction=info.instruction or "",
        policy=info.policy,
        seed=info.seed,
        horizon=info.horizon,
        steps=info.steps,
        status=info.status,
        group=info.group,
        window=window,
        lease_seconds=info.lease_seconds,
        tells_remaining=info.tells_remaining,
    )


def places_of(group: GroupInfo) -> Iterator[Place]:
    """The members of a group."""
    steps: Sequence[int] = [0] * len(group.episodes)
    if isinstance(group, GroupDetail):
        steps = [member.steps for member in group.members]
    for repetition, (episode, taken) in enumerate(zip(group.episodes, steps, strict=True)):
        yield Place(
            id=episode,
            environment=group.environment,
            task=group.task,
            instruction=group.instruction,
            policy=group.policy,
            seed=group.seed,
            horizon=group.horizon,
            steps=taken,
            group=group.id,
            repetition=repetition,
            window=group.window,
            lease_seconds=group.lease_seconds,
            tells_remaining=group.tells_remaining,
        )


class Player:
    """The part of a client's episode that asks nothing of the hub."""

    def __init__(self, place: Place, *, own: bool) -> None:
        self.id = place.id
        self.place = place
        self.environment = place.environment
        self.task = place.task
        self.instruction = place.instruction
        self.policy = place.policy
        self.horizon = place.horizon
        self.status: Status = place.status
        self.remaining = place.horizon - place.steps
        """Steps left before the horizon."""
        self.own = own
        self._transcript: Transcript | None = None
        # an episode of one's own is called by nobody else: its keys are the same in every run
        self._prefix = "" if own else f"{secrets.token_hex(4)}-"
        self._numbers = itertools.count(place.steps + 1)
        self._counting = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.environment}/{self.task} {self.status}>"

    def next_key(self) -> str:
        """A call key that nothing else has."""
        with self._counting:
            return f"{self._prefix}{next(self._numbers)}"

    def took(self, answer: CallAnswer) -> CallAnswer:
        """Keep what an answer says of the episode."""
        self.status, self.remaining = answer.status, answer.remaining
        return answer

    def is_at(self, info: EpisodeInfo) -> None:
        """Keep what the hub says of the episode."""
        self.status, self.remaining = info.status, info.horizon - info.steps
        self.task, self.instruction = info.task, info.instruction or ""
        self.horizon = info.horizon
        self._transcript = None

    def observation(self, answer: CallAnswer) -> str:
        """What the policy is to read of a call, word for word as over MCP."""
        remaining = max(0, answer.remaining) if self.place.tells_remaining else None
        return observation(answer.step, remaining)

    def converse(self, count: CountTokens | None = None) -> Transcript:
        """The run as a chat: what to show the model, and where to put what it says.

        It begins with the rules of the place and the task, and is sent to the hub when the episode
        is closed. ``count`` is needed for a window of tokens.
        """
        if self._transcript is None:
            messages = opening(self.policy, self.instruction)
            self._transcript = Transcript(messages, self.place.window, count)
        return self._transcript

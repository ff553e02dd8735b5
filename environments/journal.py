"""The journal of an episode: what it writes down before it says that something happened.

One append-only list of records an episode. Replaying them gives the episode back after a restart:
its pages, clock, steps, marks and reward.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from environments.faults import NONE
from environments.sandbox.wire import Moment
from environments.spec import FaultPlan
from environments.trajectory import Reward, Step
from environments.verifier import MalformedPolicy


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """An episode begins: at its task's start, or (a fork) where another one stood."""

    environment: str
    digest: str
    task: str | None
    seed: int
    horizon: int
    moment: Moment
    asked_horizon: int | None = None
    """What whoever began it asked for; a reset to another task keeps to it."""
    pages: bytes | None = None
    steps: tuple[Step, ...] = ()
    malformed: MalformedPolicy = "observe"
    faults: FaultPlan = NONE


class Stepped(msgspec.Struct, frozen=True, tag="stepped"):
    """One step, and the pages it wrote as a difference against the branch before it."""

    step: Step
    moment: Moment
    delta: bytes | None = None


class Marked(msgspec.Struct, frozen=True, tag="marked"):
    mark: str


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    mark: str
    steps: int
    """How many steps are left, so that an index of episodes need not replay them."""


class Scored(msgspec.Struct, frozen=True, tag="scored"):
    """A verdict, and the answer it was reached on."""

    reward: Reward
    answer: str | None = None


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    pass


JournalRecord = Opened | Stepped | Marked | Rewound | Scored | Closed


class Journal(Protocol):
    """Where an episode writes what happened before it says that it happened."""

    @property
    def keeps_pages(self) -> bool:
        """False spares the episode the work of encoding what would be thrown away."""
        ...

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        """Returns once ``record`` is durable; raises ``InfrastructureFault`` if it cannot be."""
        ...


class NoJournal:
    """Keeps nothing: an episode lives and dies with its process."""

    keeps_pages = False

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        return None

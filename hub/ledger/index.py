"""The index of episodes: one row each, folded from its records, and what a ledger offers."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from environments.journal import Closed, JournalRecord, Opened, Rewound, Scored, Stepped
from hub.errors import LedgerFailed
from hub.wire import Status


class EpisodeRow(msgspec.Struct, frozen=True, array_like=True):
    """The index's line of one episode, folded from its records; fields in the order of COLUMNS."""

    number: int
    id: str
    environment: str
    task: str | None
    seed: int
    horizon: int
    status: Status
    steps: int
    reward: float | None
    updated_ms: int


class Records(Protocol):
    """What the hub asks of a ledger; ``append`` is the episodes' ``Journal``."""

    @property
    def keeps_pages(self) -> bool: ...
    @property
    def live(self) -> int: ...
    async def append(self, episode_id: str, record: JournalRecord) -> None: ...
    async def records(self, episode_id: str) -> list[JournalRecord]: ...
    async def row(self, episode_id: str) -> EpisodeRow | None: ...
    async def rows(
        self, *, environment: str = "", status: str = "", after: int = 0, limit: int = 100
    ) -> list[EpisodeRow]: ...
    async def seat(self, environment: str, key: str) -> str | None: ...
    async def keep_seat(self, environment: str, key: str, episode_id: str) -> None: ...


def fold(row: EpisodeRow | None, number: int, episode_id: str, record: JournalRecord) -> EpisodeRow:
    """The index row after one more record; a first record must be ``Opened``."""
    now = time.time_ns() // 1_000_000
    if isinstance(record, Opened):
        return EpisodeRow(
            row.number if row else number,
            episode_id,
            record.environment,
            record.task,
            record.seed,
            record.horizon,
            "live",
            len(record.steps),
            None,
            now,
        )
    if row is None:
        raise LedgerFailed(f"episode {episode_id} has no record of being opened")
    changed: dict[str, object] = {"updated_ms": now}
    match record:
        case Stepped():
            steps = record.step.index + 1
            status = "truncated" if steps >= row.horizon else "live"
            changed.update(steps=steps, status=status)
        case Rewound():
            changed.update(steps=record.steps, status="live", reward=None)
        case Scored():
            changed.update(reward=record.reward.value)
        case Closed():
            changed.update(status="closed")
    return msgspec.structs.replace(row, **changed)

"""The index of episodes: one row each, folded from its records, and what a ledger offers."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import msgspec

from environments.journal import Closed, JournalRecord, Opened, Rewound, Scored, Stepped
from environments.trajectory import Outcome
from hub.auth import LOCAL_TENANT
from hub.errors import LedgerFailed
from hub.wire import Enrolment, Status


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
    outcome: Outcome | None
    """``None`` until it is scored; ``unset`` where nobody could score it."""
    updated_ms: int
    group: str | None = None
    enrolment: bytes | None = None
    """What its creator said of it, as JSON; see ``enrolled``."""
    finished: int | None = None
    """Its place in the order in which episodes were closed, from 1."""
    tenant: str = LOCAL_TENANT
    """Whose it is."""

    @property
    def enrolled(self) -> Enrolment:
        if self.enrolment is None:
            return NOTHING_SAID
        return msgspec.json.decode(self.enrolment, type=Enrolment)


NOTHING_SAID = Enrolment()


class RowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which index rows: empty strings ask nothing; ``after`` is a number or a finish."""

    environment: str = ""
    status: str = ""
    group: str = ""
    tenant: str = ""
    after: int = 0
    limit: int = 100


class Records(Protocol):
    """What the hub asks of a ledger; ``append`` is the episodes' ``Journal``."""

    @property
    def keeps_pages(self) -> bool: ...
    @property
    def live(self) -> int: ...
    @property
    def finishes(self) -> int: ...
    async def append(self, episode_id: str, record: JournalRecord) -> None: ...
    async def records(self, episode_id: str) -> list[JournalRecord]: ...
    async def row(self, episode_id: str) -> EpisodeRow | None: ...
    async def rows(self, query: RowQuery = ...) -> list[EpisodeRow]: ...
    async def members(self, group: str) -> list[EpisodeRow]: ...
    async def finished(self, query: RowQuery = ...) -> list[EpisodeRow]: ...
    def unclosed(self) -> Sequence[EpisodeRow]: ...
    def enrolling(self, group: str | None, enrolments: Enrolments, tenant: str) -> Enrolling: ...
    async def park(self, episode_id: str) -> None: ...
    async def wake(self, episode_id: str) -> None: ...
    async def parked_before(self, updated_ms: int) -> list[str]: ...
    async def seat(self, seat: Seat) -> str | None: ...
    async def keep_seat(self, seat: Seat, episode_id: str) -> None: ...
    async def keep(self, kind: str, id: str, body: bytes, tenant: str = "") -> None: ...
    async def document(self, kind: str, id: str, tenant: str | None = "") -> bytes | None: ...
    async def documents(
        self, kind: str, tenant: str | None, after: str = "", limit: int = 1000
    ) -> Documents: ...
    async def forget(self, kind: str, id: str, tenant: str = "") -> None: ...


Enrolments = Mapping[str, Enrolment]
Enrolling = AbstractContextManager[None]
Seat = tuple[str, str, str]
"""Whose it is, at which environment, and what it is called there."""
Documents = list[tuple[str, bytes]]
"""Ids and bodies, in the order of their ids."""


def fold(row: EpisodeRow | None, number: int, episode_id: str, record: JournalRecord) -> EpisodeRow:
    """The index row after one more record; a first record must be ``Opened``."""
    now = now_ms()
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
            None,
            now,
            row.group if row else None,
            row.enrolment if row else None,
            tenant=row.tenant if row else LOCAL_TENANT,
        )
    if row is None:
        raise LedgerFailed(f"episode {episode_id} has no record of being opened")
    changed: dict[str, object] = {"updated_ms": now}
    match record:
        case Stepped():
            steps = record.step.index + 1
            changed.update(steps=steps, status=standing(steps, row.horizon))
        case Rewound():
            changed.update(steps=record.steps, status="live", reward=None, outcome=None)
        case Scored():
            changed.update(reward=record.reward.value, outcome=record.reward.outcome)
        case Closed():
            changed.update(status="closed")
    return msgspec.structs.replace(row, **changed)


def awake(row: EpisodeRow) -> EpisodeRow:
    """A parked row, taken up again."""
    status = standing(row.steps, row.horizon)
    return msgspec.structs.replace(row, status=status, updated_ms=now_ms())


def parked(row: EpisodeRow) -> EpisodeRow:
    """A row that waits for somebody to come back."""
    return msgspec.structs.replace(row, status="parked", updated_ms=now_ms())


def standing(steps: int, horizon: int) -> Status:
    """The status of an episode that is neither closed nor parked."""
    return "truncated" if steps >= horizon else "live"


def listed(rows: Iterable[EpisodeRow], query: RowQuery) -> list[EpisodeRow]:
    """What of ``rows`` the query asks for, in the order the episodes were opened."""
    found = (
        row
        for row in rows
        if row.number > query.after
        and query.environment in ("", row.environment)
        and query.status in ("", row.status)
        and query.group in ("", row.group)
        and query.tenant in ("", row.tenant)
    )
    return heapq.nsmallest(query.limit, found, key=lambda row: row.number)


class Roll:
    """What creators said of episodes that are about to be opened."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str | None, Enrolment, str]] = {}

    @contextmanager
    def enrolling(self, group: str | None, enrolments: Enrolments, tenant: str) -> Iterator[None]:
        """Episodes opened while the body runs are of this group and tenant, and have these
        enrolments."""
        for key, enrolment in enrolments.items():
            self._said[key] = (group, enrolment, tenant)
        try:
            yield
        finally:
            for key in enrolments:
                del self._said[key]

    def enrolled(self, row: EpisodeRow) -> EpisodeRow:
        """A new row with what its creator said of it."""
        if row.id not in self._said:
            return row
        group, enrolment, tenant = self._said[row.id]
        said = None if enrolment == NOTHING_SAID else msgspec.json.encode(enrolment)
        return msgspec.structs.replace(row, group=group, enrolment=said, tenant=tenant)


def now_ms() -> int:
    return time.time_ns() // 1_000_000

"""A ledger that keeps nothing on disk."""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence

import msgspec

from environments.journal import Closed, JournalRecord
from hub.ledger.index import (
    Documents,
    Enrolling,
    Enrolments,
    EpisodeRow,
    Roll,
    RowQuery,
    awake,
    fold,
    listed,
    parked,
)

KEPT_CLOSED = 10_000
KEPT_DOCUMENTS = 2_000


class NullJournal:
    """Durability ``none``: index, seats and documents in memory, records nowhere.

    The rows of the last ``KEPT_CLOSED`` closed episodes stay, so that closing twice is fine, and
    of each kind of document the last ``KEPT_DOCUMENTS``.
    """

    keeps_pages = False

    def __init__(self) -> None:
        self._rows: dict[str, EpisodeRow] = {}
        self._roll = Roll()
        self._closed: deque[str] = deque()
        self._seats: dict[tuple[str, str], str] = {}
        self._documents: defaultdict[str, OrderedDict[str, bytes]] = defaultdict(OrderedDict)
        self._numbers = 0
        self._finishes = 0

    @property
    def live(self) -> int:
        """How many episodes are neither closed nor parked."""
        return len(self.unclosed())

    @property
    def finishes(self) -> int:
        """How many episodes were closed so far."""
        return self._finishes

    def unclosed(self) -> Sequence[EpisodeRow]:
        return [row for row in self._rows.values() if row.status not in ("closed", "parked")]

    def enrolling(self, group: str | None, enrolments: Enrolments) -> Enrolling:
        return self._roll.enrolling(group, enrolments)

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        row = self._rows.get(episode_id)
        folded = fold(row, self._numbers + 1, episode_id, record)
        if row is None:
            self._numbers += 1
            folded = self._roll.enrolled(folded)
        if isinstance(record, Closed) and folded.finished is None:
            self._finishes += 1
            folded = msgspec.structs.replace(folded, finished=self._finishes)
            self._closed.append(episode_id)
        self._rows[episode_id] = folded
        if len(self._closed) > KEPT_CLOSED:
            del self._rows[self._closed.popleft()]

    async def records(self, episode_id: str) -> list[JournalRecord]:
        return []

    async def row(self, episode_id: str) -> EpisodeRow | None:
        return self._rows.get(episode_id)

    async def rows(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008 - frozen
        return listed(self._rows.values(), query)

    async def members(self, group: str) -> list[EpisodeRow]:
        return await self.rows(RowQuery(group=group, limit=len(self._rows)))

    async def finished(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008
        # the closed stand in the order they finished, the last at the end
        first = max(0, len(self._closed) - (self._finishes - query.after))
        found = (self._rows[each] for each in itertools.islice(self._closed, first, None))
        fitting = (
            row
            for row in found
            if query.environment in ("", row.environment) and query.group in ("", row.group)
        )
        return list(itertools.islice(fitting, query.limit))

    async def park(self, episode_id: str) -> None:
        self._rows[episode_id] = parked(self._rows[episode_id])

    async def wake(self, episode_id: str) -> None:
        row = self._rows.get(episode_id)
        if row is not None and row.status == "parked":
            self._rows[episode_id] = awake(row)

    async def parked_before(self, updated_ms: int) -> list[str]:
        return [
            row.id
            for row in self._rows.values()
            if row.status == "parked" and row.updated_ms < updated_ms
        ]

    async def seat(self, environment: str, key: str) -> str | None:
        return self._seats.get((environment, key))

    async def keep_seat(self, environment: str, key: str, episode_id: str) -> None:
        self._seats[environment, key] = episode_id

    async def keep(self, kind: str, id: str, body: bytes) -> None:
        kept = self._documents[kind]
        kept[id] = body
        kept.move_to_end(id)
        if len(kept) > KEPT_DOCUMENTS:
            kept.popitem(last=False)

    async def document(self, kind: str, id: str) -> bytes | None:
        return self._documents[kind].get(id)

    async def documents(self, kind: str, after: str = "", limit: int = 1000) -> Documents:
        kept = self._documents[kind]
        return [(name, kept[name]) for name in sorted(kept) if name > after][:limit]

    async def forget(self, kind: str, id: str) -> None:
        self._documents[kind].pop(id, None)

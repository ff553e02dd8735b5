"""A ledger that keeps nothing on disk."""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence

import msgspec

from environments.journal import Closed, JournalRecord, Stepped
from hub.ledger.index import (
    Documents,
    Enrolling,
    Enrolments,
    EpisodeRow,
    Roll,
    RowQuery,
    Seat,
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
        self._stepped: dict[str, Stepped] = {}  # the last step of each that is not in its row yet
        self._roll = Roll()
        self._closed: deque[str] = deque()
        self._seats: dict[Seat, str] = {}
        self._documents: defaultdict[str, OrderedDict[tuple[str, str], bytes]] = defaultdict(
            OrderedDict
        )
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
        return [row for row in self._folded().values() if row.status not in ("closed", "parked")]

    def enrolling(self, group: str | None, enrolments: Enrolments, tenant: str) -> Enrolling:
        return self._roll.enrolling(group, enrolments, tenant)

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        if type(record) is Stepped and episode_id in self._rows:
            self._stepped[episode_id] = record  # rows are looked at far less often than this
            return
        row = self._row(episode_id)
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

    def _row(self, episode_id: str) -> EpisodeRow | None:
        row, record = self._rows.get(episode_id), self._stepped.pop(episode_id, None)
        if row is not None and record is not None:
            row = self._rows[episode_id] = fold(row, row.number, episode_id, record)
        return row

    def _folded(self) -> dict[str, EpisodeRow]:
        for episode_id in list(self._stepped):
            self._row(episode_id)
        return self._rows

    async def records(self, episode_id: str) -> list[JournalRecord]:
        return []

    async def row(self, episode_id: str) -> EpisodeRow | None:
        return self._row(episode_id)

    async def rows(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008 - frozen
        return listed(self._folded().values(), query)

    async def members(self, group: str) -> list[EpisodeRow]:
        return await self.rows(RowQuery(group=group, limit=len(self._rows)))

    async def finished(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008
        # the closed stand in the order they finished, the last at the end
        first = max(0, len(self._closed) - (self._finishes - query.after))
        found = (self._rows[each] for each in itertools.islice(self._closed, first, None))
        fitting = (
            row
            for row in found
            if query.environment in ("", row.environment)
            and query.group in ("", row.group)
            and query.tenant in ("", row.tenant)
        )
        return list(itertools.islice(fitting, query.limit))

    async def park(self, episode_id: str) -> None:
        row = self._row(episode_id)
        if row is not None:
            self._rows[episode_id] = parked(row)

    async def wake(self, episode_id: str) -> None:
        row = self._row(episode_id)
        if row is not None and row.status == "parked":
            self._rows[episode_id] = awake(row)

    async def parked_before(self, updated_ms: int) -> list[str]:
        return [
            row.id
            for row in self._folded().values()
            if row.status == "parked" and row.updated_ms < updated_ms
        ]

    async def seat(self, seat: Seat) -> str | None:
        return self._seats.get(seat)

    async def keep_seat(self, seat: Seat, episode_id: str) -> None:
        self._seats[seat] = episode_id

    async def keep(self, kind: str, id: str, body: bytes, tenant: str = "") -> None:
        kept = self._documents[kind]
        kept[id, tenant] = body
        kept.move_to_end((id, tenant))
        if len(kept) > KEPT_DOCUMENTS:
            kept.popitem(last=False)

    async def document(self, kind: str, id: str, tenant: str | None = "") -> bytes | None:
        kept = self._documents[kind]
        if tenant is not None:
            return kept.get((id, tenant))
        return next((body for (name, _), body in kept.items() if name == id), None)

    async def documents(
        self, kind: str, tenant: str | None, after: str = "", limit: int = 1000
    ) -> Documents:
        kept = self._documents[kind].items()
        found = sorted(
            (name, body) for (name, of), body in kept if tenant in (None, of) and name > after
        )
        return found[:limit]

    async def forget(self, kind: str, id: str, tenant: str = "") -> None:
        self._documents[kind].pop((id, tenant), None)

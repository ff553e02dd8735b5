"""A ledger that keeps nothing on disk."""

from __future__ import annotations

from collections import deque

from environments.journal import Closed, JournalRecord
from hub.ledger.index import EpisodeRow, fold

KEPT_CLOSED = 10_000


class NullJournal:
    """Durability ``none``: the index and the seats in memory, records nowhere.

    The rows of the last ``KEPT_CLOSED`` closed episodes stay, so that closing twice is fine.
    """

    keeps_pages = False

    def __init__(self) -> None:
        self._rows: dict[str, EpisodeRow] = {}
        self._closed: deque[str] = deque()
        self._seats: dict[tuple[str, str], str] = {}
        self._numbers = 0

    @property
    def live(self) -> int:
        """How many episodes are not closed."""
        return len(self._rows) - len(self._closed)

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        row = self._rows.get(episode_id)
        if row is None:
            self._numbers += 1
        self._rows[episode_id] = fold(row, self._numbers, episode_id, record)
        if isinstance(record, Closed):
            self._closed.append(episode_id)
            if len(self._closed) > KEPT_CLOSED:
                del self._rows[self._closed.popleft()]

    async def records(self, episode_id: str) -> list[JournalRecord]:
        return []

    async def row(self, episode_id: str) -> EpisodeRow | None:
        return self._rows.get(episode_id)

    async def rows(
        self, *, environment: str = "", status: str = "", after: int = 0, limit: int = 100
    ) -> list[EpisodeRow]:
        found = (
            row
            for row in self._rows.values()
            if row.number > after
            and environment in ("", row.environment)
            and status in ("", row.status)
        )
        return sorted(found, key=lambda row: row.number)[:limit]

    async def seat(self, environment: str, key: str) -> str | None:
        return self._seats.get((environment, key))

    async def keep_seat(self, environment: str, key: str, episode_id: str) -> None:
        self._seats[environment, key] = episode_id

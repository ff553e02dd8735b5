"""How many episodes a hub holds at once, and who waits until there is room."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from hub.errors import AtCapacity, QuotaExceeded


class Tenure(msgspec.Struct, frozen=True, kw_only=True):
    """How many episodes a hub holds, and for how long nobody need be heard of."""

    max_episodes: int = 0
    """0: as many as there are."""
    lease_seconds: float = 900.0
    retention_seconds: float = 7 * 86_400.0
    """How long a parked episode waits to be taken up again, before it is closed."""


class Share(NamedTuple):
    """Whose episodes they are, and the most its tenant may hold then; 0: as many as there are."""

    tenant: str
    at_most: int = 0


ANYBODYS = Share("")


class Admission:
    """Room for ``limit`` episodes; 0 is room without end. Those who queue are let in in order."""

    def __init__(self, limit: int, retry_after_seconds: Callable[[], float]) -> None:
        self.limit = limit
        self.occupied = 0
        self.held: Counter[str] = Counter()
        """How many of them are each tenant's."""
        self._retry_after_seconds = retry_after_seconds
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def queued(self) -> int:
        """How many episodes are waited for."""
        return sum(count for count, _ in self._waiting)

    async def admit(self, count: int, share: Share = ANYBODYS, wait_seconds: float = 0.0) -> None:
        """Take room for ``count``, all or none. Raises ``AtCapacity`` once the wait is over, and
        ``QuotaExceeded`` at once where the tenant holds too many."""
        if share.at_most and self.held[share.tenant] + count > share.at_most:
            raise QuotaExceeded(
                f"{count} more would be more than the {share.at_most} episodes this token allows",
                hint="close some, or ask for a token with a higher limit",
                limit="episodes",
                retry_after_seconds=self._guess(),
            )
        self.held[share.tenant] += count  # before any wait: who comes meanwhile is counted
        try:
            await self._admit(count, wait_seconds)
        except BaseException:
            self._give_back(count, share.tenant)
            raise

    @asynccontextmanager
    async def room(
        self, count: int, share: Share, wait_seconds: float = 0.0
    ) -> AsyncIterator[None]:
        """Admit what the body begins; its room is given back where the body fails."""
        await self.admit(count, share, wait_seconds)
        try:
            yield
        except BaseException:
            self.release(count, share.tenant)
            raise

    async def _admit(self, count: int, wait_seconds: float) -> None:
        if self.limit and count > self.limit:
            raise AtCapacity(
                f"{count} episodes are more than this hub may hold ({self.limit})",
                hint="ask for fewer, or raise ENVHUB_MAX_EPISODES",
                retry_after_seconds=3600,
            )
        if self._has_room(count) and not self._waiting:
            self.occupied += count
            return
        if wait_seconds > 0:
            await self._queue(count, wait_seconds)
            return
        raise self._full(count)

    def release(self, count: int, tenant: str = ANYBODYS.tenant) -> None:
        """Give room back, and let in who waits for it."""
        self._give_back(count, tenant)
        self._release(count)

    def _release(self, count: int) -> None:
        self.occupied -= count
        self._let_in()

    def _give_back(self, count: int, tenant: str) -> None:
        self.held[tenant] -= count
        if not self.held[tenant]:
            del self.held[tenant]

    def _guess(self) -> int:
        return max(1, min(30, round(self._retry_after_seconds())))

    async def _queue(self, count: int, wait_seconds: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (count, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(wait_seconds):
                await asyncio.shield(turn)
        except BaseException as error:
            if turn.done():
                # let in at the very moment of giving up
                self._release(count)
            else:
                self._waiting.remove(entry)
                self._let_in()  # whoever stood behind may fit
            if isinstance(error, TimeoutError):
                raise self._full(count) from None
            raise

    def _let_in(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            count, turn = self._waiting.popleft()
            self.occupied += count
            turn.set_result(None)

    def _has_room(self, count: int) -> bool:
        return not self.limit or self.occupied + count <= self.limit

    def _full(self, count: int) -> AtCapacity:
        return AtCapacity(
            f"the hub holds {self.occupied} episodes and may hold {self.limit}",
            hint="close episodes, retry later, or queue with wait_seconds",
            asked=count,
            retry_after_seconds=self._guess(),
        )

"""Group commit: one task drains what has queued up meanwhile, so that many share one fsync."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Generic, TypeVar

import msgspec

from hub.errors import LedgerFailed

MAX_GROUP = 1024
LINGER_SECONDS = 0.001
"""How long a group waits for company, while it is not alone: a commit costs as much for ten."""

Item = TypeVar("Item")


class Queued(msgspec.Struct, Generic[Item]):
    """Something to be made durable, and who waits for it."""

    item: Item
    done: asyncio.Future[None]

    def settle(self, error: LedgerFailed | None = None) -> None:
        """Tell who waits; the first word counts."""
        if self.done.done():  # refused already, or its caller no longer waits
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class GroupWriter(Generic[Item]):
    """Items go to ``commit`` in the order they came, many at once; it settles each of them."""

    def __init__(self, commit: Callable[[Sequence[Queued[Item]]], Awaitable[None]]) -> None:
        self._commit = commit
        self._queue: list[Queued[Item]] = []
        self._wake = asyncio.Event()
        self._closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while the body runs; what is queued by its end is written before this returns."""
        task = asyncio.create_task(self._write(), name="ledger-writer")
        try:
            yield
        finally:
            self._closing = True
            self._wake.set()
            await task

    async def put(self, item: Item) -> None:
        """Durable when it returns. Raises ``LedgerFailed``, and then nothing was written."""
        self.require_open()
        done = asyncio.get_running_loop().create_future()
        self._queue.append(Queued(item, done))
        self._wake.set()
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            # it is on its way to the disk: the caller must learn what became of it, or memory and
            # ledger part ways. The cancellation is delivered at the next await.
            await _outcome(done)
            if task := asyncio.current_task():
                task.uncancel()
                task.cancel()

    def require_open(self) -> None:
        """Raises ``LedgerFailed`` once the ledger is closing."""
        if self._closing:
            raise LedgerFailed("the ledger is closing", hint="the hub is shutting down; retry")

    async def _write(self) -> None:
        company = False
        while True:
            await self._wake.wait()
            if company and not self._closing:
                await asyncio.sleep(LINGER_SECONDS)
            group, self._queue = self._queue[:MAX_GROUP], self._queue[MAX_GROUP:]
            if not self._queue:
                self._wake.clear()
            company = len(group) > 1
            if group:
                await self._commit(group)
            elif self._closing:
                return
            if self._closing:
                self._wake.set()


async def _outcome(done: asyncio.Future[None]) -> None:
    while not done.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([done])
    done.result()

"""Group commit: what has queued up while one group is written is the next, and shares its fsync."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import msgspec

from hub.errors import LedgerFailed

MAX_GROUP = 1024
LINGER_SECONDS, MAX_LINGER_SECONDS = 0.00025, 0.002
"""How long a group waits for company, for each that the last one had: a commit costs as much for
ten, and whoever is alone need not wait."""

Item = TypeVar("Item")


class _Outcome(asyncio.Future[Any]):
    """What becomes of something on its way to the disk. Nobody can take it back: a task that is
    cancelled while it waits hears of that once it can hear the outcome."""

    def cancel(self, msg: Any = None) -> bool:
        return False


class _Queued(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """An item to write, and who waits for it."""

    outcome: _Outcome
    item: Item


_Settled = tuple[_Outcome, Exception | None]


class GroupWriter(Generic[Item]):
    """A thread that owns a database: items go to ``commit`` in the order they came, many at once.

    ``commit`` runs in the thread, makes them durable and answers for each ``None`` or why not.
    While it waits for the disk the event loop goes on.
    """

    def __init__(self, commit: Callable[[Sequence[Item]], Sequence[Exception | None]]) -> None:
        self._commit = commit
        self._queued: list[_Queued[Item]] = []
        self._inbox: queue.SimpleQueue[list[_Queued[Item]]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._company = 0
        self._closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while the body runs; what is queued by its end is written before this returns."""
        ended = _Outcome(loop=self._loop)
        thread = threading.Thread(target=self._run, args=(ended,), name="ledger-writer")
        thread.start()
        try:
            yield
        finally:
            self._closing = True
            self._hand_over()
            self._inbox.put([])
            try:
                await ended
            finally:
                thread.join()

    async def put(self, item: Item) -> None:
        """Durable when it returns. Raises ``LedgerFailed``, and then nothing was written.

        Who is cancelled meanwhile learns first what became of the item, or memory and disk would
        part ways; the cancellation is delivered at the next await.
        """
        outcome = self._queue(item)
        try:
            await outcome
        except asyncio.CancelledError:
            outcome.result()
            if task := asyncio.current_task():
                task.uncancel()
                task.cancel()

    # On the event loop -----------------------------------------------------------------------

    def _queue(self, item: Item) -> _Outcome:
        if self._closing:
            raise LedgerFailed("the ledger is closing", hint="the hub is shutting down; retry")
        outcome = _Outcome(loop=self._loop)
        if not self._queued:
            if self._company > 1:
                linger = min(LINGER_SECONDS * self._company, MAX_LINGER_SECONDS)
                self._loop.call_later(linger, self._hand_over)
            else:
                self._loop.call_soon(self._hand_over)
        self._queued.append(_Queued(outcome, item))
        return outcome

    def _hand_over(self) -> None:
        if self._queued:
            self._company = len(self._queued)
            self._inbox.put(self._queued)
            self._queued = []

    def _settle(self, settled: Sequence[_Settled]) -> None:
        for outcome, error in settled:
            if error is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(error)

    # In the thread ---------------------------------------------------------------------------

    def _run(self, ended: _Outcome) -> None:
        last = False
        while not last:
            group = self._inbox.get()
            last = not group
            while not last and len(group) < MAX_GROUP and not self._inbox.empty():
                more = self._inbox.get()
                last = not more
                group += more
            self._loop.call_soon_threadsafe(self._settle, self._written(group))
        self._loop.call_soon_threadsafe(ended.set_result, None)

    def _written(self, group: Sequence[_Queued[Item]]) -> Sequence[_Settled]:
        if not group:
            return ()
        errors: Sequence[Exception | None]
        try:
            errors = self._commit([queued.item for queued in group])
        except Exception as error:  # noqa: BLE001 - the thread must live, or every write hangs
            failed = LedgerFailed(
                f"the ledger could not be written: {error}",
                hint="nothing of it happened; look at the disk and retry",
            )
            errors = [failed] * len(group)
        return [(q.outcome, error) for q, error in zip(group, errors, strict=True)]

"""Renewing leases in the background, for as long as somebody plays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from hub.client.errors import HubError

AT_ONCE = 4096
IDLE_SECONDS = 3600.0
SHARE = 3
"""A lease is renewed so many times in its length."""


class Kept:
    """Which episodes' leases are kept up, and how long they are."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def keep(self, episode_id: str, seconds: float | None) -> bool:
        """Keep a lease up; whether it has to be renewed sooner than those there were."""
        if seconds is None:
            return False
        with self._lock:
            sooner = seconds < min(self._seconds.values(), default=IDLE_SECONDS * SHARE)
            self._seconds[episode_id] = seconds
        return sooner

    def drop(self, episode_id: str) -> None:
        with self._lock:
            self._seconds.pop(episode_id, None)

    @property
    def wait_seconds(self) -> float:
        """How long until they are to be renewed."""
        with self._lock:
            return min(self._seconds.values(), default=IDLE_SECONDS * SHARE) / SHARE

    def batches(self) -> list[Sequence[str]]:
        with self._lock:
            ids = list(self._seconds)
        return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]


class ThreadKeeper:
    """Renews from a thread of its own, which is started when there is something to keep."""

    def __init__(self, renew: Callable[[Sequence[str]], object]) -> None:
        self._renew = renew
        self._kept = Kept()
        self._sooner = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def keep(self, episode_id: str, seconds: float | None) -> None:
        if self._kept.keep(episode_id, seconds):
            self._sooner.set()
        with self._starting:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self._thread.start()

    def drop(self, episode_id: str) -> None:
        self._kept.drop(episode_id)

    def stop(self) -> None:
        """Renew no more; idempotent."""
        self._stopped = True
        self._sooner.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopped:
            if self._sooner.wait(self._kept.wait_seconds):
                self._sooner.clear()
                continue
            for batch in self._kept.batches():
                with suppress(HubError):  # the hub is away: the next time will do
                    self._renew(batch)


class TaskKeeper:
    """Renews from a task, which is started when there is something to keep."""

    def __init__(self, renew: Callable[[Sequence[str]], Awaitable[object]]) -> None:
        self._renew = renew
        self._kept = Kept()
        self._sooner = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def keep(self, episode_id: str, seconds: float | None) -> None:
        if self._kept.keep(episode_id, seconds):
            self._sooner.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="leases")

    def drop(self, episode_id: str) -> None:
        self._kept.drop(episode_id)

    async def stop(self) -> None:
        """Renew no more; idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._kept.wait_seconds):
                    await self._sooner.wait()
                self._sooner.clear()
            except TimeoutError:
                for batch in self._kept.batches():
                    with suppress(HubError):  # the hub is away: the next time will do
                        await self._renew(batch)

"""Leases: who has been heard of lately, and whose time is up."""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable
from contextlib import suppress


class _Lease:
    __slots__ = ("deadline", "holders", "seconds")

    def __init__(self, seconds: float, deadline: float) -> None:
        self.seconds = seconds
        self.deadline = deadline
        self.holders = 0


class Leases:
    """A deadline for each id, moved on by every ``touch``. ``clock`` is in seconds, monotonic."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        # deadlines as they were when put here: a touch costs no more than an assignment
        self._due: list[tuple[float, str]] = []
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        return len(self._leases)

    def grant(self, id: str, seconds: float | None = None) -> None:
        """Begin a lease, of the default length unless told otherwise."""
        seconds = self._seconds if seconds is None else seconds
        lease = _Lease(seconds, self._clock() + seconds)
        self._leases[id] = lease
        if not self._due or lease.deadline < self._due[0][0]:
            self._sooner.set()
        heapq.heappush(self._due, (lease.deadline, id))

    def touch(self, id: str) -> float | None:
        """Begin it anew; returns its length in seconds, ``None`` if there is none."""
        lease = self._leases.get(id)
        if lease is None:
            return None
        if lease.deadline == math.inf:  # it was told of as expired, and lives on
            self.grant(id, lease.seconds)
        else:
            lease.deadline = self._clock() + lease.seconds
        return lease.seconds

    def hold(self, id: str) -> None:
        """Keep a lease from running out until ``let_go``; it may be held more than once."""
        lease = self._leases.get(id)
        if lease is not None:
            lease.holders += 1

    def let_go(self, id: str) -> None:
        """Hold it no longer; it begins anew."""
        lease = self._leases.get(id)
        if lease is not None:
            lease.holders = max(0, lease.holders - 1)
            self.touch(id)

    def held(self, id: str) -> bool:
        """Whether somebody holds it."""
        lease = self._leases.get(id)
        return lease is not None and lease.holders > 0

    def seconds(self, id: str) -> float | None:
        """How long a lease is."""
        lease = self._leases.get(id)
        return lease.seconds if lease is not None else None

    def drop(self, id: str) -> None:
        """End a lease before its time."""
        self._leases.pop(id, None)

    def expired(self) -> list[str]:
        """Ids whose time is up. They are told of once, unless touched or granted again."""
        now, found = self._clock(), list[str]()
        while self._due and self._due[0][0] <= now:
            _, due = heapq.heappop(self._due)
            lease = self._leases.get(due)
            if lease is None:
                continue
            if lease.holders:
                lease.deadline = now + lease.seconds
            if lease.deadline <= now:
                found.append(due)
                lease.deadline = math.inf
            elif lease.deadline < math.inf:
                heapq.heappush(self._due, (lease.deadline, due))
        return found

    def next_seconds(self) -> float:
        """Not before so many seconds can a lease run out."""
        return max(0.0, self._due[0][0] - self._clock()) if self._due else math.inf

    async def due(self, at_most_seconds: float) -> None:
        """Wait until a lease may have run out, but no longer than that."""
        self._sooner.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self.next_seconds(), at_most_seconds)):
                await self._sooner.wait()

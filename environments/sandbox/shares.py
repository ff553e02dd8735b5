"""What one tenant may have of the workers at once, so that none takes them from the others.

Workers compute and nothing else: beyond a few for each core, more of them at once finish no sooner.
So a tenant's share is a number of workers that are *busy* at the same time, starting ones included.
Idle ones cost nothing but memory, and quick calls leave their place within a millisecond; what
waits at the limit waits behind calls that take long, and those are its own. Workers are not
shared between tenants, either: a pack's globals are no way from one to another.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

NOBODY: Final = ""
"""Whose work it is where nobody was named: it has no limit of its own."""
TENANT: Final[ContextVar[str]] = ContextVar("tenant", default=NOBODY)
"""For whom workers are asked in this context."""
_UNLIMITED: Final = 1 << 30
_GATEWAY_SECONDS, _GATEWAY_PART = 0.05, 0.05
"""How much of the gateway's time a tenant's large answers may take at once, and of each second."""


class Queue(Protocol):
    """Questions that wait for workers of one kind."""

    @property
    def waiters(self) -> Sized: ...


Q = TypeVar("Q", bound=Queue)
W = TypeVar("W")


@contextmanager
def on_behalf_of(tenant: str) -> Iterator[None]:
    """What the body asks of a sandbox is asked for ``tenant``."""
    before = TENANT.set(tenant)
    try:
        yield
    finally:
        TENANT.reset(before)


class Share(Generic[Q]):
    """One tenant's: how many workers are busy for it, and which of its pools wait for that."""

    __slots__ = (
        "__weakref__",
        "_debt",
        "_owed_at",
        "_usual",
        "_waiting",
        "busy",
        "most",
        "rests_until",
    )

    def __init__(self, most: int) -> None:
        self.most = self._usual = most
        self.busy = 0
        self.rests_until = 0.0
        """Until then it may have nothing, in seconds of the loop's clock."""
        self._debt = 0.0
        self._owed_at = 0.0
        self._waiting: deque[Q] = deque()

    @property
    def full(self) -> bool:
        return self.busy >= self.most

    @property
    def limited(self) -> bool:
        """Whether it is somebody's, with others beside it."""
        return self._usual < _UNLIMITED

    @property
    def resting(self) -> bool:
        return not self.most

    def charge(self, seconds: float, now: float) -> bool:
        """It took so much of the gateway's own time, which all tenants share; whether it must rest.

        What was taken at once is paid back by and by.
        """
        self._debt = max(0.0, self._debt - (now - self._owed_at) * _GATEWAY_PART) + seconds
        self._owed_at = now
        if not self.limited or self._debt <= _GATEWAY_SECONDS:
            return False
        self.most = 0
        self.rests_until = now + (self._debt - _GATEWAY_SECONDS) / _GATEWAY_PART
        return True

    def resume(self) -> None:
        """It has rested."""
        self.most = self._usual

    @property
    def contended(self) -> bool:
        """Whether pools wait for one of the busy workers to end."""
        return bool(self._waiting)

    def queue(self, pool: Q) -> None:
        """The pool has questions and may not have another worker at them now. Idempotent."""
        if pool not in self._waiting:
            self._waiting.append(pool)

    def turns(self) -> Iterator[Q]:
        """Those that wait, longest first, each once, while there is room. What is done with one may
        have others take theirs."""
        for _ in range(len(self._waiting)):
            if self.full or not self._waiting:
                return
            pool = self._waiting.popleft()
            if pool.waiters:
                yield pool


def least_missed(idle: Mapping[W, Share[Any]]) -> W | None:
    """Which of the idle workers, longest idle first, is to make room: one of whoever has most of
    them, so that a tenant with many environments costs none with a few its only worker."""
    have = Counter(idle.values())
    most = max(have.values(), default=0)
    return next((worker for worker, share in idle.items() if have[share] == most), None)


class Shares(Generic[Q]):
    """The shares of all tenants that have work. ``serve`` lets those of one go on that wait."""

    def __init__(
        self, most: int, loop: asyncio.AbstractEventLoop, serve: Callable[[Share[Q]], None]
    ) -> None:
        self._most = most
        self._loop = loop
        self._serve = serve
        self._of: WeakValueDictionary[str, Share[Q]] = WeakValueDictionary()
        self._nobody: Share[Q] = Share(_UNLIMITED)

    def of(self, tenant: str) -> Share[Q]:
        if tenant == NOBODY:
            return self._nobody
        share = self._of.get(tenant)
        if share is None:
            share = self._of[tenant] = Share(self._most)
        return share

    def charge(self, share: Share[Q], seconds: float) -> None:
        """So much of the gateway's own time went into an answer; who takes much of it rests."""
        rested = share.resting
        if share.charge(seconds, self._loop.time()) and not rested:
            self._loop.call_at(share.rests_until, self._resume, share)

    def _resume(self, share: Share[Q]) -> None:
        if share.rests_until > self._loop.time():  # it was charged again meanwhile
            self._loop.call_at(share.rests_until, self._resume, share)
        else:
            share.resume()
            self._serve(share)

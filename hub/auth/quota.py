"""What one token may take: buckets that fill with time, and are refused once empty."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Annotated

import msgspec

from hub.errors import QuotaExceeded

DAY_SECONDS = 86_400.0
LONGEST_WAIT_SECONDS = 3600


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """0 is no limit."""

    episodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Episodes of its tenant that are held in memory when it begins or takes up another."""
    calls_per_second: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Requests, each entry of a batch counted; a second's worth may come at once."""
    bytes_per_day: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Bodies of requests and answers, and what its calls write, filled up evenly over the day."""

    def or_else(self, others: Limits) -> Limits:
        """These, and of the others where there is none."""
        return Limits(
            episodes=self.episodes or others.episodes,
            calls_per_second=self.calls_per_second or others.calls_per_second,
            bytes_per_day=self.bytes_per_day or others.bytes_per_day,
        )


NO_LIMITS = Limits()


class Bucket:
    """``capacity`` that comes back at ``per_second``. Whoever takes more than is there owes it."""

    __slots__ = ("_at", "_capacity", "_clock", "_left", "_per_second")

    def __init__(self, capacity: float, per_second: float, clock: Callable[[], float]) -> None:
        self._capacity = self._left = capacity
        self._per_second = per_second
        self._clock = clock
        self._at = clock()

    def wait_seconds(self) -> float:
        """How long until something is there again; 0 if something is."""
        now = self._clock()
        self._left = min(self._capacity, self._left + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, (1.0 - self._left) / self._per_second)

    def take(self, amount: float) -> None:
        self._left -= amount


class Quota:
    """The limits of one token, and what is left of them. ``clock`` is in seconds, monotonic."""

    __slots__ = ("_bytes", "_calls", "limits")

    def __init__(
        self,
        limits: Limits = NO_LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        rate, size = limits.calls_per_second, limits.bytes_per_day
        self._calls = Bucket(max(1.0, rate), rate, clock) if rate else None
        self._bytes = Bucket(size, size / DAY_SECONDS, clock) if size else None

    @property
    def weighs(self) -> bool:
        """Whether anybody need count bytes."""
        return self._bytes is not None

    def call(self, count: int = 1) -> None:
        """Take that many calls. Raises ``QuotaExceeded`` where none is left, or no bytes are."""
        if self._bytes is not None and (wait := self._bytes.wait_seconds()):
            raise _exceeded("bytes_per_day", self.limits.bytes_per_day, wait)
        if self._calls is not None:
            if wait := self._calls.wait_seconds():
                raise _exceeded("calls_per_second", self.limits.calls_per_second, wait)
            self._calls.take(count)

    def weigh(self, size_bytes: int) -> None:
        """So many bytes have gone by."""
        if self._bytes is not None:
            self._bytes.take(size_bytes)


def _exceeded(limit: str, allowed: float, wait_seconds: float) -> QuotaExceeded:
    return QuotaExceeded(
        f"this token's limit {limit} of {allowed:g} is used up",
        hint="come back later, or ask for a token with a higher limit",
        limit=limit,
        retry_after_seconds=min(LONGEST_WAIT_SECONDS, max(1, math.ceil(wait_seconds))),
    )

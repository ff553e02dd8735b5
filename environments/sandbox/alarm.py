"""A timer for what is put off again and again, and hardly ever comes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Calls ``ring`` when the time it was last set to has come, unless it was stopped.

    Setting and stopping it costs an assignment: the loop's own timer is left to run, and set anew
    where it comes too early.
    """

    __slots__ = ("_at", "_loop", "_ring", "_timer", "_wakes_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._at = math.inf
        self._wakes_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        return self._at < math.inf

    def set(self, at: float) -> None:
        """Ring at ``at``, in seconds of the loop's clock, and not when it was to ring before."""
        self._at = at
        if at < self._wakes_at:
            self._wake_at(at)

    def stop(self) -> None:
        """Do not ring."""
        self._at = math.inf

    def close(self) -> None:
        """Stop for good, and be referred to by nobody."""
        self.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._wakes_at = None, math.inf

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = at
        self._timer = self._loop.call_at(at, self._wake)

    def _wake(self) -> None:
        self._timer, self._wakes_at = None, math.inf
        if self._at <= self._loop.time():
            self._at = math.inf
            self._ring()
        elif self._at < math.inf:
            self._wake_at(self._at)

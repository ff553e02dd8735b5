"""The workers of one kind, and who waits for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from environments.errors import EnvhubError, WorkersBusy
from environments.sandbox import wire
from environments.sandbox.shares import Share
from environments.sandbox.worker import Question, Worker

_PATIENT_FAILURES = 1
"""A worker may end badly so many times in a row before the next one is made to wait."""
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.05, 2.0


class Waiting(NamedTuple):
    ticket: int
    since: float
    question: Question


class Pool:
    """The workers of one kind: same job, same pack, same snapshot."""

    share: Share[Pool]
    """Of the tenant it works for."""

    def __init__(self, environment: str, load: Callable[[int], wire.Request], limit: int) -> None:
        self.environment = environment
        self.load = load
        self.limit = limit
        self.breed = wire.Breed.PLAIN
        self.single_use = False
        self.spares = 0
        """How many idle workers to keep ahead of the queue; for single use."""
        self.memory_bytes = 0
        self.owner: object = None
        """Kept alive so that nothing else is taken for it."""
        self.workers = 0
        self.depth = 1
        """The most questions a worker may have before it, while answers come quickly."""
        self.usual_seconds = 1.0
        """How long an answer takes, smoothed."""
        self.idle: list[Worker] = []
        self.starting = 0
        self.failures = 0
        """How many workers in a row ended badly, before they had answered anything well."""
        self.starts_at = 0.0
        """No worker is started before that, in seconds of the loop's clock."""
        self.timer: asyncio.TimerHandle | None = None
        """Starts those that are to come later."""
        self.waiters: deque[Waiting] = deque()
        self._refusal: tuple[float, EnvhubError] | None = None
        """When a start failed last, and why, until one succeeds."""

    @property
    def size(self) -> int:
        return self.workers + self.starting

    def take(self, slot: int) -> Worker | None:
        """An idle worker, rather one that knows the branch in that slot; it is idle no longer."""
        for position in range(len(self.idle) - 1, -1, -1):
            if slot in self.idle[position].known:
                return self.idle.pop(position)
        return self.idle.pop() if self.idle else None

    def refuse(self, error: EnvhubError, now: float) -> None:
        """No worker came of it: those who wait are told why, all if it would only fail again or
        no other worker is there or comes."""
        self._refusal = now, error
        told = len(self.waiters) if error.kind == "environment" or not self.size else 1
        while self.waiters and told:
            question = self.waiters.popleft().question
            if not question.answer.done():
                question.fail(error.with_traceback(None))
                told -= 1

    def started(self) -> None:
        """A worker has come, and may be asked."""
        self.starting -= 1
        self.workers += 1
        self._refusal = None

    def turn_away(self, now: float, seconds: float) -> None:
        """Those who have queued so long wait no longer; they are told why no worker came."""
        while self.waiters and self.waiters[0].since <= now - seconds:
            waiting = self.waiters.popleft()
            if self._refusal is not None and self._refusal[0] >= waiting.since:
                waiting.question.fail(self._refusal[1].with_traceback(None))
                continue
            waiting.question.fail(
                WorkersBusy(
                    f"no worker for {self.environment} was free within {seconds:g} seconds",
                    hint="allow more workers, or send fewer slow calls at a time",
                )
            )

    def failed(self, now: float) -> None:
        """A worker ended badly. Those that follow come the slower the more do: a crash costs the
        pack nothing, and everybody else a fork and a load."""
        self.failures += 1
        over = self.failures - _PATIENT_FAILURES
        if over > 0:
            wait = _FIRST_WAIT_SECONDS * 2 ** min(over - 1, 10)
            self.starts_at = now + min(wait, _LONGEST_WAIT_SECONDS)

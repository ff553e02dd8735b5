"""What each worker holds of its own, beyond what it shares with the zygote it was forked from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from environments.sandbox.confine import processes
from environments.sandbox.worker import Worker

_AT_FIRST_BYTES = 10 << 20
"""What a worker is taken to hold before any was looked at."""
_FILLED = 0.95
"""How much of the budget is given out: workers grow before they are looked at again."""


class Holdings:
    """The memory of the workers there are, as it was last looked at; a new one has the usual."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.total_bytes = 0
        self._bytes: dict[Worker, int] = {}
        self._since: dict[Worker, float] = {}

    def __getitem__(self, worker: Worker) -> int:
        return self._bytes[worker]

    @property
    def usual_bytes(self) -> int:
        return self.total_bytes // len(self._bytes) if self._bytes else _AT_FIRST_BYTES

    @property
    def over_budget(self) -> bool:
        return self.total_bytes > self.budget_bytes

    def full(self, coming: int) -> bool:
        """Whether there is no room for so many more, and for those there are to grow a little."""
        wanted = self.total_bytes + coming * self.usual_bytes
        return wanted > self.budget_bytes * _FILLED

    def add(self, worker: Worker) -> None:
        self._put(worker, self.usual_bytes)

    def remove(self, worker: Worker) -> None:
        self.total_bytes -= self._bytes.pop(worker)
        self._since.pop(worker, None)

    async def look(self) -> None:
        """Look at those that have been at work since the last time, away from the event loop."""
        looked = {
            worker: worker.since
            for worker in self._bytes
            if worker.load or self._since.get(worker) != worker.since
        }
        pids = [worker.pid for worker in looked]
        sizes = await asyncio.get_running_loop().run_in_executor(None, _sizes, pids)
        for (worker, since), size in zip(looked.items(), sizes, strict=True):
            if worker in self._bytes:  # it has not ended meanwhile
                self._put(worker, size)
                self._since[worker] = since

    def _put(self, worker: Worker, size: int) -> None:
        self.total_bytes += size - self._bytes.get(worker, 0)
        self._bytes[worker] = size


def _sizes(pids: Collection[int]) -> list[int]:
    return [processes.own_bytes(pid) for pid in pids]

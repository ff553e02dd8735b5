"""An event loop without files: a worker may open no socket, and waits for nothing but time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class _NoFiles:
    """Stands where an event loop keeps its files."""

    def select(self, timeout: float | None) -> list[NoReturn]:
        if timeout is None:
            raise RuntimeError("the application waits for something that will never happen")
        if timeout > 0:
            time.sleep(timeout)
        return []


class TimeLoop(asyncio.BaseEventLoop):
    """Runs coroutines one at a time, each to its end; what they leave behind is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoFiles()

    def _process_events(self, event_list: list[NoReturn]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What ``coroutine`` returns. Raises what it raises."""
        try:
            return self.run_until_complete(coroutine)
        finally:
            for task in asyncio.all_tasks(self):
                task.cancel()


async def at_once(function: Callable[..., T], *arguments: Any, **_: Any) -> T:
    """Stands where ``anyio.to_thread.run_sync`` was: a thread could outlive its call."""
    return function(*arguments)

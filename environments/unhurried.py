"""Work that ends whatever becomes of who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_running: set[asyncio.Task[Any]] = set()  # a task that nobody refers to may be collected


async def unhurried(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` in a task of its own: cancelling the waiting does not cancel the work."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_done)
    return await asyncio.shield(task)


def _done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # whoever waited may be gone: then nobody else takes it

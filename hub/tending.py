"""Parks episodes whose lease ran out, and closes those that nobody came back to."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from environments.errors import EnvhubError
from hub.episodes import Episodes
from hub.telemetry import logger

SWEEP_SECONDS = 60.0
"""How often those parked too long are looked for."""

log = logger("hub.tending")


@asynccontextmanager
async def tended(episodes: Episodes) -> AsyncIterator[None]:
    """Leases hold while the body runs; whatever is live in the ledger is given a new one first."""
    for row in episodes.ledger.unclosed():
        episodes.leases.grant(row.id, row.enrolled.lease_seconds)
    task = asyncio.create_task(_tend(episodes), name="leases")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tend(episodes: Episodes) -> None:
    swept = -math.inf
    while True:
        await asyncio.gather(*(_park(episodes, each) for each in episodes.leases.expired()))
        if time.monotonic() - swept >= SWEEP_SECONDS:
            swept = time.monotonic()
            await _end_retention(episodes)
        await episodes.leases.due(SWEEP_SECONDS)


async def _park(episodes: Episodes, episode_id: str) -> None:
    try:
        await episodes.park(episode_id)
    except EnvhubError as error:  # its lease began anew: it is tried again
        log.warning("not parked", episode_id=episode_id, code=error.code, message=str(error))


async def _end_retention(episodes: Episodes) -> None:
    before_ms = int((time.time() - episodes.tenure.retention_seconds) * 1000)
    try:
        for episode_id in await episodes.ledger.parked_before(before_ms):
            await episodes.expire(episode_id)
    except EnvhubError as error:
        log.warning("retention not kept", code=error.code, message=str(error))

"""How many workers there are, and what became of those before."""

from __future__ import annotations

import msgspec

from environments.sandbox.crew import Crew


class PoolStatistics(msgspec.Struct, frozen=True):
    workers: int
    idle: int
    starting: int
    queued: int


class Statistics(msgspec.Struct, frozen=True):
    """Workers now, and what became of those before."""

    environments: dict[str, PoolStatistics]
    workers: int
    queued: int
    starts: int
    ends: dict[str, int]
    """How many workers ended, by reason: evicted, idle, deadline, exited, lost, frame, …"""
    resident_bytes: int
    """Memory of all workers when last looked at, without what they share."""
    layers: tuple[str, ...]
    missing_layers: tuple[str, ...]


def statistics_of(crew: Crew) -> Statistics:
    """What is there now; cheap."""
    environments: dict[str, PoolStatistics] = {}
    for pool in crew.pools.values():
        before = environments.get(pool.environment, PoolStatistics(0, 0, 0, 0))
        environments[pool.environment] = PoolStatistics(
            before.workers + pool.workers,
            before.idle + len(pool.idle),
            before.starting + pool.starting,
            before.queued + len(pool.waiters),
        )
    return Statistics(
        environments,
        sum(each.workers for each in environments.values()),
        sum(each.queued for each in environments.values()),
        crew.starts,
        dict(crew.ends),
        crew.holdings.total_bytes,
        crew.layers.active,
        crew.layers.missing,
    )

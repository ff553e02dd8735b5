"""What a sandbox is given: its limits, and whom to tell what happens in it."""

from __future__ import annotations

import os
from typing import Protocol

import msgspec


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What all workers together may use."""

    max_workers: int = 64
    workers_per_environment: int = max(1, (os.cpu_count() or 1) - 1)
    """By default one core is left to the gateway."""
    workers_per_tenant: int = max(2, 2 * (os.cpu_count() or 1))
    """How many may be busy for one tenant at a time, where tenants are named."""
    memory_budget_bytes: int = 2 << 30
    """What workers may hold beyond what they share with the zygote, before idle ones go."""
    max_frame_bytes: int = 8 << 20
    """The largest answer of a worker: result, changes and changed pages."""
    start_timeout_seconds: float = 30.0  # for a pack's code to load
    score_timeout_seconds: float = 30.0
    build_timeout_seconds: float = 300.0
    build_memory_bytes: int = 4 << 30
    build_file_bytes: int = 16 << 30
    queue_timeout_seconds: float = 120.0
    idle_seconds: float = 300.0
    niceness: int = 10
    """How far workers stand back from the gateway (0 to 19); where tenants are named, those whose
    call takes long go to 19 until it ends."""
    without: tuple[str, ...] = ()
    """Layers of the confinement to leave out, by name: to find out what holds what."""


class OnEvent(Protocol):
    """Hears of what happens to workers, for logs and metrics."""

    def __call__(self, kind: str, environment: str, **fields: object) -> None: ...

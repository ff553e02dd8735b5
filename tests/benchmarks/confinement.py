"""What the confinement costs: a worker's start, and calls, with and without its layers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from environments.catalogue import load_pack
from environments.sandbox.confine.layers import LAYERS
from environments.sandbox.host import Moment, Sandbox, SandboxLimits
from snapshots import Branch, SnapshotStore
from tests.benchmarks.rows import Row

PACK = Path(__file__).parent / "packs" / "bench"
ROUNDS = 24
STARTS, SECONDS, IN_FLIGHT = 10, 0.3, 8
BARE = tuple(layer for layer in LAYERS if layer != "niceness")
"""Niceness is no cost but a place in the queue."""


def run() -> Iterator[Row]:
    """The best of many turns of each: what else the machine does only ever slows."""
    confined, bare = asyncio.run(measure())
    start, bare_start = min(confined.starts) * 1000, min(bare.starts) * 1000
    yield Row(
        name="start of a worker, confined against bare",
        value=round(start, 2),
        unit="ms",
        baseline=round(bare_start, 2),
        ratio=round(start - bare_start, 2),
        target="< 5 (more)",
    )
    rate, bare_rate = max(confined.rates), max(bare.rates)
    yield Row(
        name=f"tool calls with {IN_FLIGHT} in flight, confined against bare",
        value=round(rate),
        unit="1/s",
        baseline=round(bare_rate),
        ratio=round(rate / bare_rate, 3),
        target=">= 0.9",
    )


class Side:
    """One of two sandboxes that take turns."""

    def __init__(self, sandbox: Sandbox, store: SnapshotStore) -> None:
        self.starts: list[float] = []
        self.rates: list[float] = []
        self._sandbox = sandbox
        self._pack = load_pack(PACK)
        self._snapshot = store.build(self._pack.recipe())

    async def take_turn(self) -> None:
        for _ in range(STARTS):
            began = time.perf_counter()
            await self._sandbox.layers()
            self.starts.append(time.perf_counter() - began)
        counts = await asyncio.gather(*(self._call() for _ in range(IN_FLIGHT)))
        self.rates.append(sum(counts) / SECONDS)

    async def _call(self) -> int:
        branch, count = Branch(self._snapshot), 0
        moment = Moment(self._pack.spec.clock.start_ms, 0, {})
        arguments = {"text": "x", "quantity": 1, "note": True}
        deadline = time.perf_counter() + SECONDS
        while time.perf_counter() < deadline:
            done = await self._sandbox.call(self._pack, branch, moment, "take", arguments)
            assert done.error is None, done.error
            count += 1
        return count


async def measure() -> tuple[Side, Side]:
    with TemporaryDirectory(prefix="envhub-bench-") as folder:
        store = SnapshotStore(Path(folder))
        async with (
            Sandbox(SandboxLimits()) as confined,
            Sandbox(SandboxLimits(without=BARE), on_event=lambda *_, **__: None) as bare,
        ):
            sides = Side(confined, store), Side(bare, store)
            for number in range(ROUNDS + 1):
                for side in sides if number % 2 else reversed(sides):
                    await side.take_turn()
                if number == 0:  # warm
                    for side in sides:
                        side.starts.clear()
                        side.rates.clear()
        return sides

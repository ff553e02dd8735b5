"""What a trainer asks for: groups that are ready at once, and many calls in one request."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from hub.app import Hub as OpenHub
from hub.settings import Settings
from hub.telemetry import configure_logging
from hub.training import CreateGroup
from hub.wire import CreateEpisode
from tests.benchmarks.rows import Row
from tests.benchmarks.serving import PACKS, Hub, compared, hub, rate

GROUP = 64
BATCH = 256
TIMES = 30


def run() -> Iterator[Row]:
    configure_logging("warning", "json")
    yield from uvloop.run(groups())
    with hub("none") as server:
        yield from batches(server)


async def groups() -> list[Row]:
    """A group against one reset of a like episode, within the hub's process."""
    rows = []
    for durability in ("none", "step"):
        with tempfile.TemporaryDirectory(prefix="envhub-bench-") as folder:
            settings = Settings(
                data_dir=Path(folder), packs=(PACKS,), shipped=False, durability=durability
            )
            async with OpenHub.open(settings) as opened:
                rows.append(await group_beyond_reset(opened, durability))
    return rows


async def group_beyond_reset(opened: OpenHub, durability: str) -> Row:
    catalogue = opened.environments.catalogue
    task = next(iter(catalogue.get("bench").tasks))
    single = await opened.episodes.create(CreateEpisode(environment="bench", task=task))
    resets, groups = [], []
    for number in range(TIMES):
        started = time.perf_counter()
        await single.reset(seed=number)
        resets.append(time.perf_counter() - started)
        request = CreateGroup(environment="bench", task=task, size=GROUP, seed=number)
        started = time.perf_counter()
        group = await opened.groups.create(request)
        groups.append(time.perf_counter() - started)
        await opened.groups.close(group)
    reset, group_ms = statistics.median(resets) * 1000, statistics.median(groups) * 1000
    return Row(
        name=f"a group of {GROUP} ready, beyond one reset, durability {durability}",
        value=round(group_ms - reset, 2),
        unit="ms",
        baseline=round(reset, 3),
        ratio=round((group_ms - reset) / reset, 1),
        target="< 15 ms",
    )


def batches(server: Hub) -> Iterator[Row]:
    """Calls a second of batches on one connection, against single calls on one and on 32."""
    ids = server.create(BATCH)
    call = {"tool": "take", "arguments": {"text": "gift", "quantity": 2}}
    single = [[post(f"/v1/episodes/{each}/call", call, server.port)] for each in ids]
    together = {"calls": [{"episode": each, **call} for each in ids]}
    batch = [[post("/v1/episodes/batch/call", together, server.port)]]
    one, many = rate(single[:1], server.port), rate(single[:32], server.port)
    batched = rate(batch, server.port) * BATCH
    name = f"calls of {BATCH} episodes in one request, against single requests on"
    yield compared(f"{name} one connection", batched, one, ">= 2")
    yield compared(f"{name} 32 connections", batched, many, ">= 1")


def post(path: str, body: dict[str, Any], port: int) -> str:
    encoded = json.dumps(body)
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(encoded)}",
    ]
    return "\r\n".join([*lines, "", encoded])

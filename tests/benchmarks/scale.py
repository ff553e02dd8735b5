"""A hub with a thousand packs: its start, its memory, its listing, first calls, its workers."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.rows import Row
from tests.benchmarks.serving import Hub, free_port, process, resident_bytes
from tests.many_packs import CALL, make_packs, name_of

PACKS = 1000
FIRST_CALLS = 50
WORKER_BUDGET_MB = 1000
SAMPLE_SECONDS = 0.25


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="envhub-scale-") as folder:
        packs, data = Path(folder) / "packs", Path(folder) / "data"
        packs.mkdir()
        make_packs(packs, PACKS)
        with started(None, Path(folder) / "few") as (few, few_seconds):
            few_bytes = resident_bytes(few.pid)
        with started(packs, data) as (hub, seconds):
            yield Row(
                name=f"start with {PACKS:,} packs, against the shipped ones alone",
                value=round(seconds, 2),
                unit="s",
                baseline=round(few_seconds, 2),
                ratio=round(few_seconds / seconds, 2),
                target="< 3 s",
            )
            yield memory("idle hub", hub, few_bytes, "< 400 MB")
            yield from listing(hub)
            yield from first_calls(hub, "built, described and called for the first time", 0)
            yield memory("idle hub after listing and some calls", hub, few_bytes, "< 400 MB")
        with started(packs, data) as (hub, seconds):
            yield from first_calls(hub, "known from before", 0)
            yield from in_turn(hub)
            yield memory("hub after calls over all", hub, few_bytes, "< 400 MB")


@contextlib.contextmanager
def started(packs: Path | None, data: Path) -> Iterator[tuple[Hub, float]]:
    """A hub in a process of its own, and how long it took until it was ready."""
    port = free_port()
    os.environ["ENVHUB_WORKER_MEMORY_BYTES"] = str(WORKER_BUDGET_MB * 1_000_000)
    command = [str(Path(sys.executable).with_name("envhub")), "serve", "--port", str(port)]
    command += ["--data-dir", str(data), "--log-level", "warning"]
    command += ["--packs", str(packs)] if packs else []
    began = time.perf_counter()
    with process(command, f"http://127.0.0.1:{port}/readyz") as pid:
        yield Hub(port, pid, data), time.perf_counter() - began


def memory(name: str, hub: Hub, baseline: int, target: str) -> Row:
    used = resident_bytes(hub.pid)
    return Row(
        name=f"{name}, against one with the shipped packs",
        value=round(used / 1e6, 1),
        unit="MB",
        baseline=round(baseline / 1e6, 1),
        ratio=round(baseline / used, 2),
        target=target,
    )


def listing(hub: Hub) -> Iterator[Row]:
    first = timed(lambda: get(hub, "/v1/environments"))
    again = timed(lambda: get(hub, "/v1/environments"))
    yield Row(
        name="list the environments, the second time against the first",
        value=round(again * 1e3, 1),
        unit="ms",
        baseline=round(first * 1e3, 1),
        ratio=round(first / again, 1),
        target="",
    )
    found = timed(lambda: get(hub, "/v1/environments?q=library%20health&tag=payments"))
    yield Row(
        name="search them, against listing all",
        value=round(found * 1e3, 1),
        unit="ms",
        baseline=round(again * 1e3, 1),
        ratio=round(again / found, 1),
    )


def first_calls(hub: Hub, what: str, start: int) -> Iterator[Row]:
    """From "no worker" to the answer: the episode is begun and its first call is made."""
    times, warm = [], []
    for number in range(start, start + FIRST_CALLS):
        began = time.perf_counter()
        call(hub, number)
        times.append(time.perf_counter() - began)
        began = time.perf_counter()
        call(hub, number)
        warm.append(time.perf_counter() - began)
    usual = statistics.median(warm)
    for which, value in (("median", statistics.median(times)), ("slowest", max(times))):
        yield Row(
            name=f"begin and call, {what} ({which} of {FIRST_CALLS}), against a warm one",
            value=round(value * 1e3, 1),
            unit="ms",
            baseline=round(usual * 1e3, 1),
            ratio=round(usual / value, 2),
            target="< 200 ms",
        )


def in_turn(hub: Hub) -> Iterator[Row]:
    """An episode and a call in each environment, one after the other; what workers hold then."""
    samples: list[tuple[int, int]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            samples.append(held(hub.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.perf_counter()
    try:
        for number in range(PACKS):
            call(hub, number)
    finally:
        done.set()
        watching.join()
    seconds = time.perf_counter() - began
    most = max(held_bytes for held_bytes, _ in samples)
    workers = max(count for _, count in samples)
    yield Row(
        name=f"what up to {workers} workers hold of their own, calls over all in turn",
        value=round(most / 1e6),
        unit="MB",
        baseline=WORKER_BUDGET_MB,
        ratio=round(WORKER_BUDGET_MB / (most / 1e6), 1),
        target=f"< {WORKER_BUDGET_MB} MB",
    )
    yield Row(
        name="environments begun and called in turn",
        value=round(PACKS / seconds, 1),
        unit="1/s",
        baseline=0,
        ratio=0,
    )


def call(hub: Hub, number: int) -> None:
    episode = hub.post("/v1/episodes", {"environment": name_of(number)})["id"]
    step = hub.post(f"/v1/episodes/{episode}/call", CALL)["step"]
    assert f"of {number}" in json.dumps(step["result"]), step


def held(hub: int) -> tuple[int, int]:
    """The memory that the hub's workers do not share with their zygote, and how many there are."""
    total = count = 0
    for zygote in children(hub):
        for worker in children(zygote):
            with contextlib.suppress(OSError):
                total += own_bytes(worker)
                count += 1
    return total, count


def own_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def get(hub: Hub, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{hub.port}{path}", timeout=120) as answer:
        return json.load(answer)

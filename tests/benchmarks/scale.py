"""A hub with a thousand packs: its start, its memory, its listing, first calls, its workers.

Times are those of a machine with nothing else to do: workers stand back from whatever else runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from tests.awm_files import write_awm
from tests.benchmarks.rows import Row
from tests.benchmarks.serving import Hub, free_port, process, resident_bytes
from tests.many_packs import CALL, copy_pack, make_packs, name_of

ENVHUB = str(Path(sys.executable).with_name("envhub"))
AWM_CALL = {"tool": "list_jobs", "arguments": {}}
PACKS = 1000
FIRST_CALLS = 40
WORKER_BUDGET_MB = 1000
SAMPLE_SECONDS = 0.25


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="envhub-scale-") as folder:
        packs, data = Path(folder) / "packs", Path(folder) / "data"
        packs.mkdir()
        make_packs(packs, PACKS)
        with started(None, Path(folder) / "few") as (few, few_seconds):
            few_bytes, few_processor = resident_bytes(few.pid), processor_seconds(few.pid)
        with started(packs, data) as (hub, seconds):
            yield Row(
                name=f"start with {PACKS:,} packs, against the shipped ones alone",
                value=round(seconds, 2),
                unit="s",
                baseline=round(few_seconds, 2),
                ratio=round(few_seconds / seconds, 2),
                target="< 3 s",
            )
            processor = processor_seconds(hub.pid)
            yield Row(
                name="the processor time of that",
                value=round(processor, 2),
                unit="s",
                baseline=round(few_processor, 2),
                ratio=round(few_processor / processor, 2),
            )
            yield memory("idle hub", hub, few_bytes, "< 400 MB")
            yield from listing(hub)
            yield from first_calls(hub, "never opened before", name_of, CALL)
            yield memory("idle hub after listing and some calls", hub, few_bytes, "< 400 MB")
        with started(packs, data) as (hub, seconds):
            yield from first_calls(hub, "known from before", name_of, CALL)
            yield from in_turn(hub)
            yield memory("hub after calls over all", hub, few_bytes, "< 400 MB")
        applications = Path(folder) / "applications"
        make_applications(applications, Path(folder) / "awm")
        with started(applications, Path(folder) / "other") as (hub, _):
            call(hub, application(FIRST_CALLS), AWM_CALL)  # starts the zygote that has FastAPI
            yield from first_calls(hub, "an application never opened", application, AWM_CALL)


def application(number: int) -> str:
    return f"shop-{number:03}"


def make_applications(packs: Path, files: Path) -> None:
    """Copies of a pack that was imported from Agent World Model's files."""
    files.mkdir()
    command = [ENVHUB, "import", "awm", str(write_awm(files)), "--into", str(packs)]
    subprocess.run([*command, "--only", "repair_shop", "--no-check"], check=True, stdout=DEVNULL)
    for number in range(FIRST_CALLS + 1):
        copy_pack(packs / "repair_shop", application(number))


@contextlib.contextmanager
def started(packs: Path | None, data: Path) -> Iterator[tuple[Hub, float]]:
    """A hub in a process of its own, and how long it took until it was ready."""
    port = free_port()
    command = ["env", f"ENVHUB_WORKER_MEMORY_BYTES={WORKER_BUDGET_MB * 1_000_000}"]
    command += ["ENVHUB_MAX_WORKERS=1000", ENVHUB, "serve", "--port", str(port)]
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


def first_calls(
    hub: Hub, what: str, named: Callable[[int], str], asked: dict[str, Any]
) -> Iterator[Row]:
    """From "no worker" to the answer: the episode is begun and its first call is made."""
    times, warm = [], []
    for number in range(FIRST_CALLS):
        for found in (times, warm):
            began = time.perf_counter()
            call(hub, named(number), asked)
            found.append(time.perf_counter() - began)
    usual = statistics.median(warm)
    for which, value in (("median", statistics.median(times)), ("slowest", max(times))):
        yield Row(
            name=f"begin and call, {what} ({which} of {FIRST_CALLS}), against a warm one",
            value=round(value * 1e3, 1),
            unit="ms",
            baseline=round(usual * 1e3, 1),
            ratio=round(usual / value, 2),
            target="< 200 ms" if asked is CALL else "< 1000 ms",
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
            step = call(hub, name_of(number), CALL)
            assert f"of {number}" in json.dumps(step["result"]), step
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


def call(hub: Hub, name: str, asked: dict[str, Any]) -> Any:
    """The step of a call in a new episode."""
    episode = hub.post("/v1/episodes", {"environment": name})["id"]
    step = hub.post(f"/v1/episodes/{episode}/call", asked)["step"]
    assert not step.get("error"), step
    return step


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


def processor_seconds(hub: int) -> float:
    """What a hub and its zygotes have used of a processor."""
    ticks = 0
    for pid in (hub, *children(hub)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # with children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


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

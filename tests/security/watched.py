"""A hub in a process of its own that tells what it holds: ``python -m tests.security.watched``.

For the fuzz of requests. A line ``look`` on its standard input is answered with one of JSON;
``--broken`` puts in a fault that the fuzz must find.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hub.app import Hub
from hub.server import serve
from hub.settings import Settings
from hub.telemetry import configure_logging

PACKS = Path(__file__).parents[1] / "packs"


class Holds(msgspec.Struct, frozen=True):
    """What a hub holds at one moment."""

    descriptors: int
    """Beside the one that each worker has."""
    tasks: tuple[str, ...]
    """By the names of what they run."""
    resident_bytes: int


class Watched:
    """The hub's process, its port and its log."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder / "hub.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.security.watched", str(folder / "data"), *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.port = int(self._line())

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def look(self) -> Holds:
        assert self._process.stdin is not None
        self._process.stdin.write(b"look\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._line(), type=Holds)

    def stop(self) -> int:
        """As an operator would; returns the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(30)
        finally:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the hub is gone: {self.log.read_text()[-3000:]}"
        return line


@contextmanager
def watched(folder: Path, *options: str) -> Iterator[Watched]:
    """A hub with the test shop; its process ends with the body."""
    hub = Watched(folder, *options)
    try:
        yield hub
    finally:
        hub.stop()


def holds(hub: Hub) -> Holds:
    gc.collect()
    workers = sum(pool.workers for pool in hub.sandbox.statistics().environments.values())
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Holds(
        descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()) - workers,
        tasks=tuple(sorted(_name(task) for task in asyncio.all_tasks())),
        resident_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
    )


def _name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", repr(task))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.security.watched", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--broken", action="store_true")
    options = parser.parse_args()
    settings = Settings(
        data_dir=options.data,
        packs=(PACKS / "shop",),
        shipped=False,
        port=0,
        max_workers=2,
        max_episodes=2000,
        lease_seconds=2.0,
        receive_seconds=2.0,
        log_level="warning",
    )
    configure_logging(settings.log_level, settings.log_format)

    def started(hub: Hub, address: str) -> None:
        if options.broken:
            _break(hub)

        def tell() -> None:
            sys.stdin.readline()
            print(json.dumps(msgspec.to_builtins(holds(hub))), flush=True)

        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), tell)
        print(address.rpartition(":")[2], flush=True)

    serve(settings, started)


def _break(hub: Hub) -> None:
    """What nobody foresaw: every third look for an episode is answered by a fault of ours."""
    lookup = hub.episodes.lookup
    numbers = itertools.count()

    async def broken(*given: Any) -> Any:
        if next(numbers) % 3 == 2:
            raise ZeroDivisionError("a fault put in")
        return await lookup(*given)

    hub.episodes.lookup = broken  # type: ignore[method-assign]


if __name__ == "__main__":
    main()

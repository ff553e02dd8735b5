"""A real ``envhub serve`` in a process of its own, for tests that kill it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PACKS = Path(__file__).parents[1] / "packs"
LISTENING = re.compile(r"listening on (https?://\S+)")
STOP_SECONDS = 30


class Served:
    """The process and its address."""

    def __init__(
        self, data_dir: Path, *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        options = ("--port", "0", "--log-level", "warning", "--data-dir", str(data_dir), *options)
        packs = ("--packs", str(PACKS / "shop"))
        self.log = data_dir.parent / "hub.log"
        self._log = self.log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hub.cli", "serve", *packs, *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        assert self.process.stdout is not None
        self.address = ""
        for line in self.process.stdout:
            if found := LISTENING.search(line):
                self.address = found[1]
                break
        if not self.address:
            self.close()
            raise AssertionError(self.log.read_text())

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """As an operator would; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@contextmanager
def served(
    data_dir: Path, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """A hub with the test shop; whatever happens, its process ends with the body."""
    hub = Served(data_dir, *options, environment=environment)
    try:
        yield hub
    finally:
        hub.close()

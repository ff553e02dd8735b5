"""A hub of one's own for the length of a ``with``: a process on a free port of loopback."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hub.client.errors import HubUnreachable
from hub.settings import environment_without_barriers

START_SECONDS = 60.0
STOP_SECONDS = 15.0
LISTENING = re.compile(r"listening on (https?://\S+)")


@contextmanager
def local_hub(*options: str) -> Iterator[str]:
    """Start ``envhub serve`` with a data directory that goes with it; yields its address.

    ``options`` are those of ``envhub serve``; of the settings in the environment none holds that
    asks for tokens or speaks TLS. Raises ``HubUnreachable`` with what it said if it
    does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="envhub-") as scratch:
        said = Path(scratch) / "log"
        command = [sys.executable, "-m", "hub.cli", "serve", "--host", "127.0.0.1", "--port", "0"]
        command += ["--data-dir", f"{scratch}/data", "--log-level", "warning", *options]
        with said.open("wb") as log:
            hub = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment_without_barriers(),
                text=True,
            )
        try:
            address = _address(hub)
            if not address:
                raise HubUnreachable(f"the hub did not start: {said.read_text().strip()[-2000:]}")
            yield address
        finally:
            _stop(hub)


@contextmanager
def hub_at(url: str | None) -> Iterator[str]:
    """The hub at that address, or without one a hub of one's own."""
    if url is not None:
        yield url
        return
    with local_hub() as address:
        yield address


def _address(hub: subprocess.Popen[str]) -> str:
    timer = threading.Timer(START_SECONDS, hub.kill)
    timer.start()
    assert hub.stdout is not None
    try:
        for line in hub.stdout:
            if found := LISTENING.search(line):
                return found[1]
        return ""
    finally:
        timer.cancel()


def _stop(hub: subprocess.Popen[str]) -> None:
    hub.terminate()
    try:
        hub.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        hub.kill()
        hub.wait()
    if hub.stdout is not None:
        hub.stdout.close()

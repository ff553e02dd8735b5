"""The attack suite in a process of its own, which may be somebody else's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.security.arena import Verdict
from tests.security.somebody import CANNOT

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 900


class Run:
    """A run that has been started; ``verdicts`` waits for it."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.security", "--json", *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def verdicts(self) -> dict[str, Verdict]:
        """By the name of the attack. Skips the test where this machine does not let us."""
        out, said = self._process.communicate(timeout=PATIENCE_SECONDS)
        if self._process.returncode == CANNOT:
            pytest.skip(said.decode().strip())
        assert self._process.returncode in (0, 1), said.decode()
        (found,) = msgspec.json.decode(out, type=dict[str, list[Verdict]]).values()
        return {verdict.attack: verdict for verdict in found}

    def close(self) -> None:
        """End it if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

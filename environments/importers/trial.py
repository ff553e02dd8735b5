"""Trying a pack out while it is being made: its code runs confined, as it will in the hub."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from environments.catalogue import Catalogue
from environments.environment import Environment, Environments
from environments.errors import EnvironmentFault
from environments.importers.source import ImportRefused
from environments.sandbox.host import Sandbox, SandboxLimits
from snapshots import SnapshotStore

T = TypeVar("T")
LONG: Final = 100_000
"""Steps that an episode may take while it is a trial."""
_LIMITS: Final = SandboxLimits(
    max_workers=2, workers_per_environment=1, start_timeout_seconds=120.0
)


async def opens(environment: Environment) -> None:
    """For ``try_out``: that it opens is all that is asked."""


class _Place:
    """A sandbox, its loop and its snapshots, which last as long as it: it knows packs by digest."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._files = tempfile.TemporaryDirectory(prefix="trial-")
        self._store = SnapshotStore(Path(self._files.name))
        self._sandbox: Sandbox | None = None  # until it is needed

    def play(self, folder: Path, play: Callable[[Environment], Awaitable[T]]) -> T:
        return self._runner.run(self._play(folder, play))

    async def _play(self, folder: Path, play: Callable[[Environment], Awaitable[T]]) -> T:
        if self._sandbox is None:
            self._sandbox = await Sandbox(_LIMITS).__aenter__()
        environments = Environments(Catalogue([folder.parent]), self._store, self._sandbox)
        try:
            environment = await environments.get(folder.name)
        except EnvironmentFault as error:
            reason = f"it does not load: {error.message}"
            raise ImportRefused(reason, hint=error.hint) from error
        return await play(environment)

    def close(self) -> None:
        if self._sandbox is not None:
            self._runner.run(self._sandbox.close())
        self._runner.close()
        self._files.cleanup()


_open: list[_Place] = []
"""Where this process tries packs out at the moment."""


@contextmanager
def trying_out() -> Iterator[None]:
    """All packs that are tried out within have one sandbox, which starts with the first."""
    _open.append(_Place())
    try:
        yield
    finally:
        _open.pop().close()


def try_out(folder: Path, play: Callable[[Environment], Awaitable[T]]) -> T:
    """What ``play`` returns of the pack in ``folder``, opened in a sandbox; what a world mounts
    lies beside it.

    Raises ``ImportRefused`` if the pack cannot be built or its code does not load.
    """
    if not _open:
        with trying_out():
            return try_out(folder, play)
    return _open[-1].play(folder, play)

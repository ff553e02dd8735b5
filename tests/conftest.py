"""What every test may ask for."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from environments.environment import Environments, open_environments
from hub.settings import PREFIX

for name in ("COLUMNS", "LINES"):  # a console keeps those of when it is imported
    os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def as_nobody_has_set_it() -> Iterator[None]:
    """Whoever runs the tests may have settings for a hub of theirs; the tests' hubs have none."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            patch.delenv(name)
        # a shell starts what it puts into the background deaf to the keyboard, and its children are
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Async tests run as the hub does: asyncio on uvloop."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
async def shipped(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    """The shipped environments with real workers; the whole run shares them (they hold nothing)."""
    folder: Path = tmp_path_factory.mktemp("shipped")
    async with open_environments(data_dir=folder) as environments:
        yield environments

"""What every test may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from environments.environment import Environments, open_environments


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

"""A hub with bearers of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hub.app import App, Hub
from hub.auth import SCOPES
from hub.auth.principal import TokenScope
from hub.auth.quota import Limits
from hub.auth.tokens import TokenFile
from hub.settings import Durability, Settings
from tests.hub.auth.asking import Asking
from tests.hub.conftest import PACKS

Bearer = Callable[..., Asking]


@pytest.fixture(scope="module")
def durability() -> Durability:
    return "step"


@pytest.fixture(scope="module")
async def guarded(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory, durability: Durability
) -> AsyncIterator[Hub]:
    """A hub that asks for tokens: there is one already."""
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("guarded"),
        packs=(PACKS / "shop",),
        shipped=False,
        durability=durability,
    )
    TokenFile(settings.data_dir / "tokens.json").create("first", "first", ["admin"])
    async with Hub.open(settings) as hub:
        yield hub


@pytest.fixture(scope="module")
def app(guarded: Hub) -> App:
    return App(guarded)


@pytest.fixture(scope="module")
def file(guarded: Hub) -> TokenFile:
    return TokenFile(guarded.settings.data_dir / "tokens.json")


@pytest.fixture(scope="module")
def bearer(app: App, file: TokenFile) -> Bearer:
    """Asks with the token of that name, which is made when it is first asked for."""
    secrets: dict[str, str] = {}

    def asking(name: str, *scopes: TokenScope, tenant: str = "", **limits: Any) -> Asking:
        if name not in secrets:
            allowed = Limits(**limits)
            secrets[name] = file.create(name, tenant or name, scopes or SCOPES[:3], limits=allowed)
        return Asking(app, secrets[name])

    return asking

"""A hub in this process, with real workers and a real ledger, and a client in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from hub.app import App, Hub
from hub.settings import Settings

PACKS = Path(__file__).parents[1] / "packs"


@pytest.fixture(scope="module")
async def hub(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("hub"),
        packs=(PACKS / "shop",),
        shipped=False,
        max_body_bytes=64 * 1024,
    )
    async with Hub.open(settings) as opened:
        yield opened


@pytest.fixture
async def rest(hub: Hub) -> AsyncIterator[Rest]:
    transport = httpx2.ASGITransport(App(hub))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
        description = (await client.get("/v1/openapi.json")).json()
        yield Rest(client, description)


class Rest:
    """Asks the API, and holds every answer against the API's own description."""

    def __init__(self, client: httpx2.AsyncClient, description: dict[str, Any]) -> None:
        self.client = client
        self.description = description

    async def ask(
        self, method: str, path: str, body: Any = None, *, expect: int = 200, **query: Any
    ) -> Any:
        """The answer, which must have this status; bytes are sent as they are."""
        content = body if isinstance(body, bytes | None) else None
        json = None if isinstance(body, bytes | None) else body
        response = await self.client.request(
            method, path, content=content, json=json, params=query or None
        )
        assert response.status_code == expect, f"{response.status_code}: {response.text}"
        answer = response.json()
        self._conforms(method, path, expect, answer)
        return answer

    async def fails(self, method: str, path: str, body: Any = None, *, status: int) -> Any:
        """The error that is answered."""
        return (await self.ask(method, path, body, expect=status))["error"]

    def _conforms(self, method: str, path: str, status: int, answer: Any) -> None:
        schemas = self.description["components"]["schemas"]
        schema: dict[str, Any] = {"$ref": "#/components/schemas/ErrorResponse"}
        if status < 400:
            operation = self.description["paths"][self._route(path)][method.lower()]
            schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
        jsonschema.validate(answer, {**schema, "components": {"schemas": schemas}})

    def _route(self, path: str) -> str:
        asked = path.split("?")[0].split("/")

        def fits(route: str) -> bool:
            parts = route.split("/")
            return len(parts) == len(asked) and all(
                part.startswith("{") or part == word
                for part, word in zip(parts, asked, strict=True)
            )

        return min(filter(fits, self.description["paths"]), key=lambda route: route.count("{"))


@pytest.fixture
async def episode(rest: Rest) -> dict[str, Any]:
    """A new episode of the task ``buy-tea``."""
    wanted = {"environment": "shop", "task": "buy-tea"}
    made: dict[str, Any] = await rest.ask("POST", "/v1/episodes", wanted, expect=201)
    return made

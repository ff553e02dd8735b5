"""Clients of the MCP layer: raw requests over ASGI, and the official client over loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from starlette.types import ASGIApp, Scope

from hub.app import App, Hub
from hub.mcp_server.http import McpHttp
from hub.mcp_server.surface import Surface
from tests.conformance.fixture import FixtureSurface
from tests.hub.mcp_server.serving import served

MODERN = "2026-07-28"
SECRET = bytes(range(32))
BASE = "http://127.0.0.1:8765"
META = {
    PROTOCOL_VERSION_META_KEY: MODERN,
    CLIENT_INFO_META_KEY: {"name": "test", "version": "1"},
    CLIENT_CAPABILITIES_META_KEY: {},
}


class Raw:
    """Posts JSON-RPC to an application in this process and keeps nothing between requests."""

    def __init__(self, app: ASGIApp, path: str = "/mcp") -> None:
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=BASE)
        self.path = path

    async def send(
        self,
        body: Any,
        headers: Mapping[str, str | bytes] | None = None,
        *,
        path: str = "",
        method: str = "POST",
    ) -> httpx2.Response:
        """Any request at all; ``None`` among the headers leaves one out."""
        given = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if isinstance(body, bytes):
            content = {"content": body}
        else:
            content = {"json": body} if body is not None else {}
        return await self.client.request(
            method, path or self.path, headers=given | dict(headers or {}), **content
        )

    async def modern(
        self, method: str, params: dict[str, Any] | None = None, **headers: str
    ) -> httpx2.Response:
        """A well-formed request of 2026-07-28; ``headers`` replace its own (``_`` for ``-``)."""
        params = {"_meta": META, **(params or {})}
        routing = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if method in ("tools/call", "prompts/get"):
            routing["mcp-name"] = params["name"]
        if method == "resources/read":
            routing["mcp-name"] = params["uri"]
        routing |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.send(request(method, params), routing)

    async def initialize(self, version: str = "2025-11-25", *, path: str = "") -> httpx2.Response:
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        return await self.send(request("initialize", params), path=path)

    async def session(self, *, path: str = "") -> dict[str, str]:
        """The header of a new session."""
        response = await self.initialize(path=path)
        return {"mcp-session-id": response.headers["mcp-session-id"]}


def request(method: str, params: dict[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": id, "method": method}
    return body if params is None else body | {"params": params}


def fixed(surface: Surface, secret: bytes = SECRET, **settings: Any) -> McpHttp:
    """An application that serves one surface at every path."""

    async def resolve(scope: Scope) -> Surface:
        return surface

    return McpHttp(resolve, secret=secret, **settings)


@pytest.fixture
def surface() -> FixtureSurface:
    return FixtureSurface()


@pytest.fixture
async def raw(surface: FixtureSurface, anyio_backend: object) -> AsyncIterator[Raw]:
    asking = Raw(fixed(surface))
    async with asking.client:
        yield asking


@pytest.fixture
async def url(surface: FixtureSurface, anyio_backend: object) -> AsyncIterator[str]:
    """The fixture surface on a loopback port."""
    async with served(fixed(surface)) as address:
        yield f"{address}/mcp"


@pytest.fixture
async def hub_url(hub: Hub) -> AsyncIterator[str]:
    """A whole hub on a loopback port."""
    async with served(App(hub)) as address:
        yield address


@pytest.fixture
async def hub_raw(hub: Hub) -> AsyncIterator[Raw]:
    asking = Raw(App(hub), "/environments/shop/mcp")
    async with asking.client:
        yield asking

"""Clients as people have them, with a token: Python's of the hub, and MCP's over each transport."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from hub.app import App, Hub
from hub.auth.tokens import TokenFile
from hub.client import AsyncHub, HubError
from tests.hub.auth.conftest import Bearer
from tests.hub.mcp_server.serving import served

pytestmark = pytest.mark.anyio

ORDER = {"sku": "TEA-100", "quantity": 2}


@pytest.fixture
async def address(app: App) -> AsyncIterator[str]:
    async with served(app) as url:
        yield url


async def test_the_python_client_shows_its_token(address: str, bearer: Bearer) -> None:
    async with AsyncHub(address, patience_seconds=0) as hub:
        with pytest.raises(HubError) as refused:
            await hub.environments()
        assert (refused.value.status, refused.value.code) == (401, "TOKEN_MISSING")
    secret = bearer("pythonic", "rollout", "train").secret
    async with (
        AsyncHub(address, token=secret, patience_seconds=0) as hub,
        hub.group("shop", "buy-tea", size=2) as group,
    ):
        for episode in group:
            await episode.call("order", ORDER)
            await episode.score("done")
        assert (await group.detail()).complete
        assert secret not in repr(hub.__dict__)
    other = bearer("curious", "rollout", "train").secret
    async with AsyncHub(address, token=other, patience_seconds=0) as hub:
        with pytest.raises(HubError) as refused:
            await hub.attach(group[0].id)
        assert refused.value.code == "UNKNOWN_EPISODE"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_mcp_clients_play_with_a_token_until_it_is_revoked(
    address: str, bearer: Bearer, file: TokenFile, guarded: Hub, transport: str
) -> None:
    asking = bearer(f"mcp-{transport}")
    begun = await asking.made("/v1/episodes", {"environment": "shop"})
    headers = {"authorization": f"Bearer {asking.secret}"}
    base = f"{address}/episodes/{begun['id']}"
    async with httpx2.AsyncClient(headers=headers) as http:
        over = {
            "http": lambda: streamable_http_client(f"{base}/mcp", http_client=http),
            "sse": lambda: sse_client(f"{base}/sse", headers=headers),
        }
        async with Client(over[transport](), mode="legacy") as client:
            assert not (await client.call_tool("order", ORDER)).is_error
            file.revoke(f"mcp-{transport}")
            guarded.gate._tokens.refresh()
            refused = await http.post(f"{base}/mcp", json={})
            assert refused.status_code == 401


@pytest.mark.parametrize("path", ["/v1/events", "/episodes/{id}/sse"])
async def test_an_open_stream_ends_with_its_token(
    address: str,
    bearer: Bearer,
    file: TokenFile,
    guarded: Hub,
    path: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = f"watching{path.count('/')}"
    asking = bearer(name)
    begun = await asking.made("/v1/episodes", {"environment": "shop"})
    headers = {"authorization": f"Bearer {asking.secret}"}
    heard: list[str] = []
    async with (
        httpx2.AsyncClient(headers=headers, base_url=address, timeout=20) as http,
        http.stream("GET", path.replace("{id}", begun["id"])) as stream,
    ):
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if not heard:
                TokenFile(guarded.settings.data_dir / "tokens.json").revoke(name)
                guarded.gate._tokens.refresh()
            heard.append(line)
    assert heard
    assert not caplog.records

"""The MCP Inspector's command line against a whole hub, at both of its routes and in both eras."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from hub.app import App, Hub
from hub.settings import Settings
from hub.wire import CreateEpisode
from tests.conformance.node import HERE, Node
from tests.hub.mcp_server.serving import served

pytestmark = pytest.mark.anyio
RUN_SECONDS = 60
ORDER = ("--tool-name", "order", "--tool-arg", "sku=TEA-100", "quantity=2")


@pytest.fixture(scope="module")
async def hub(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    pack = HERE.parent / "packs" / "shop"
    data_dir = tmp_path_factory.mktemp("hub")
    async with Hub.open(Settings(data_dir=data_dir, packs=(pack,), shipped=False)) as opened:
        yield opened


async def inspect(node: Node, url: str, era: str, method: str, *arguments: str) -> Any:
    command = [*node.inspector, url, "--transport", "http", "--protocol-era", era]
    with tempfile.TemporaryDirectory() as home, anyio.fail_after(RUN_SECONDS):
        # it keeps state and locks in its user's home, and looks for a keychain
        environment = {"HOME": home, "MCP_INSPECTOR_SECRET_STORE": "memory"}
        run = await anyio.run_process(
            [*command, "--method", method, *arguments],
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    assert run.returncode == 0, run.stdout.decode() + run.stderr.decode()
    return json.loads(run.stdout)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
async def test_it_lists_and_calls_at_an_episode(node: Node, hub: Hub, era: str) -> None:
    episode = await hub.episodes.create(CreateEpisode(environment="shop", task="buy-tea"))
    async with served(App(hub)) as address:
        url = f"{address}/episodes/{episode.id}/mcp"
        listed = await inspect(node, url, era, "tools/list", "--strict")
        assert [tool["name"] for tool in listed["tools"]] == list(episode.tools)
        called = await inspect(node, url, era, "tools/call", *ORDER)
        assert called["structuredContent"]["price_cents"] == 900
    assert (await hub.episodes.score(episode)).value == 1.0


@pytest.mark.parametrize(
    ("era", "query"), [("legacy", ""), ("auto", ""), ("modern", "?seat=inspector")]
)
async def test_it_lists_calls_and_reads_at_an_environment(
    node: Node, hub: Hub, era: str, query: str
) -> None:
    async with served(App(hub)) as address:
        url = f"{address}/environments/shop/mcp{query}"
        listed = await inspect(node, url, era, "tools/list")
        assert listed["tools"][-1]["name"] == "reset_environment"
        called = await inspect(node, url, era, "tools/call", *ORDER)
        assert called["structuredContent"]["price_cents"] == 900
        resources = await inspect(node, url, era, "resources/list")
        assert resources["resources"][0]["uri"] == "envhub://shop/policy"
        prompts = await inspect(node, url, era, "prompts/list")
        assert [prompt["name"] for prompt in prompts["prompts"]] == ["policy", "task"]

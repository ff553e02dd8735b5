"""A world over REST, MCP and restarts of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from hub.app import App, Hub
from hub.settings import Settings
from tests.hub.conftest import PACKS

pytestmark = pytest.mark.anyio

BUY = {"tool": "shop__order", "arguments": {"sku": "TEA-100", "quantity": 2}}


def client_of(hub: Hub) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(App(hub))
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765")


async def test_a_world_is_an_environment_like_any_other(tmp_path: Path) -> None:
    packs = tuple(PACKS / name for name in ("shop", "till", "market"))
    settings = Settings(data_dir=tmp_path, packs=packs, shipped=False)
    async with Hub.open(settings) as hub, client_of(hub) as client:
        shown = (await client.get("/v1/environments/market")).json()
        assert {"shop__order", "till__bill", "wait"} <= {tool["name"] for tool in shown["tools"]}
        body = {"environment": "market", "task": "order-and-bill", "seed": 2}
        path = f"/v1/episodes/{(await client.post('/v1/episodes', json=body)).json()['id']}"
        order = (await client.post(f"{path}/call", json=BUY)).json()["step"]["result"]
        fork = (await client.post(f"{path}/fork", json={})).json()["results"][0]["episode"]["id"]
    bill: dict[str, Any] = {
        "tool": "till__bill",
        "arguments": {"order_id": order["order_id"], "amount_cents": order["price_cents"]},
    }
    async with Hub.open(settings) as hub, client_of(hub) as client:
        for place in (path, f"/v1/episodes/{fork}"):
            step = (await client.post(f"{place}/call", json=bill)).json()["step"]
            assert "error" not in step, "what was ordered before the restart is there"
            changes = (await client.get(f"{place}/changes")).json()["changes"]
            assert set(changes) == {"shop__orders", "shop__products", "till__bills"}
            reward = (await client.post(f"{place}/score", json={})).json()["reward"]
            assert reward["value"] == 1.0, reward
            assert (await client.get(f"{place}")).json()["dirty_bytes"] > 0

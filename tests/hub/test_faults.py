"""Episodes under a fault plan, over REST and MCP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hub.app import App, Hub
from hub.settings import Settings
from tests.hub.conftest import PACKS, Rest

pytestmark = pytest.mark.anyio

PLAN = {"rules": [{"kind": "timeout_after", "rate": 1.0, "tools": ["order"]}], "budget": 1}
BUY = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
WANTED = {"environment": "shop", "task": "buy-tea", "faults": PLAN}


async def test_the_agent_sees_an_error_and_the_trainer_its_cause(rest: Rest) -> None:
    made = await rest.ask("POST", "/v1/episodes", WANTED, expect=201)
    path = f"/v1/episodes/{made['id']}"
    step = (await rest.ask("POST", f"{path}/call", BUY))["step"]
    assert step["error"]["code"] == "TIMEOUT"
    assert "fault" not in step
    trajectory = await rest.ask("GET", f"{path}/trajectory")
    assert trajectory["faults"]["rules"][0]["kind"] == "timeout_after"
    fault = trajectory["steps"][0]["fault"]
    assert (fault["kind"], fault["ran"]) == ("timeout_after", True)
    assert fault["result"]["order_id"].startswith("order-")
    assert "order_id" not in json.dumps(trajectory["messages"])
    assert (await rest.ask("POST", f"{path}/score", {}))["reward"]["value"] == 1.0


async def test_mcp_shows_the_error_alone(rest: Rest) -> None:
    made = await rest.ask("POST", "/v1/episodes", WANTED, expect=201)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "order",
            "arguments": BUY["arguments"],
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "order",
    }
    response = await rest.client.post(made["mcp"], json=message, headers=headers)
    assert response.status_code == 200, response.text
    assert "TIMEOUT" in response.text
    assert "timeout_after" not in response.text
    assert "order-" not in response.text


async def test_an_unknown_plan_and_a_bad_one_are_refused(rest: Rest) -> None:
    named = {**WANTED, "faults": "flacky"}
    error = await rest.fails("POST", "/v1/episodes", named, status=400)
    assert error["code"] == "UNKNOWN_FAULT_PLAN"
    assert "flaky" in error["hint"]
    odd: dict[str, Any] = {**WANTED, "faults": {"rules": [{"kind": "latency", "rate": 2}]}}
    error = await rest.fails("POST", "/v1/episodes", odd, status=422)
    assert "rate" in error["message"]


async def test_a_plan_outlives_the_hub(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, packs=(PACKS / "shop",), shipped=False)
    plan = {"rules": [{"kind": "server_error", "rate": 1.0}], "budget": 2}

    async def failed(episode: str | None) -> tuple[str, bool]:
        """One call of the episode (a new one, if none is named) on a hub that then goes."""
        async with Hub.open(settings) as hub:
            transport = httpx2.ASGITransport(App(hub))
            client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765")
            async with client:
                if episode is None:
                    body = {"environment": "shop", "faults": plan}
                    episode = str((await client.post("/v1/episodes", json=body)).json()["id"])
                called = await client.post(f"/v1/episodes/{episode}/call", json=BUY)
                return episode, "error" in called.json()["step"]

    episode, struck = await failed(None)
    answers = [struck, (await failed(episode))[1], (await failed(episode))[1]]
    assert answers == [True, True, False]

"""Trajectories by cursor, transcripts, and events that leave nothing out."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from environments.trajectory import Trajectory
from hub.app import App, Hub
from hub.settings import Settings
from tests.hub.conftest import PACKS, Rest
from tests.hub.served import served

pytestmark = pytest.mark.anyio

TEA = {"environment": "shop", "task": "buy-tea", "seed": 7}
BUY = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}


async def run(rest: Rest, **terms: Any) -> str:
    episode = await rest.ask("POST", "/v1/episodes", {**TEA, **terms}, expect=201)
    path = f"/v1/episodes/{episode['id']}"
    await rest.ask("POST", f"{path}/call", BUY)
    await rest.ask("POST", f"{path}/score", {"answer": "ordered"})
    await rest.ask("DELETE", path)
    return str(episode["id"])


async def page(rest: Rest, cursor: int, **query: Any) -> tuple[list[Trajectory], int]:
    response = await rest.client.get("/v1/trajectories", params={"cursor": cursor, **query})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/jsonl"
    decoder = msgspec.json.Decoder(Trajectory)
    lines = [decoder.decode(line) for line in response.content.splitlines()]
    return lines, int(response.headers["envhub-cursor"])


async def test_a_cursor_leads_through_all_that_finished_in_order(rest: Rest, hub: Hub) -> None:
    start = hub.ledger.finishes
    unfinished = await rest.ask("POST", "/v1/episodes", TEA, expect=201)
    ids = [await run(rest, policy_version=f"v{number}") for number in range(5)]
    seen, cursor = [], start
    while True:
        lines, cursor = await page(rest, cursor, limit=2)
        if not lines:
            break
        seen += lines
    assert [each.id for each in seen] == ids
    assert unfinished["id"] not in ids
    assert [each.policy for each in seen] == [f"v{number}" for number in range(5)]
    assert {each.stop_reason for each in seen} == {"answered"}
    assert await page(rest, cursor) == ([], cursor)
    later = await run(rest)
    assert [each.id for each in (await page(rest, cursor))[0]] == [later]
    group = await rest.ask("POST", "/v1/groups", {**TEA, "size": 2}, expect=201)
    await rest.ask("POST", f"/v1/groups/{group['id']}/close")
    of_group, _ = await page(rest, start, group=group["id"])
    assert {each.id for each in of_group} == set(group["episodes"])
    assert [each.repetition for each in sorted(of_group, key=lambda each: each.repetition)] == [
        0,
        1,
    ]


async def test_what_the_policy_saw_is_in_the_trajectory_untouched(rest: Rest, hub: Hub) -> None:
    start = hub.ledger.finishes
    episode = await rest.ask("POST", "/v1/episodes", {**TEA, "window": {"turns": 2}}, expect=201)
    path = f"/v1/episodes/{episode['id']}"
    messages = [
        {"role": "system", "content": "Sell."},
        {"role": "user", "content": "Buy tea.", "token_ids": [5, 6]},
        {"role": "assistant", "content": "Done.", "logprobs": [-0.25], "odd": {"a": [None]}},
    ]
    calls = [{"prompt": [0, 1], "completion": 2, "tokens": {"ids": [1, 2]}}]
    body = {"messages": messages, "calls": calls, "tokens": {"sha": "abc"}}
    await rest.ask("PUT", f"{path}/transcript", body)
    await rest.ask("DELETE", path)
    kept = (await page(rest, start))[0][0]
    assert list(kept.messages) == messages
    assert msgspec.json.decode(msgspec.json.encode(kept.calls)) == calls
    assert (kept.tokens, kept.window.turns if kept.window else None) == ({"sha": "abc"}, 2)
    # told after the end, it replaces what was told before
    await rest.ask("PUT", f"{path}/transcript", {"messages": messages[:2]})
    assert list((await page(rest, start))[0][0].messages) == messages[:2]
    odd = {"messages": messages, "calls": [{"prompt": [0, 3], "completion": 2}]}
    error = await rest.fails("PUT", f"{path}/transcript", odd, status=422)
    assert "no message 3 of 3" in error["message"]


async def test_a_verdict_after_the_end_is_in_the_trajectory(rest: Rest, hub: Hub) -> None:
    start = hub.ledger.finishes
    episode = await rest.ask("POST", "/v1/episodes", TEA, expect=201)
    path = f"/v1/episodes/{episode['id']}"
    await rest.ask("POST", f"{path}/call", BUY)
    await rest.ask("DELETE", path)
    assert (await page(rest, start))[0][0].reward is None
    await rest.ask("POST", f"{path}/score", {})
    scored = (await page(rest, start))[0][0]
    assert scored.reward is not None
    assert scored.reward.value == 1.0


@asynccontextmanager
async def opened(data_dir: Path, packs: Path) -> AsyncIterator[Rest]:
    settings = Settings(data_dir=data_dir, packs=(packs,), shipped=False)
    async with Hub.open(settings) as hub:
        transport = httpx2.ASGITransport(App(hub))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Rest(client, (await client.get("/v1/openapi.json")).json())


async def test_trajectories_outlive_a_restart_and_a_change_of_their_pack(tmp_path: Path) -> None:
    packs, data = tmp_path / "packs", tmp_path / "data"
    shutil.copytree(PACKS / "shop", packs / "shop")
    async with opened(data, packs) as rest:
        await run(rest)
        # closed while it was parked: there is nobody in memory to write it down
        parked = await rest.ask("POST", "/v1/episodes", TEA, expect=201)
        await rest.ask("POST", f"/v1/episodes/{parked['id']}/park")
        await rest.ask("DELETE", f"/v1/episodes/{parked['id']}")
        before = await page(rest, 0)
        assert [each.id for each in before[0]][1] == parked["id"]
        lost = await rest.ask("POST", "/v1/episodes", TEA, expect=201)
        await rest.ask("POST", f"/v1/episodes/{lost['id']}/park")
    (packs / "shop" / "policy.md").write_text("Sell nothing.\n")
    async with opened(data, packs) as rest:
        await rest.ask("DELETE", f"/v1/episodes/{lost['id']}")
        lines, cursor = await page(rest, 0)
        assert (lines, cursor) == (before[0], 3), "one cannot be told any more; the cursor goes on"


# --- events ------------------------------------------------------------------------------------


async def test_events_tell_of_every_end_and_go_on_where_they_were(tmp_path: Path) -> None:
    with served(tmp_path / "data") as hub:
        async with httpx2.AsyncClient(base_url=hub.address, timeout=30) as client:
            rest = Rest(client, (await client.get("/v1/openapi.json")).json())
            first = await run(rest, policy_version="v1")
            async with events(client, cursor=0) as stream:
                assert (await anext(stream))["id"] == first
                second = await run(rest)
                told = await anext(stream)
                assert (told["id"], told["reward"], told["outcome"]) == (second, 1.0, "complete")
            missed = [await run(rest) for _ in range(3)]
            resumed = {"last-event-id": str(told["cursor"])}
            async with events(client, headers=resumed) as stream:
                assert [(await anext(stream))["id"] for _ in missed] == missed
            async with events(client) as stream:
                group = await rest.ask("POST", "/v1/groups", {**TEA, "size": 2}, expect=201)
                await rest.ask("POST", f"/v1/groups/{group['id']}/close")
                ended = [await anext(stream) for _ in range(2)]
                assert {each["group"] for each in ended} == {group["id"]}
                assert {each["repetition"] for each in ended} == {0, 1}
            async with events(client) as stream:
                following = asyncio.ensure_future(anext(stream, None))
                await asyncio.sleep(0)
                # a hub that stops ends its streams first, and does not wait for them
                assert await asyncio.to_thread(hub.stop) == 0
                assert await following is None


@asynccontextmanager
async def events(
    client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **query: int
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The data of the events as they come."""
    async with client.stream("GET", "/v1/events", params=query, headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.aiter_lines()
        assert await anext(lines) == ": open"

        async def data() -> AsyncIterator[dict[str, Any]]:
            async for line in lines:
                if line.startswith("data: "):
                    yield msgspec.json.decode(line.removeprefix("data: "))

        yield data()

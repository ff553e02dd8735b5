"""The hub is killed, stopped and started again: what it acknowledged is there, once."""

from __future__ import annotations

import asyncio
import os
import select
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.hub.served import Served, served

pytestmark = pytest.mark.anyio

EPISODES = 50
ORDERS = 10
KILL_AFTER = 180
WAIT = {"tool": "wait", "arguments": {"seconds": 14400}}
ORDER = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 1}}


class Run:
    """One episode that orders tea ``ORDERS`` times, and what it was told came of it."""

    def __init__(self, episode: str) -> None:
        self.path = f"/v1/episodes/{episode}"
        self.acknowledged: dict[str, Any] = {}

    async def go_on(self, client: httpx2.AsyncClient, after_each: Any = None) -> None:
        """Order until done, or until the hub is gone. The call that was lost is asked again."""
        while len(self.acknowledged) < ORDERS:
            key = f"order-{len(self.acknowledged)}"
            try:
                response = await client.post(f"{self.path}/call", json={**ORDER, "call_key": key})
            except httpx2.TransportError:
                return
            assert response.status_code == 200, response.text
            step = response.json()["step"]
            assert "error" not in step, step
            self.acknowledged[key] = step
            if after_each is not None:
                after_each()


def client_of(hub: Served) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=EPISODES)
    return httpx2.AsyncClient(base_url=hub.address, timeout=60, limits=limits, trust_env=False)


async def begin(client: httpx2.AsyncClient, count: int) -> list[Run]:
    wanted = [{"environment": "shop", "horizon": 100, "seed": seed} for seed in range(count)]
    made = await client.post("/v1/episodes/batch", json={"episodes": wanted})
    return [Run(result["episode"]["id"]) for result in made.json()["results"]]


async def test_kill_minus_nine_loses_no_acknowledged_step(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with served(data_dir) as hub:
        acknowledged = 0

        def count() -> None:
            nonlocal acknowledged
            acknowledged += 1
            if acknowledged == KILL_AFTER:
                hub.kill()

        async with client_of(hub) as client:
            runs = await begin(client, EPISODES)
            await asyncio.gather(*(run.go_on(client, count) for run in runs))
        assert KILL_AFTER <= acknowledged < EPISODES * ORDERS, "killed in the middle"

    with served(data_dir) as hub:
        async with client_of(hub) as client:
            listed = (await client.get("/v1/episodes", params={"limit": 1000})).json()["episodes"]
            assert len(listed) == EPISODES
            assert {each["status"] for each in listed} == {"live"}
            for run in runs:
                steps = (await client.get(f"{run.path}/steps")).json()["steps"]
                recorded = {step["call_key"]: step for step in steps}
                assert len(recorded) == len(steps)
                assert {key: recorded[key] for key in run.acknowledged} == run.acknowledged
                assert len(recorded) <= len(run.acknowledged) + 1, "only the call in flight"
            await asyncio.gather(*(run.go_on(client) for run in runs))
            for run in runs:
                await finished(client, run)
        assert hub.stop() == 0


async def finished(client: httpx2.AsyncClient, run: Run) -> None:
    """Every order was made exactly once, in the rows as in the record."""
    steps = (await client.get(f"{run.path}/steps")).json()["steps"]
    assert [step["call_key"] for step in steps] == [f"order-{n}" for n in range(ORDERS)]
    changes = (await client.get(f"{run.path}/changes")).json()["changes"]
    assert changes["products"]["changed"][0]["after"] == {"stock": 12 - ORDERS}
    ids = Counter(row["id"] for row in changes["orders"]["added"])
    assert ids == Counter(step["result"]["order_id"] for step in run.acknowledged.values())
    look = await client.post(f"{run.path}/call", json={"tool": "list_products"})
    stock = {row["sku"]: row["stock"] for row in look.json()["step"]["result"]}
    assert stock["TEA-100"] == 12 - ORDERS, "the rows themselves, not only their record"
    assert (await client.delete(run.path)).status_code == 200


async def test_everything_of_an_episode_survives_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "data") as hub:
        async with client_of(hub) as client:
            body = {"environment": "shop", "task": "buy-tea", "seed": 5}
            path = f"/v1/episodes/{(await client.post('/v1/episodes', json=body)).json()['id']}"
            await client.post(f"{path}/call", json=ORDER)
            await client.post(f"{path}/marks")
            await client.post(
                f"{path}/call", json={"tool": "wait", "arguments": {"seconds": 14400}}
            )
            await client.post(f"{path}/call", json={"tool": "break_down"})
            fork = (await client.post(f"{path}/fork", json={})).json()["results"][0]["episode"]
            await client.post(f"{path}/rewind", json={"mark": "m1"})
            await client.post(f"{path}/call", json=ORDER)
            await client.post(f"{path}/score", json={})
            paths = [path, f"/v1/episodes/{fork['id']}"]
            before = [await everything(client, each) for each in paths]
        assert hub.stop() == 0
    with served(tmp_path / "data") as hub:
        async with client_of(hub) as client:
            assert [await everything(client, each) for each in paths] == before
            again = await client.post(f"{path}/rewind", json={"mark": "m1"})
            assert (again.json()["steps"], again.json()["clock_ms"]) == (1, 1_772_442_060_000)
            await client.post(f"{path}/close")
        assert hub.stop() == 0
    with served(tmp_path / "data") as hub:
        async with client_of(hub) as client:
            closed = (await client.get(path)).json()
            assert (closed["status"], closed["steps"]) == ("closed", 1)
            refused = await client.post(f"{path}/call", json=ORDER)
            assert refused.json()["error"]["code"] == "EPISODE_CLOSED"
            assert (await client.delete(path)).status_code == 200


async def everything(client: httpx2.AsyncClient, path: str) -> list[Any]:
    places = (path, f"{path}/steps", f"{path}/changes", f"{path}/changes?actor=environment")
    return [(await client.get(place)).json() for place in places]


async def test_without_durability_a_restart_forgets(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--durability", "none") as hub:
        async with client_of(hub) as client:
            (run,) = await begin(client, 1)
            await run.go_on(client)
            await finished(client, run)
            assert (await client.get(run.path)).json()["status"] == "closed"
    assert not (tmp_path / "data" / "ledger.sqlite3").exists()
    with served(tmp_path / "data", "--durability", "none") as hub:
        async with client_of(hub) as client:
            assert (await client.get(run.path)).json()["error"]["code"] == "UNKNOWN_EPISODE"


def test_a_killed_hub_leaves_no_process_behind(tmp_path: Path) -> None:
    with served(tmp_path / "data") as hub:
        httpx2.post(f"{hub.address}/v1/episodes", json={"environment": "shop"}, trust_env=False)
        family = descendants(hub.process.pid)
        assert family
        # a file descriptor of a process becomes readable when it ends
        handles = [os.pidfd_open(pid) for pid in family]
        hub.kill()
        for handle in handles:
            assert ended(handle), f"one of {family} outlived the hub"
            os.close(handle)


def descendants(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(entry.parent.name)
            found += [child, *descendants(child)]
    return found


def ended(handle: int) -> bool:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(10_000))

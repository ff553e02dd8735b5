"""Groups through the REST API: members begin alike, and their rewards become advantages."""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hub.app import App, Hub
from hub.settings import Settings
from tests.hub.conftest import PACKS, Rest

pytestmark = pytest.mark.anyio

BUY = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
CUP = {"tool": "order", "arguments": {"sku": "CUP-01", "quantity": 1}}
TEA = {"environment": "shop", "task": "buy-tea", "seed": 7}


async def finish(rest: Rest, episode: str, *calls: dict[str, Any], score: bool = True) -> None:
    path = f"/v1/episodes/{episode}"
    for call in calls:
        await rest.ask("POST", f"{path}/call", call)
    if score:
        await rest.ask("POST", f"{path}/score", {})
    await rest.ask("DELETE", path)


async def test_members_begin_exactly_alike_and_go_their_own_ways(rest: Rest) -> None:
    group = await rest.ask("POST", "/v1/groups", {**TEA, "size": 6, "horizon": 4}, expect=201)
    assert group["instruction"].startswith("Please order two packs")
    assert len(set(group["episodes"])) == 6
    infos = [await rest.ask("GET", f"/v1/episodes/{each}") for each in group["episodes"]]
    alike = ("task", "seed", "horizon", "clock_ms", "instruction", "steps", "dirty_bytes", "group")
    assert {tuple(info[name] for name in alike) for info in infos} == {
        ("buy-tea", 7, 4, infos[0]["clock_ms"], group["instruction"], 0, 0, group["id"])
    }
    first = f"/v1/episodes/{group['episodes'][0]}"
    await rest.ask("POST", f"{first}/call", BUY)
    for other in group["episodes"][1:]:
        assert (await rest.ask("GET", f"/v1/episodes/{other}/changes"))["changes"] == {}
    answers = [
        await rest.ask("POST", f"/v1/episodes/{each}/call", BUY) for each in group["episodes"][1:]
    ]
    results = [answer["step"]["result"] for answer in answers]
    assert all(result == results[0] for result in results), "the same call, the same ids"


async def test_rewards_become_advantages_and_masked_members_count_nowhere(rest: Rest) -> None:
    group = await rest.ask("POST", "/v1/groups", {**TEA, "size": 5}, expect=201)
    solved, failed, stray, unscored, running = group["episodes"]
    await finish(rest, solved, BUY)
    await finish(rest, failed)
    await finish(rest, stray, BUY, CUP)
    await finish(rest, unscored, BUY, score=False)
    detail = await rest.ask("GET", f"/v1/groups/{group['id']}")
    assert not detail["complete"]
    members = {member["episode"]: member for member in detail["members"]}
    assert [member["repetition"] for member in detail["members"]] == [0, 1, 2, 3, 4]
    assert [members[each]["reward"] for each in (solved, failed, stray)] == [1.0, 0.0, 0.0]
    assert (members[unscored]["masked"], members[running]["masked"]) == (True, False)
    lesson, rewards = detail["lesson"], [1.0, 0.0, 0.0]
    assert (lesson["scored"], lesson["passed"], lesson["degenerate"]) == (3, 1, False)
    assert lesson["std"] == pytest.approx(statistics.stdev(rewards))
    assert lesson["pass_at"] == pytest.approx({"1": 1 / 3, "2": 2 / 3, "3": 1.0})
    mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
    wanted = [pytest.approx((each - mean) / (std + 1e-4)) for each in rewards]
    assert lesson["advantages"] == [*wanted, None, None]
    assert [member["advantage"] for member in detail["members"]] == lesson["advantages"]

    assert await rest.ask("POST", f"/v1/groups/{group['id']}/close") == group
    ended = await rest.ask("GET", f"/v1/groups/{group['id']}")
    assert ended["complete"]
    assert {member["status"] for member in ended["members"]} == {"closed"}
    assert await rest.ask("POST", f"/v1/groups/{group['id']}/close") == group


async def test_a_group_that_gives_no_gradient_says_so(rest: Rest) -> None:
    group = await rest.ask("POST", "/v1/groups", {**TEA, "size": 3}, expect=201)
    for episode in group["episodes"]:
        await finish(rest, episode)
    detail = await rest.ask("GET", f"/v1/groups/{group['id']}")
    assert detail["complete"]
    assert detail["lesson"]["degenerate"]
    assert detail["lesson"]["advantages"] == [0.0, 0.0, 0.0]
    assert detail["lesson"]["pass_at"] == {"1": 0.0, "2": 0.0, "3": 0.0}


async def test_256_members(rest: Rest) -> None:
    group = await rest.ask(
        "POST", "/v1/groups", {**TEA, "task": "last-cup", "size": 256}, expect=201
    )
    assert len(set(group["episodes"])) == 256
    calls = {"calls": [{"episode": each, **CUP} for each in group["episodes"]]}
    results = (await rest.ask("POST", "/v1/episodes/batch/call", calls))["results"]
    assert {str(result["answer"]["step"]["result"]) for result in results} == {
        str(results[0]["answer"]["step"]["result"])
    }
    await rest.ask("POST", f"/v1/groups/{group['id']}/close")
    detail = await rest.ask("GET", f"/v1/groups/{group['id']}")
    assert [member["status"] for member in detail["members"]] == ["closed"] * 256
    error = await rest.fails("POST", "/v1/groups", {**TEA, "size": 257}, status=422)
    assert error["details"]["field"] == "size"


async def test_a_key_begins_one_group_however_often_it_is_asked_for(rest: Rest) -> None:
    wanted = {**TEA, "size": 3, "key": "rollout-7/step-3"}
    asked = [rest.ask("POST", "/v1/groups", wanted, expect=201) for _ in range(5)]
    groups = await asyncio.gather(*asked)
    assert all(group == groups[0] for group in groups)
    error = await rest.fails("POST", "/v1/groups", {**wanted, "size": 4}, status=409)
    assert error["code"] == "KEY_REUSED"
    episode = {**TEA, "key": "rollout-7/single"}
    once = [rest.ask("POST", "/v1/episodes", episode, expect=201) for _ in range(5)]
    assert len({each["id"] for each in await asyncio.gather(*once)}) == 1
    error = await rest.fails("POST", "/v1/episodes", {**episode, "seed": 8}, status=409)
    assert error["code"] == "KEY_REUSED"


async def test_a_key_of_an_episode_is_never_that_of_a_groups_member(rest: Rest) -> None:
    group = await rest.ask("POST", "/v1/groups", {**TEA, "size": 2, "key": "a-key-of"}, expect=201)
    for number in range(2):
        wanted = {**TEA, "key": f"a-key-of/{number}"}
        episode = await rest.ask("POST", "/v1/episodes", wanted, expect=201)
        assert episode["id"] not in group["episodes"]
        assert episode["group"] is None


async def test_what_a_group_is_made_of_is_said_one_way(rest: Rest) -> None:
    sample = {"splits": ["train"]}
    for body in (
        {"size": 2},
        {"size": 2, "environment": "shop"},
        {"size": 2, **TEA, "sample": sample},
        {"size": 2, "task": "buy-tea", "sampler": "s"},
    ):
        error = await rest.fails("POST", "/v1/groups", body, status=422)
        assert "environment and task, or a sampler, or a sample" in error["message"]
    error = await rest.fails("POST", "/v1/groups", {**TEA, "task": "buy-te", "size": 2}, status=404)
    assert "buy-tea" in error["hint"]
    error = await rest.fails("GET", "/v1/groups/gr-none", status=404)
    assert error["code"] == "UNKNOWN_GROUP"


async def test_a_sample_is_chosen_by_the_seed(rest: Rest) -> None:
    async def task(seed: int) -> str:
        body = {"size": 1, "seed": seed, "sample": {"environments": ["shop"]}}
        group = await rest.ask("POST", "/v1/groups", body, expect=201)
        assert group["seed"] == seed
        return str(group["task"])

    first = [await task(seed) for seed in range(8)]
    assert first == [await task(seed) for seed in range(8)]
    assert len(set(first)) > 1
    nothing = {"size": 1, "sample": {"splits": ["test"]}}
    assert (await rest.fails("POST", "/v1/groups", nothing, status=422))["code"] == (
        "NOTHING_TO_SAMPLE"
    )


async def test_groups_are_listed_with_a_cursor(rest: Rest) -> None:
    made = {
        (await rest.ask("POST", "/v1/groups", {**TEA, "size": 1}, expect=201))["id"] for _ in "abc"
    }
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = await rest.ask("GET", "/v1/groups", after=cursor, limit=2)
        seen += [group["id"] for group in page["groups"]]
        cursor = page["next"]
    assert made <= set(seen)
    assert seen == sorted(set(seen))
    group = made.pop()
    listed = await rest.ask("GET", "/v1/episodes", group=group)
    detail = await rest.ask("GET", f"/v1/groups/{group}")
    assert [each["id"] for each in listed["episodes"]] == detail["episodes"]


async def test_a_group_survives_a_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", packs=(PACKS / "shop",), shipped=False)

    async def ask(hub: Hub, method: str, path: str, body: Any = None) -> Any:
        transport = httpx2.ASGITransport(App(hub))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.request(method, path, json=body)
            assert response.is_success, response.text
            return response.json()

    async with Hub.open(settings) as hub:
        terms = {**TEA, "size": 3, "policy_version": "v4", "training_step": 40}
        group = await ask(hub, "POST", "/v1/groups", terms)
        played = f"/v1/episodes/{group['episodes'][0]}"
        await ask(hub, "POST", f"{played}/call", BUY)
        await ask(hub, "POST", f"{played}/score", {})
        before = await ask(hub, "GET", f"/v1/groups/{group['id']}")
    async with Hub.open(settings) as hub:
        assert await ask(hub, "GET", f"/v1/groups/{group['id']}") == before
        trajectory = await ask(hub, "GET", f"{played}/trajectory")
        assert (trajectory["group"], trajectory["repetition"]) == (group["id"], 0)
        assert (trajectory["policy"], trajectory["training_step"]) == ("v4", 40)

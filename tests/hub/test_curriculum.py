"""Schedules and samplers over REST: what they decide, what is refused, what a restart keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from hub import curriculum
from hub.app import App, Hub
from hub.settings import Settings
from tests.hub.conftest import PACKS, Rest

pytestmark = pytest.mark.anyio

TEA = {"environment": "shop", "task": "buy-tea"}
BUY = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
PHASES = [
    {"from_training_step": 0, "horizon": 2},
    {"from_training_step": 100, "horizon": 5},
    {"from_training_step": 200, "horizon": 9},
]


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncIterator[Rest]:
    settings = Settings(data_dir=data_dir, packs=(PACKS / "shop",), shipped=False)
    async with Hub.open(settings) as hub:
        transport = httpx2.ASGITransport(App(hub))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Rest(client, (await client.get("/v1/openapi.json")).json())


async def horizon(rest: Rest, **terms: Any) -> int:
    episode = await rest.ask("POST", "/v1/episodes", {**TEA, **terms}, expect=201)
    await rest.ask("DELETE", f"/v1/episodes/{episode['id']}")
    return int(episode["horizon"])


async def test_an_episode_gets_the_horizon_of_its_training_step(rest: Rest) -> None:
    made = await rest.ask("PUT", "/v1/schedules/scaling", {"phases": PHASES})
    assert made == {"name": "scaling", "phases": PHASES, "training_step": 0, "horizon": 2}
    assert await horizon(rest, schedule="scaling") == 2
    for step, steps in ((0, 2), (99, 2), (100, 5), (200, 9), (100_000, 9), (150, 5)):
        assert await horizon(rest, schedule="scaling", training_step=step) == steps
    # the step last told is where training has come to
    assert await horizon(rest, schedule="scaling") == 5
    told = await rest.ask("POST", "/v1/schedules/scaling/advance", {"training_step": 250})
    assert (told["training_step"], told["horizon"]) == (250, 9)
    assert await horizon(rest, schedule="scaling") == 9
    assert await horizon(rest, schedule="scaling", horizon=3) == 3, "a horizon of one's own wins"
    again = await rest.ask("PUT", "/v1/schedules/scaling", {"fixed": 4})
    assert (again["horizon"], again["training_step"]) == (4, 250)


async def test_a_schedule_is_replaced_while_training_comes_further(rest: Rest) -> None:
    for step in range(1, 9):
        await rest.ask("PUT", "/v1/schedules/both", {"fixed": 4})
        async with anyio.create_task_group() as group:
            group.start_soon(rest.ask, "PUT", "/v1/schedules/both", {"fixed": 8})
            group.start_soon(
                rest.ask, "POST", "/v1/schedules/both/advance", {"training_step": step}
            )
        kept = await rest.ask("GET", "/v1/schedules/both")
        assert (kept["horizon"], kept["training_step"]) == (8, step)


@pytest.mark.parametrize(
    ("kind", "body"), [("schedules", {"fixed": 4}), ("samplers", {"kind": "uniform"})]
)
async def test_a_tenant_keeps_so_many_and_no_more(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, kind: str, body: dict[str, Any]
) -> None:
    before = len((await rest.ask("GET", f"/v1/{kind}"))[kind])
    monkeypatch.setattr(curriculum, "MAX_KEPT", before + 2)
    for name in ("first-kept", "second-kept", "first-kept"):
        await rest.ask("PUT", f"/v1/{kind}/{name}", body)
    error = await rest.fails("PUT", f"/v1/{kind}/third-kept", body, status=409)
    assert (error["code"], error["kind"]) == ("TOO_MANY_KEPT", "agent")
    await rest.fails("GET", f"/v1/{kind}/third-kept", status=404)
    await rest.ask("DELETE", f"/v1/{kind}/first-kept")
    await rest.ask("PUT", f"/v1/{kind}/third-kept", body)
    await rest.fails("PUT", f"/v1/{kind}/first-kept", body, status=409)


async def test_truncation_is_not_termination(rest: Rest) -> None:
    await rest.ask("PUT", "/v1/schedules/short", {"fixed": 2})
    group = await rest.ask(
        "POST", "/v1/groups", {**TEA, "size": 2, "schedule": "short"}, expect=201
    )
    assert group["horizon"] == 2
    truncated, ended = (f"/v1/episodes/{each}" for each in group["episodes"])
    for remaining in (1, 0):
        answer = await rest.ask("POST", f"{truncated}/call", {"tool": "list_products"})
        assert answer["remaining"] == remaining
    assert answer["status"] == "truncated"
    await rest.ask("POST", f"{ended}/call", BUY)
    for path in (truncated, ended):
        await rest.ask("POST", f"{path}/score", {})
        await rest.ask("DELETE", path)
    cut = await rest.ask("GET", f"{truncated}/trajectory")
    whole = await rest.ask("GET", f"{ended}/trajectory")
    assert (cut["truncated"], cut["terminated"], cut["stop_reason"]) == (True, False, "horizon")
    assert (whole["truncated"], whole["terminated"]) == (False, True)


async def test_faults_follow_the_training_step(rest: Rest) -> None:
    await rest.ask("PUT", "/v1/schedules/long", {"fixed": 9})
    phases = [
        {"from_training_step": 0, "plan": "none"},
        {"from_training_step": 50, "plan": "hostile"},
    ]
    terms = {**TEA, "schedule": "long", "fault_curriculum": {"phases": phases}}
    for step, failing in ((10, False), (60, True)):
        episode = await rest.ask(
            "POST", "/v1/episodes", {**terms, "training_step": step}, expect=201
        )
        trajectory = await rest.ask("GET", f"/v1/episodes/{episode['id']}/trajectory")
        assert bool(trajectory["faults"].get("rules")) == failing
        assert trajectory["training_step"] == step


async def test_agentgym_settings_as_they_stand(rest: Rest) -> None:
    settings = {"type": "scaling_inter_stepwise", "rounds": [6, 13], "steps_scaling_inter": 100}
    made = await rest.ask("PUT", "/v1/schedules/babyai", {"rounds_ctrl": settings})
    assert [phase["from_training_step"] for phase in made["phases"]] == [0, 101]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "phases, or fixed, or rounds_ctrl"),
        ({"fixed": 3, "phases": PHASES}, "phases, or fixed, or rounds_ctrl"),
        ({"phases": list(reversed(PHASES))}, "begins at training step 0"),
        ({"phases": [PHASES[0], {"from_training_step": 9, "horizon": 1}]}, "shrinks from 2 to 1"),
        ({"rounds_ctrl": {"type": "linear", "rounds": 3}}, "type is 'linear'"),
        ({"fixed": 0}, ">= 1"),
    ],
)
async def test_a_schedule_that_makes_no_sense(
    rest: Rest, body: dict[str, Any], message: str
) -> None:
    error = await rest.fails("PUT", "/v1/schedules/odd", body, status=422)
    assert message in error["message"]
    error = await rest.fails("GET", "/v1/schedules/odd", status=404)
    assert error["code"] == "UNKNOWN_SCHEDULE"


async def test_schedules_are_listed_and_forgotten(rest: Rest) -> None:
    await rest.ask("PUT", "/v1/schedules/gone", {"fixed": 3})
    listed = (await rest.ask("GET", "/v1/schedules"))["schedules"]
    assert "gone" in [each["name"] for each in listed]
    await rest.ask("DELETE", "/v1/schedules/gone")
    for method, path, body in (
        ("GET", "/v1/schedules/gone", None),
        ("POST", "/v1/schedules/gone/advance", {"training_step": 1}),
        ("POST", "/v1/episodes", {**TEA, "schedule": "gone"}),
    ):
        error = await rest.fails(method, path, body, status=404)
        assert error["code"] == "UNKNOWN_SCHEDULE"


async def test_a_sampler_draws_in_the_order_its_seed_means(rest: Rest) -> None:
    async def order(name: str, seed: int) -> list[str]:
        await rest.ask("PUT", f"/v1/samplers/{name}", {"seed": seed})
        drawn = await rest.ask("POST", f"/v1/samplers/{name}/draw", {"count": 9})
        return [task["task"] for task in drawn["tasks"]]

    first = await order("a", 3)
    assert first == await order("b", 3)
    assert sorted(first[:3]) == sorted(first[3:6]) == ["buy-tea", "last-cup", "wait-for-tea"]
    assert (await rest.ask("GET", "/v1/samplers/a"))["drawn"] == 9
    assert {"a", "b"} <= set((await rest.ask("GET", "/v1/samplers"))["samplers"])
    await rest.ask("DELETE", "/v1/samplers/b")
    error = await rest.fails("POST", "/v1/samplers/b/draw", {}, status=404)
    assert error["code"] == "UNKNOWN_SAMPLER"
    error = await rest.fails("PUT", "/v1/samplers/c", {"where": {"tags": ["none"]}}, status=422)
    assert error["code"] == "NOTHING_TO_SAMPLE"


async def test_groups_teach_an_adaptive_sampler_what_is_too_easy(rest: Rest) -> None:
    spec = {"kind": "adaptive", "revisit": 0, "where": {"difficulties": ["easy"]}}
    await rest.ask("PUT", "/v1/samplers/band", spec)
    oracle = {
        "buy-tea": BUY,
        "last-cup": {"tool": "order", "arguments": {"sku": "CUP-01", "quantity": 1}},
    }
    seen: list[str] = []
    for _ in range(12):
        group = await rest.ask("POST", "/v1/groups", {"size": 2, "sampler": "band"}, expect=201)
        seen.append(group["task"])
        for episode in group["episodes"]:
            path = f"/v1/episodes/{episode}"
            # every try at one task passes, of the other half of them
            if group["task"] == "buy-tea" or episode == group["episodes"][0]:
                await rest.ask("POST", f"{path}/call", oracle[group["task"]])
            await rest.ask("POST", f"{path}/score", {})
            await rest.ask("DELETE", path)
    assert seen.count("buy-tea") <= 1, "once it is seen to be always solved, it is left"
    tasks = {each["task"]: each for each in (await rest.ask("GET", "/v1/samplers/band"))["tasks"]}
    assert tasks["last-cup"]["pass_rate"] == 0.5
    told = {"environment": "shop", "task": "last-cup", "passed": [True] * 32}
    after = await rest.ask("POST", "/v1/samplers/band/outcomes", told)
    rates = {each["task"]: each["pass_rate"] for each in after["tasks"]}
    assert rates["last-cup"] == 1.0


async def test_a_restart_goes_on_where_training_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as rest:
        await rest.ask("PUT", "/v1/schedules/scaling", {"phases": PHASES})
        assert await horizon(rest, schedule="scaling", training_step=120) == 5
        await rest.ask("PUT", "/v1/samplers/a", {"seed": 5})
        whole = (await rest.ask("POST", "/v1/samplers/a/draw", {"count": 8}))["tasks"]
        await rest.ask("PUT", "/v1/samplers/b", {"seed": 5})
        before = (await rest.ask("POST", "/v1/samplers/b/draw", {"count": 4}))["tasks"]
        told = {**TEA, "passed": [True, False]}
        await rest.ask("POST", "/v1/samplers/b/outcomes", told)
    async with opened(tmp_path) as rest:
        assert await horizon(rest, schedule="scaling") == 5
        after = (await rest.ask("POST", "/v1/samplers/b/draw", {"count": 4}))["tasks"]
        assert before + after == whole
        tasks = (await rest.ask("GET", "/v1/samplers/b"))["tasks"]
        assert [each["pass_rate"] for each in tasks if each["task"] == "buy-tea"] == [0.5]
        await rest.ask("PUT", "/v1/samplers/b", {"seed": 6})
        changed = await rest.ask("GET", "/v1/samplers/b")
        assert changed["drawn"] == 0, "another seed is another order"
        assert [each["pass_rate"] for each in changed["tasks"]].count(0.5) == 1

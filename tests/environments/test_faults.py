"""Injected faults, met by episodes on real workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.catalogue import load_pack
from environments.chat import observation
from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.faults import PRESETS, FaultCurriculum, FaultPhase, UnknownFaultPlan
from environments.journal import JournalRecord
from environments.oracle import play_oracle
from environments.record import trajectory_of
from environments.sandbox.host import SandboxLimits
from environments.spec import FaultPlan, FaultRule
from environments.trajectory import FaultName, Step

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"
BUY = {"sku": "TEA-100", "quantity": 2}
PATIENCE = 20
SEEDS = range(10)


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    async with open_environments([PACKS / "shop"], data_dir=tmp_path_factory.mktemp("f")) as opened:
        yield opened


@pytest.fixture
async def shop(environments: Environments) -> Environment:
    return await environments.get("shop")


def always(kind: FaultName, *, budget: int = 1, **more: Any) -> FaultPlan:
    return FaultPlan(rules=(FaultRule(kind=kind, rate=1.0, **more),), budget=budget)


async def failing(shop: Environment, kind: FaultName, **more: Any) -> Episode:
    return await Episode.start(shop.under(always(kind, **more)), task="buy-tea")


def code(step: Step) -> str:
    return step.error.code if step.error else "ok"


def orders(episode: Episode) -> int:
    return len(episode.changes(actor="agent").to_json().get("orders", {}).get("added", ()))


# --- what each kind does -------------------------------------------------------------------------


async def test_a_timeout_before_the_commit_does_nothing(shop: Environment) -> None:
    episode = await failing(shop, "timeout_before", seconds=20)
    start = episode.clock_ms
    step = await episode.call("order", BUY)
    assert (code(step), orders(episode)) == ("TIMEOUT", 0)
    assert episode.clock_ms == start + 20_000
    assert code(await episode.call("order", BUY)) == "ok"
    assert (await episode.score()).value == 1.0


async def test_a_duplicate_after_a_timeout_that_committed_fails_by_the_frame(
    shop: Environment,
) -> None:
    episode = await failing(shop, "timeout_after")
    step = await episode.call("order", BUY)
    assert (code(step), orders(episode)) == ("TIMEOUT", 1)
    before = await failing(shop, "timeout_before")
    unsure = await before.call("order", BUY)
    assert observation(step) == observation(unsure), "the agent cannot tell the two apart"
    assert (await episode.score()).value == 1.0, "who looks before repeating has done it"
    await episode.call("order", BUY)
    doubled = await episode.score()
    assert (doubled.value, orders(episode)) == (0.0, 2)


async def test_a_429_ends_when_the_time_it_names_has_passed(shop: Environment) -> None:
    episode = await failing(shop, "rate_limited", longest=20, seconds=90)
    first = await episode.call("list_products", {})
    assert first.error is not None
    assert (first.error.code, first.error.details["status"]) == ("RATE_LIMITED", 429)
    assert first.error.details["retry_after_seconds"] == 90
    await episode.call("wait", {"seconds": 90})
    assert code(await episode.call("list_products", {})) == "ok"


async def test_who_does_not_wait_gets_through_in_the_end(shop: Environment) -> None:
    episode = await failing(shop, "rate_limited", longest=5, seconds=900)
    answers = [code(await episode.call("list_products", {})) for _ in range(6)]
    assert answers[0] == "RATE_LIMITED"
    assert answers[-1] == "ok"
    assert answers == sorted(answers), "once through, it is over"


async def test_a_server_error_names_a_status_and_does_nothing(shop: Environment) -> None:
    episode = await failing(shop, "server_error")
    step = await episode.call("order", BUY)
    assert step.error is not None
    assert step.error.details["status"] in (500, 502, 503, 504)
    assert (step.error.kind, orders(episode)) == ("agent", 0)


async def test_an_expired_token_stops_every_tool(shop: Environment) -> None:
    plan = always("auth_expired", longest=8)
    for seed in SEEDS:
        episode = await Episode.start(shop.under(plan), seed=seed)
        first = await episode.call("list_products", {})
        assert first.fault is not None
        other = await episode.call("order", BUY)
        still = "AUTH_EXPIRED" if first.fault.lasts > 1 else "ok"
        assert (code(first), code(other)) == ("AUTH_EXPIRED", still)


async def test_a_truncated_page_says_that_it_is_one(shop: Environment) -> None:
    episode = await failing(shop, "truncated_page")
    cut = (await episode.call("list_products", {})).result
    whole = (await episode.call("list_products", {})).result
    assert cut["truncated"]
    assert cut["total"] == len(whole)
    assert cut["results"] == whole[: len(cut["results"])]
    assert len(cut["results"]) < len(whole)


async def test_a_stale_read_shows_the_world_before_the_first_change(shop: Environment) -> None:
    episode = await failing(shop, "stale_read")
    fresh = (await episode.call("list_products", {})).result
    await episode.call("order", BUY)
    stale = await episode.call("list_products", {})
    assert stale.result == fresh
    assert stale.fault is not None
    now = (await episode.call("list_products", {})).result
    assert [row["stock"] for row in now if row["sku"] == "TEA-100"] == [10]
    assert orders(episode) == 1, "only the reading was stale"


async def test_latency_passes_virtual_time_in_which_things_happen(shop: Environment) -> None:
    episode = await failing(shop, "latency", seconds=4 * 3600)
    step = await episode.call("list_products", {})
    assert [row["stock"] for row in step.result if row["sku"] == "TEA-250"] == [20]
    assert [(change.actor, change.event) for change in step.changes] == [
        ("environment", "delivery")
    ]


async def test_a_malformed_payload_breaks_off_and_its_write_stands(shop: Environment) -> None:
    episode = await failing(shop, "malformed_payload")
    step = await episode.call("order", BUY)
    assert isinstance(step.result, str)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(step.result)
    assert step.fault is not None
    assert step.fault.result["order_id"].startswith("order-")
    assert (await episode.score()).value == 1.0


async def test_a_renamed_parameter_takes_its_new_name(shop: Environment) -> None:
    episode = await failing(shop, "renamed_parameter", longest=20)
    step = await episode.call("order", BUY)
    assert step.error is not None
    old, new = step.error.details["old"], step.error.details["new"]
    renamed = {new if name == old else name: value for name, value in BUY.items()}
    again = await episode.call("order", renamed)
    assert code(again) == "ok"
    assert again.arguments == renamed, "the record says what the agent sent"
    assert (await episode.score()).value == 1.0


async def test_a_concurrent_mutation_is_not_held_against_the_agent(shop: Environment) -> None:
    episode = await Episode.start(shop.under("neighbours"), task="buy-tea")
    step = await episode.call("order", BUY)
    assert [(change.actor, change.event) for change in step.changes] == [
        ("fault", "neighbour-buys-tea"),
        ("agent", None),
    ]
    stock = episode.changes().to_json()["products"]["changed"][0]
    assert (stock["before"], stock["after"]) == ({"stock": 12}, {"stock": 9})
    assert (await episode.score()).value == 1.0
    later = await episode.call("order", {"sku": "CUP-01", "quantity": 1})
    assert later.fault is None, "a mutation happens once"


# --- when they strike ----------------------------------------------------------------------------


async def test_a_budget_and_windows_bound_what_strikes(shop: Environment) -> None:
    plan = always("server_error", budget=2, tools=("list_*",), from_step=1, until_step=4)
    episode = await Episode.start(shop.under(plan))
    answers = [code(await episode.call("list_products", {})) == "ok" for _ in range(6)]
    assert answers == [True, False, False, True, True, True]
    timed = always("server_error", budget=9, from_seconds=60, until_seconds=120)
    episode = await Episode.start(shop.under(timed))
    struck = []
    for _ in range(3):
        struck.append(code(await episode.call("list_products", {})) != "ok")
        await episode.call("wait", {"seconds": 60})
    assert struck == [False, True, False]


async def test_a_read_of_another_tool_shifts_no_fault(shop: Environment) -> None:
    plan = FaultPlan(rules=(FaultRule(kind="server_error", rate=0.5, tools=("order",)),), budget=99)
    for seed in SEEDS:
        plain = await Episode.start(shop.under(plan), seed=seed)
        curious = await Episode.start(shop.under(plan), seed=seed)
        for _ in range(4):
            await curious.call("list_products", {})
            one, other = await plain.call("order", BUY), await curious.call("order", BUY)
            assert code(one) == code(other)


async def test_forks_rewinds_and_replays_meet_the_same_faults(shop: Environment) -> None:
    class Memory:
        keeps_pages = True

        def __init__(self) -> None:
            self.records: dict[str, list[JournalRecord]] = {}

        async def append(self, episode_id: str, record: JournalRecord) -> None:
            self.records.setdefault(episode_id, []).append(record)

    journal = Memory()
    plan = msgspec.structs.replace(PRESETS["hostile"], budget=99)
    episode = await Episode.start(shop.under(plan), seed=3, horizon=100, journal=journal)

    async def go_on(player: Episode) -> list[tuple[str, str]]:
        steps = [await player.call("order", BUY) for _ in range(10)]
        return [(code(step), step.fault.kind if step.fault else "") for step in steps]

    await go_on(episode)
    mark = await episode.mark()
    fork = await episode.fork()
    resumed = await Episode.replay(shop, episode.id, journal.records[episode.id])
    assert resumed.environment.faults == plan
    expected = await go_on(episode)
    assert any(kind for _, kind in expected)
    assert await go_on(fork) == expected
    assert await go_on(resumed) == expected
    await episode.rewind(mark)
    assert await go_on(episode) == expected


async def test_the_agent_sees_no_record_of_it(shop: Environment) -> None:
    episode = await failing(shop, "timeout_after")
    step = await episode.call("order", BUY)
    assert step.fault is not None
    assert step.fault.result["order_id"] not in observation(step)
    trajectory = trajectory_of(episode)
    assert trajectory.steps[0].fault == step.fault
    assert "fault" not in msgspec.json.encode(trajectory.messages).decode()


async def test_infrastructure_and_time_itself_are_spared(shop: Environment) -> None:
    episode = await failing(shop, "server_error", budget=9)
    assert code(await episode.call("wait", {"seconds": 60})) == "ok"


# --- plans ---------------------------------------------------------------------------------------


async def test_plans_go_by_name_or_as_they_are(shop: Environment) -> None:
    assert shop.under(None) is shop
    assert shop.under("none") is shop
    assert shop.under("neighbours").faults == shop.pack.faults.plans["neighbours"]
    with pytest.raises(UnknownFaultPlan) as caught:
        shop.under("flacky")
    assert "flaky" in caught.value.hint
    assert "neighbours" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[mutations]]\nid="a"\nstatements=[]\n[[mutations]]\nid="a"\nstatements=[]', "twice"),
        (
            '[plans.p]\n[[plans.p.rules]]\nkind="concurrent_mutation"\nrate=1.0\nmutations=["b"]',
            "b",
        ),
        ('[plans.p]\n[[plans.p.rules]]\nkind="blackout"\nrate=1.0', "blackout"),
        ('[plans.p]\n[[plans.p.rules]]\nkind="latency"\nrate=1.5', "rate"),
        ("[plans.p]\nbudgte = 3", "budgte"),
    ],
)
async def test_a_typo_in_a_packs_plan_is_refused(tmp_path: Path, text: str, said: str) -> None:
    for file in ("environment.toml", "schema.sql", "tools.py"):
        (tmp_path / file).write_text((PACKS / "shop" / file).read_text())
    (tmp_path / "faults.toml").write_text(text)
    with pytest.raises(PackInvalid) as caught:
        load_pack(tmp_path)
    assert said in str(caught.value)
    assert "faults.toml" in str(caught.value)


async def test_a_curriculum_gives_the_plan_of_a_training_step() -> None:
    phases = (
        FaultPhase(from_training_step=0, plan="none"),
        FaultPhase(from_training_step=100, plan="flaky"),
    )
    curriculum = FaultCurriculum(phases=phases)
    assert [curriculum.at(step) for step in (0, 99, 100, 5000)] == [
        "none",
        "none",
        "flaky",
        "flaky",
    ]
    with pytest.raises(ValueError, match="begin at training step 0"):
        FaultCurriculum(phases=phases[1:])


# --- every shipped task --------------------------------------------------------------------------


@pytest.mark.parametrize("plan", ["flaky", "hostile"])
async def test_shipped_tasks_stay_solvable_for_who_persists(
    shipped: Environments, plan: str
) -> None:
    pairs = gave_up = 0
    for name in shipped.catalogue.names():
        environment = (await shipped.get(name)).under(plan)
        for task in environment.pack.tasks.values():
            for seed in SEEDS:
                pairs += 1
                episode = await Episode.start(environment, task=task.id, seed=seed)
                run = await play_oracle(episode, retries=PATIENCE)
                reward = await episode.score(run.answer)
                assert reward.value == 1.0, (name, task.id, seed, reward.reason)
                episode = await Episode.start(environment, task=task.id, seed=seed)
                run = await play_oracle(episode)
                gave_up += (await episode.score(run.answer)).value != 1.0
    assert gave_up * 3 >= pairs, f"without retries {gave_up} of {pairs} fail"


async def test_runs_are_the_same_in_different_workers(
    shipped: Environments, tmp_path: Path
) -> None:
    """Byte for byte, the time a step took and the episode's random id aside."""

    async def played(environments: Environments) -> list[bytes]:
        lines = []
        for name in environments.catalogue.names():
            environment = (await environments.get(name)).under("hostile")
            for task in list(environment.pack.tasks)[:6]:
                episode = await Episode.start(environment, task=task, seed=5, id="ep-1")
                run = await play_oracle(episode, retries=PATIENCE)
                await episode.score(run.answer)
                told = trajectory_of(episode)
                steps = [msgspec.structs.replace(step, latency_ms=0.0) for step in told.steps]
                lines.append(msgspec.json.encode(msgspec.structs.replace(told, steps=tuple(steps))))
        return lines

    first = await played(shipped)
    limits = SandboxLimits(workers_per_environment=1)
    async with open_environments(data_dir=tmp_path, limits=limits) as others:
        assert await played(others) == first
    assert any(b'"fault"' in line for line in first)

"""Episodes, played through their public face on real workers, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.errors import (
    AgentError,
    CallKeyReused,
    EpisodeClosed,
    HorizonReached,
    InfrastructureFault,
    UnknownEnvironment,
    UnknownMark,
    UnknownTask,
)
from environments.journal import JournalRecord, Opened, Stepped
from environments.notebook import SyncEpisode
from environments.trajectory import Step
from snapshots import Branch, Workspace

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"
BUY = {"sku": "TEA-100", "quantity": 2}


class Memory:
    """A journal in a list, which can be told to fail."""

    keeps_pages = True

    def __init__(self) -> None:
        self.records: dict[str, list[JournalRecord]] = {}
        self.broken = False

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        if self.broken:
            raise InfrastructureFault("the disk is full")
        self.records.setdefault(episode_id, []).append(record)


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    folder = tmp_path_factory.mktemp("episodes")
    async with open_environments([PACKS / "shop"], data_dir=folder) as opened:
        yield opened


@pytest.fixture
async def shop(environments: Environments) -> Environment:
    return await environments.get("shop")


def contents(episode: Episode) -> list[tuple[Any, ...]]:
    """Everything in the episode's database, read outside any worker."""
    workspace = Workspace(episode.environment.snapshot)
    with workspace.mount(Branch(episode.branch.snapshot, episode.branch.head)) as mount:
        rows = [
            row
            for table in ("products", "orders")
            for row in mount.connection.execute(f"SELECT '{table}', * FROM {table} ORDER BY 2")
        ]
    workspace.close()
    return rows


async def test_a_step_changes_rows_and_moves_the_clock(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    start = episode.clock_ms
    look = await episode.call("list_products", {})
    assert [row["sku"] for row in look.result] == ["CUP-01", "TEA-100", "TEA-250"]
    assert episode.clock_ms == start, "reading takes no virtual time"
    step = await episode.call("order", BUY)
    assert not step.is_error
    assert episode.clock_ms == start + 60_000
    changes = episode.changes(actor="agent").to_json()
    assert changes["orders"]["added"][0]["id"] == step.result["order_id"]
    assert changes["orders"]["added"][0]["ordered_at"] == "2026-03-02T09:00:00Z"
    assert changes["products"]["changed"][0]["before"] == {"stock": 12}
    assert changes["products"]["changed"][0]["after"] == {"stock": 10}
    reward = await episode.score()
    assert (reward.value, reward.outcome) == (1.0, "complete")


async def test_doing_nothing_earns_nothing_and_says_why(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    reward = await episode.score()
    assert (reward.value, reward.outcome) == (0.0, "none")
    assert any("orders" in component.reason for component in reward.components)


async def test_collateral_change_fails_the_frame(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    await episode.call("order", BUY)
    await episode.call("order", {"sku": "CUP-01", "quantity": 1})
    reward = await episode.score()
    assert reward.value == 0.0
    assert "CUP-01" in " ".join(component.reason for component in reward.components)


async def test_an_agents_mistake_is_an_observation_and_changes_nothing(shop: Environment) -> None:
    episode = await Episode.start(shop)
    before, clock = contents(episode), episode.clock_ms
    unknown = await episode.call("buy", {})
    assert unknown.error is not None
    assert (unknown.error.kind, unknown.error.code) == ("agent", "UNKNOWN_TOOL")
    wrong = await episode.call("order", {"sku": "TEA-100", "quantity": 0})
    assert wrong.error is not None
    assert wrong.error.code == "INVALID_ARGUMENTS"
    assert "quantity" in wrong.error.message
    refused = await episode.call("order", {"sku": "TEA-250", "quantity": 1})
    assert refused.error is not None
    assert (refused.error.kind, refused.error.code) == ("agent", "OUT_OF_STOCK")
    assert refused.error.details == {"sku": "TEA-250"}
    assert contents(episode) == before
    assert episode.clock_ms == clock
    assert not episode.changes()
    assert len(episode.steps) == 3


@pytest.mark.parametrize("depth", [10, 300, 900])
async def test_arguments_however_deep_or_long_are_an_agents_mistake(
    shop: Environment, depth: int
) -> None:
    episode = await Episode.start(shop)
    deep: Any = "x" * 100_000
    for _ in range(depth):
        deep = [deep]
    step = await episode.call("order", {"sku": deep, "quantity": 1})
    assert step.error is not None
    assert (step.error.kind, step.error.code) == ("agent", "INVALID_ARGUMENTS")
    assert len(step.error.message) < 1000
    assert not episode.changes()


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("break_down", "TOOL_CRASHED"),
        ("leave", "WORKER_EXITED"),
        ("hang", "TOOL_TIMED_OUT"),
    ],
)
async def test_a_packs_own_fault_is_the_environments(
    shop: Environment, tool: str, code: str
) -> None:
    episode = await Episode.start(shop)
    await episode.call("order", BUY)
    before = contents(episode)
    step = await episode.call(tool, {})
    assert step.error is not None
    assert (step.error.kind, step.error.code) == ("environment", code)
    assert contents(episode) == before
    assert not (await episode.call("order", BUY)).is_error, "the episode goes on"


async def test_a_long_result_is_cut_and_marked(shop: Environment) -> None:
    episode = await Episode.start(shop)
    step = await episode.call("recite", {"length": 5000})
    assert step.truncated
    assert len(step.result) < 2200
    assert "truncated: 20000 bytes, limit 2000" in step.result


async def test_the_horizon_truncates(shop: Environment) -> None:
    episode = await Episode.start(shop, task="last-cup")
    assert episode.horizon == 3
    for _ in range(3):
        await episode.call("list_products", {})
    assert episode.status == "truncated"
    with pytest.raises(HorizonReached):
        await episode.call("order", {"sku": "CUP-01", "quantity": 1})
    assert (await episode.score()).value == 0.0, "a truncated run is still scored"


async def test_waiting_lets_the_world_change(shop: Environment) -> None:
    episode = await Episode.start(shop, task="wait-for-tea")
    refused = await episode.call("order", {"sku": "TEA-250", "quantity": 5})
    assert refused.is_error
    waited = await episode.call("wait", {"seconds": 4 * 3600})
    assert [change.event for change in waited.changes] == ["delivery"]
    assert not episode.changes(actor="agent")
    assert len(episode.changes(actor="environment")) == 1
    assert not (await episode.call("order", {"sku": "TEA-250", "quantity": 5})).is_error
    reward = await episode.score()
    assert reward.value == 1.0, "what an event changed is not held against the agent"


async def test_a_task_may_begin_elsewhere(shop: Environment) -> None:
    episode = await Episode.start(shop, task="last-cup")
    stock = {row[1]: row[4] for row in contents(episode) if row[0] == "products"}
    assert stock["CUP-01"] == 1
    assert not episode.changes(), "initial statements are no change of the run"
    await episode.call("order", {"sku": "CUP-01", "quantity": 1})
    assert (await episode.score()).value == 1.0
    await episode.reset(task="buy-tea")
    assert (await episode.call("order", {"sku": "CUP-01", "quantity": 3})).error is None


async def test_marks_rewind_state_clock_and_steps(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    await episode.call("order", BUY)
    here, rows, clock = await episode.mark(), contents(episode), episode.clock_ms
    await episode.call("order", {"sku": "CUP-01", "quantity": 1}, call_key="cup")
    there, later = await episode.mark(), contents(episode)
    assert len(episode.changes(since=here)) == 2
    await episode.rewind(here)
    assert (contents(episode), episode.clock_ms, len(episode.steps)) == (rows, clock, 1)
    again = await episode.call("order", {"sku": "CUP-01", "quantity": 2}, call_key="cup")
    assert again.index == 1, "the key of an undone step is free again"
    with pytest.raises(UnknownMark):
        episode.changes(since=there)
    await episode.rewind(there)
    assert contents(episode) == later
    with pytest.raises(UnknownMark, match="m1, m2"):
        await episode.rewind("m9")


async def test_forks_part_ways(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    await episode.call("order", BUY)
    twin = await episode.fork()
    assert twin.id != episode.id
    await twin.call("order", {"sku": "CUP-01", "quantity": 1})
    assert len(episode.steps) == 1
    assert (await episode.score()).value == 1.0
    assert (await twin.score()).value == 0.0


async def test_same_seed_same_bytes(shop: Environment) -> None:
    def shape(steps: Any) -> list[Any]:
        return [(step.tool, step.result, step.changes, step.clock_ms) for step in steps]

    runs = []
    for seed in (7, 7, 8):
        episode = await Episode.start(shop, seed=seed)
        await episode.call("order", BUY)
        await episode.call("wait", {"seconds": 90_000})
        await episode.call("order", {"sku": "CUP-01", "quantity": 1})
        runs.append((shape(episode.steps), contents(episode)))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2], "ids follow the seed"


async def test_a_call_key_makes_retries_safe(shop: Environment) -> None:
    episode = await Episode.start(shop)
    first = await episode.call("order", BUY, call_key="k1")
    assert await episode.call("order", BUY, call_key="k1") is first
    assert len(episode.steps) == 1
    with pytest.raises(CallKeyReused):
        await episode.call("order", {"sku": "TEA-100", "quantity": 3}, call_key="k1")


async def test_closing(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    first = await episode.call("order", BUY, call_key="k")
    await episode.close()
    await episode.close()
    assert episode.status == "closed"
    assert await episode.call("order", BUY, call_key="k") is first, "a late retry is answered"
    with pytest.raises(EpisodeClosed):
        await episode.call("order", BUY)
    with pytest.raises(EpisodeClosed):
        await episode.reset()


async def test_what_is_not_there(environments: Environments, shop: Environment) -> None:
    with pytest.raises(UnknownEnvironment, match="shop"):
        await environments.get("shopp")
    with pytest.raises(UnknownTask, match="buy-tea"):
        await Episode.start(shop, task="buy-te")
    episode = await Episode.start(shop)
    with pytest.raises(AgentError, match="no task"):
        await episode.score()


async def test_a_step_that_cannot_be_recorded_did_not_happen(shop: Environment) -> None:
    journal = Memory()
    episode = await Episode.start(shop, journal=journal)
    before, clock = contents(episode), episode.clock_ms
    journal.broken = True
    with pytest.raises(InfrastructureFault, match="disk is full"):
        await episode.call("order", BUY, call_key="k")
    assert (contents(episode), episode.clock_ms, len(episode.steps)) == (before, clock, 0)
    journal.broken = False
    assert not (await episode.call("order", BUY, call_key="k")).is_error


async def test_replay_gives_the_episode_back(shop: Environment) -> None:
    journal = Memory()
    episode = await Episode.start(shop, task="wait-for-tea", seed=3, journal=journal)
    await episode.call("order", BUY)
    mark = await episode.mark()
    await episode.call("wait", {"seconds": 4 * 3600})
    await episode.rewind(mark)
    twin = await episode.fork()
    last = await twin.call("order", {"sku": "CUP-01", "quantity": 1}, call_key="cup")
    for original in (episode, twin):
        back = await Episode.replay(shop, original.id, journal.records[original.id], journal)
        assert contents(back) == contents(original)
        assert list(back.steps) == list(original.steps)
        assert (back.clock_ms, back.status) == (original.clock_ms, original.status)
        assert back.changes().to_json() == original.changes().to_json()
    assert await back.call("order", {"sku": "CUP-01", "quantity": 1}, call_key="cup") == last
    assert isinstance(journal.records[twin.id][0], Opened)
    assert sum(isinstance(record, Stepped) for record in journal.records[twin.id]) == 1


async def test_steps_of_one_episode_run_one_at_a_time(shop: Environment) -> None:
    import anyio

    episode = await Episode.start(shop)
    done: list[Step] = []

    async def buy() -> None:
        done.append(await episode.call("order", {"sku": "TEA-100", "quantity": 1}))

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(buy)
    assert sorted(step.index for step in done) == list(range(12))
    assert not any(step.is_error for step in done)
    assert ("products", "TEA-100", "Assam tea, 100 g", 450, 0) in contents(episode)


def test_the_blocking_face() -> None:
    with SyncEpisode("shop", task="buy-tea", packs=[PACKS / "shop"]) as episode:
        assert "order" in episode.tools
        mark = episode.mark()
        episode.call("order", {"sku": "CUP-01", "quantity": 1})
        episode.rewind(mark)
        episode.call("order", BUY)
        assert episode.score().value == 1.0
        assert len(episode.changes()) == 2

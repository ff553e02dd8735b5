"""Worlds: several environments in one episode, on real workers."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.catalogue import Catalogue
from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.journal import JournalRecord
from environments.oracle import play_oracle
from environments.record import trajectory_of
from environments.replay import replay as played_again
from environments.spec import FaultPlan, FaultRule
from environments.trajectory import Step

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"
MEMBERS = ("shop", "till", "market")
BUY = {"sku": "TEA-100", "quantity": 2}


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    roots = [PACKS / name for name in MEMBERS]
    async with open_environments(roots, data_dir=tmp_path_factory.mktemp("worlds")) as opened:
        yield opened


@pytest.fixture
async def market(environments: Environments) -> Environment:
    return await environments.get("market")


@pytest.fixture
async def episode(market: Environment) -> Episode:
    return await Episode.start(market, task="order-and-bill", seed=1, horizon=50)


def bill_of(step: Step, **other: Any) -> dict[str, Any]:
    answer = step.result
    return {"order_id": answer["order_id"], "amount_cents": answer["price_cents"], **other}


async def test_tools_and_tables_go_by_their_environment(market: Environment) -> None:
    assert {"shop__order", "till__bill", "wait"} <= set(market.tools)
    assert not any(name.endswith("__wait") for name in market.tools)
    assert market.tools["till__bill"].title == "The till: Bill"
    assert set(market.tables) == {"shop__orders", "shop__products", "till__bills", "till__notes"}


@pytest.mark.parametrize("task", ["order-and-bill", "wait-and-order"])
async def test_the_oracle_scores_and_doing_nothing_does_not(market: Environment, task: str) -> None:
    episode = await Episode.start(market, task=task)
    assert (await episode.score()).value == 0.0
    run = await play_oracle(episode)
    assert all(step.error is None for step in run.steps)
    reward = await episode.score(run.answer)
    assert reward.value == 1.0, reward.reason


async def test_a_verdict_ties_rows_of_one_system_to_those_of_another(episode: Episode) -> None:
    order = await episode.call("shop__order", BUY)
    await episode.call("till__bill", bill_of(order, order_id="order-OTHER"))
    reward = await episode.score()
    assert reward.value == 0.0
    assert "till__bills" in reward.reason


async def test_damage_in_any_system_costs_the_reward(episode: Episode) -> None:
    order = await episode.call("shop__order", BUY)
    await episode.call("till__bill", bill_of(order))
    assert (await episode.score()).value == 1.0
    await episode.call("till__note", {"text": "Done."})
    reward = await episode.score()
    assert reward.value == 0.0
    assert "till__notes" in reward.reason


async def test_there_is_one_changeset_for_each_environment(episode: Episode) -> None:
    order = await episode.call("shop__order", BUY)
    assert set(order.changes[0].changes) == {"shop__orders", "shop__products"}
    billed = await episode.call("till__bill", bill_of(order))
    assert set(billed.changes[0].changes) == {"till__bills"}
    assert set(episode.changes().to_json()) == {"shop__orders", "shop__products", "till__bills"}


async def test_one_clock_runs_for_all(market: Environment) -> None:
    episode = await Episode.start(market, horizon=50)
    await episode.call("wait", {"seconds": 3 * 3600 - 90})
    await episode.call("till__note", {"text": "Nearly noon."})
    step = await episode.call("till__note", {"text": "The delivery comes while this is written."})
    assert [(change.actor, change.event) for change in step.changes] == [
        ("agent", None),
        ("environment", "delivery"),
    ]
    stock = (await episode.call("shop__list_products", {})).result
    assert [row["stock"] for row in stock if row["sku"] == "TEA-250"] == [20]
    order = await episode.call("shop__order", BUY)
    assert order.changes[0].changes["shop__orders"]["added"][0]["ordered_at"] == (
        "2026-03-02T12:00:30Z"
    )


async def test_environments_make_different_ids(episode: Episode) -> None:
    order = await episode.call("shop__order", BUY)
    billed = await episode.call("till__bill", bill_of(order))
    assert order.result["order_id"].partition("-")[2] != billed.result["bill_id"].partition("-")[2]


async def test_a_failing_call_changes_nothing_anywhere(episode: Episode) -> None:
    await episode.call("shop__order", BUY)
    before, clock = episode.branch.encode(), episode.clock_ms
    for tool, code in (("till__jam", "TOOL_CRASHED"), ("till__order", "UNKNOWN_TOOL")):
        step = await episode.call(tool, {})
        assert step.error is not None
        assert step.error.code == code
    assert (episode.branch.encode(), episode.clock_ms) == (before, clock)


async def test_time_travel_and_forks_take_every_environment_along(market: Environment) -> None:
    class Memory:
        keeps_pages = True

        def __init__(self) -> None:
            self.records: dict[str, list[JournalRecord]] = {}

        async def append(self, episode_id: str, record: JournalRecord) -> None:
            self.records.setdefault(episode_id, []).append(record)

    journal = Memory()
    episode = await Episode.start(market, task="wait-and-order", journal=journal, horizon=50)
    order = await episode.call("shop__order", BUY)
    mark = await episode.mark()
    await episode.call("till__bill", bill_of(order))
    fork = await episode.fork()
    for player in (
        await Episode.replay(market, episode.id, journal.records[episode.id]),
        await Episode.replay(market, fork.id, journal.records[fork.id]),
        fork,
    ):
        assert player.branch.encode() == episode.branch.encode()
        assert player.clock_ms == episode.clock_ms
        again = await player.call("till__bill", bill_of(order))
        assert again.error is not None
        assert again.error.code == "ALREADY_BILLED"
    await episode.rewind(mark)
    bills = (await episode.call("till__list_bills", {})).result
    assert [bill["amount_cents"] for bill in bills] == [700], "only what the task begins with"
    assert (await episode.call("till__bill", bill_of(order))).error is None
    assert episode.changes("m1").tables == ("till__bills",)


async def test_a_run_can_be_played_again(environments: Environments, market: Environment) -> None:
    episode = await Episode.start(market.under("hostile"), task="wait-and-order", seed=4)
    run = await play_oracle(episode, retries=20)
    await episode.score(run.answer)
    assert any(step.fault for step in episode.steps)
    played = await played_again(environments, trajectory_of(episode))
    assert played.status == "identical", played.difference


async def test_a_fault_may_change_one_of_them(market: Environment) -> None:
    plan = FaultPlan(rules=(FaultRule(kind="concurrent_mutation", rate=1.0),))
    episode = await Episode.start(market.under(plan), task="order-and-bill")
    run = await play_oracle(episode)
    assert [change.actor for change in run.steps[0].changes] == ["fault", "agent"]
    assert (await episode.score()).value == 1.0


async def test_what_was_recorded_must_be_on_the_pages(episode: Episode) -> None:
    order = await episode.call("shop__order", BUY)
    await episode.call("till__bill", bill_of(order))
    assert episode.task is not None
    attempt = episode.attempt(episode.task)
    lied = tuple(msgspec.structs.replace(step, changes=()) for step in attempt.steps)
    reward = await episode.environment.score(episode.task, replace(attempt, steps=lied))
    assert (reward.value, reward.failure_kind) == (None, "environment")
    assert "orders order-" in reward.reason


# --- packs of worlds -----------------------------------------------------------------------------


def world(folder: Path, **files: str) -> Catalogue:
    """The three packs in ``folder``, some files of the world replaced."""
    for name in MEMBERS:
        shutil.copytree(PACKS / name, folder / name)
    for file, text in files.items():
        (folder / "market" / file.replace("_", ".")).write_text(text)
    return Catalogue([folder])


MANIFEST = (PACKS / "market" / "environment.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"till"', '"tills"', "tills"),
        ('"till"', '"market2"', "market2"),
        ("09:00:00", "10:00:00", "begin at different times"),
    ],
)
async def test_a_world_that_cannot_be_mounted_says_why(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    catalogue = world(tmp_path, environment_toml=MANIFEST.replace(old, new))
    with pytest.raises(PackInvalid) as caught:
        catalogue.get("market")
    assert said in str(caught.value)


async def test_a_worlds_digest_covers_its_members(tmp_path: Path) -> None:
    before = world(tmp_path).get("market").digest
    with (tmp_path / "till" / "schema.sql").open("a") as file:
        file.write("INSERT INTO notes VALUES ('Closed on Sundays.');\n")
    assert Catalogue([tmp_path]).get("market").digest != before


@pytest.mark.parametrize(
    ("initial", "said"),
    [
        ("UPDATE bills SET amount_cents = 1", "one environment"),
        ("DELETE FROM till__bills WHERE order_id IN (SELECT id FROM shop__orders)", "one envir"),
        ("DELETE FROM till__bill", "no such table"),
    ],
)
async def test_a_statement_speaks_of_one_environment(
    tmp_path: Path, initial: str, said: str
) -> None:
    line = (PACKS / "market" / "tasks.jsonl").read_text().splitlines()[0]
    task = {**msgspec.json.decode(line), "initial": [initial]}
    world(tmp_path, tasks_jsonl=msgspec.json.encode(task).decode())
    async with open_environments([tmp_path]) as opened:
        market = await opened.get("market")
        with pytest.raises(PackInvalid) as caught:
            await Episode.start(market, task="order-and-bill")
    assert said in str(caught.value)


async def test_a_name_too_long_with_its_prefix_is_shortened(tmp_path: Path) -> None:
    world(tmp_path)
    tools = tmp_path / "till" / "tools.py"
    name = "list_every_bill_there_ever_was_so_far"
    tools.write_text(tools.read_text().replace("def list_bills", f"def {name}"))
    async with open_environments([tmp_path]) as opened:
        assert name in (await opened.get("till")).tools
        episode = await Episode.start(await opened.get("market"))
        step = await episode.call("till__list_every_bill_there_ever__7f2984", {})
    assert step.error is None


async def test_what_a_text_says_names_no_table(tmp_path: Path) -> None:
    text = "shop__orders, till__bills: it's -- /* till__notes"
    quoted = text.replace("'", "''")
    statement = f"UPDATE till__bills SET status = '{quoted}' /* as\nshop__orders */ -- till__bills'"
    line = (PACKS / "market" / "tasks.jsonl").read_text().splitlines()[0]
    task = {**msgspec.json.decode(line), "initial": [statement]}
    world(tmp_path, tasks_jsonl=msgspec.json.encode(task).decode())
    async with open_environments([tmp_path]) as opened:
        market = await opened.get("market")
        episode = await Episode.start(market, task="order-and-bill")
        step = await episode.call("till__list_bills", {})
    assert [bill["status"] for bill in step.result] == [text]

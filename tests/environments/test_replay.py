"""A recorded run is played again; whatever was changed in the record is found where it is."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.environment import Environments, open_environments
from environments.episode import Episode
from environments.oracle import play_oracle
from environments.record import trajectory_of
from environments.replay import first_difference, replay, replay_all
from environments.spec import FaultPlan, FaultRule
from environments.trajectory import Reward, Trajectory

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"


@pytest.fixture(scope="module")
async def shops(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    folder = tmp_path_factory.mktemp("replay")
    async with open_environments([PACKS / "shop"], data_dir=folder) as environments:
        yield environments


async def recorded(shops: Environments, task: str = "wait-for-tea", **score: Any) -> Trajectory:
    """A run with a mistake, a wait, an event and a purchase."""
    episode = await Episode.start(await shops.get("shop"), task=task, seed=5)
    await episode.call("order", {"sku": "TEA-250", "quantity": 1}, call_key="k-1")
    await play_oracle(episode)
    await episode.score(**score)
    return trajectory_of(episode)


def changed(run: Trajectory, step: int, **fields: Any) -> Trajectory:
    steps = list(run.steps)
    steps[step] = msgspec.structs.replace(steps[step], **fields)
    return msgspec.structs.replace(run, steps=tuple(steps))


async def test_a_run_as_recorded_is_identical_to_the_byte(shops: Environments) -> None:
    run = await recorded(shops)
    run = msgspec.json.decode(msgspec.json.encode(run), type=Trajectory)
    found = await replay(shops, run)
    assert (found.status, found.confirmed, found.difference) == ("identical", True, "")
    assert found.again is not None
    assert msgspec.json.encode(found.again) == msgspec.json.encode(run.reward)
    assert found.again.value == 1.0


async def test_the_way_of_scoring_is_kept(shops: Environments) -> None:
    run = await recorded(shops, mode="fraction", answer="Ordered.")
    found = await replay(shops, run)
    assert found.status == "identical"
    assert found.again is not None
    assert found.again.mode == "fraction"


async def test_a_step_that_was_changed_is_named(shops: Environments) -> None:
    run = await recorded(shops)
    bought = run.steps[2]
    result = {**bought.result, "price_cents": 1}
    found = await replay(shops, changed(run, 2, result=result))
    assert (found.status, found.step) == ("differs", 2)
    assert found.difference == "result.price_cents: 1 and 4950"

    forged = msgspec.to_builtins(bought.changes)
    forged[0]["changes"]["products"]["changed"][0]["after"]["stock"] = 20
    kind = type(bought.changes[0])
    found = await replay(
        shops,
        changed(run, 2, changes=msgspec.convert(forged, tuple[kind, ...])),  # type: ignore[valid-type]
    )
    assert (found.status, found.step) == ("differs", 2)
    assert found.difference.endswith("after.stock: 20 and 15")

    found = await replay(shops, changed(run, 1, clock_ms=run.steps[1].clock_ms + 1))
    assert (found.step, found.difference.split(":")[0]) == (1, "clock_ms")
    found = await replay(shops, changed(run, 0, error=None, result={"order_id": "o-1"}))
    assert (found.step, found.difference.split(":")[0]) == (0, "error")
    found = await replay(shops, changed(run, 1, arguments={"seconds": 60}))
    assert found.step == 1


async def test_a_reward_that_was_changed_is_named(shops: Environments) -> None:
    run = await recorded(shops)
    assert run.reward is not None
    better = msgspec.structs.replace(run.reward, value=2.0)
    found = await replay(shops, msgspec.structs.replace(run, reward=better))
    assert (found.status, found.step) == ("differs", None)
    assert found.difference == "reward.value: 2.0 and 1.0"
    found = await replay(shops, msgspec.structs.replace(run, clock_ms=1))
    assert found.difference.startswith("clock_ms: 1 and ")


async def test_times_and_keys_may_differ(shops: Environments) -> None:
    run = changed(await recorded(shops), 0, latency_ms=999.0, call_key="other", output="printed")
    assert (await replay(shops, run)).status == "identical"


async def test_a_run_that_could_not_be_scored_is_scored_now(shops: Environments) -> None:
    unset = Reward(value=None, outcome="unset", failure_kind="infrastructure", reason="disk full")
    run = msgspec.structs.replace(await recorded(shops), reward=unset)
    found = await replay(shops, run)
    assert (found.status, found.confirmed) == ("rescored", True)
    assert "disk full" in found.difference
    assert found.again is not None
    assert found.again.value == 1.0


async def test_runs_without_a_reward_are_played_only(shops: Environments) -> None:
    run = msgspec.structs.replace(await recorded(shops), reward=None)
    found = await replay(shops, run)
    assert (found.status, found.again) == ("identical", None)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"digest": "0" * 64}, "version 000000000000"),
        ({"environment": "shopp"}, "shopp"),
        ({"task": "buy-coffee"}, "buy-coffee"),
    ],
)
async def test_runs_of_another_version_are_told_apart(
    shops: Environments, fields: dict[str, str], word: str
) -> None:
    found = await replay(shops, msgspec.structs.replace(await recorded(shops), **fields))
    assert (found.status, found.confirmed) == ("outdated", False)
    assert word in found.difference


async def test_many_at_once_in_their_order_and_in_other_workers(
    shops: Environments, tmp_path: Path
) -> None:
    runs = [await recorded(shops, task) for task in ("wait-for-tea", "buy-tea", "last-cup")]
    wrong = msgspec.structs.replace(runs[1], clock_ms=1)
    shutil.copytree(PACKS / "shop", tmp_path / "shop")
    done: list[None] = []
    async with open_environments([tmp_path / "shop"]) as elsewhere:
        found = await replay_all(elsewhere, [*runs, wrong], lambda: done.append(None))
    assert [run.status for run in found] == ["identical"] * 3 + ["differs"]
    assert [run.task for run in found[:3]] == [run.task for run in runs]
    assert len(done) == 4


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, ""),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a.1.b: 2 and 3"),
        ({"a": 1}, {"a": 1.0}, "a: 1 and 1.0"),
        ({"a": [1]}, {"a": [1, 2]}, "a: [1] and [1, 2]"),
        ({"a": 1}, {}, "a: 1 and None"),
    ],
)
def test_a_difference_is_found_where_it_is(one: object, other: object, where: str) -> None:
    assert first_difference(one, other) == where


async def test_faults_and_strictness_are_played_again(shops: Environments) -> None:
    shop = await shops.get("shop")
    episode = await Episode.start(shop, task="buy-tea", malformed="end")
    await episode.call("list_products", {})
    await episode.call("oder", {})
    await episode.score()
    run = trajectory_of(episode)
    assert (run.stop_reason, run.terminated, run.malformed) == ("malformed", True, "end")
    assert run.reward is not None
    assert run.reward.value == -1.0
    assert (await replay(shops, run)).status == "identical"
    lenient = msgspec.structs.replace(run, malformed="observe")
    assert (await replay(shops, lenient)).status == "differs"

    rule = FaultRule(kind="server_error", rate=1.0)
    shaken = await Episode.start(shop.under(FaultPlan(rules=(rule,))), task="buy-tea", seed=3)
    for _ in range(4):
        await shaken.call("order", {"sku": "TEA-100", "quantity": 2})
    await shaken.score()
    run = trajectory_of(shaken)
    assert any(step.fault for step in run.steps)
    assert (await replay(shops, run)).status == "identical"
    calm = msgspec.structs.replace(run, faults=FaultPlan())
    assert (await replay(shops, calm)).step == 0

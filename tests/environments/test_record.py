"""Trajectories: what they say of a run, and that they come back from disk as they were."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from environments.chat import observation
from environments.environment import Environment, open_environments
from environments.episode import Episode
from environments.record import (
    Provenance,
    TrajectoryInvalid,
    read_lines,
    trajectory_of,
    write_lines,
)
from environments.trajectory import TRAJECTORY_FORMAT, Reward, Trajectory
from hub.mcp_server.methods import render
from hub.mcp_server.surface import CallContext
from hub.mcp_server.surfaces import EpisodeSurface

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"
BUY = {"sku": "TEA-100", "quantity": 2}


@pytest.fixture(scope="module")
async def shop(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environment]:
    folder = tmp_path_factory.mktemp("record")
    async with open_environments([PACKS / "shop"], data_dir=folder) as environments:
        yield await environments.get("shop")


async def test_a_run_from_its_ids_to_its_reward(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea", seed=7, id="ep-1")
    await episode.call("order", {"sku": "TEA-250", "quantity": 1})
    await episode.call("order", BUY)
    await episode.score("Two packs are ordered.")
    run = trajectory_of(episode, Provenance(group="g-1", repetition=3, policy="step-40"))
    assert (run.id, run.environment, run.digest, run.task) == (
        "ep-1",
        "shop",
        shop.digest,
        "buy-tea",
    )
    assert (run.seed, run.group, run.repetition, run.policy) == (7, "g-1", 3, "step-40")
    assert (run.horizon, run.clock_ms) == (12, episode.clock_ms)
    assert run.instruction == "Please order two packs of the 100 g Assam tea."
    assert run.answer == "Two packs are ordered."
    assert run.reward is not None
    assert run.reward.value == 1.0
    assert run.reward.components
    assert (run.terminated, run.truncated, run.failed, run.mask) == (True, False, False, False)
    assert run.stop_reason == "answered"
    refused, bought = run.steps
    assert refused.error is not None
    assert (refused.error.kind, refused.error.code) == ("agent", "OUT_OF_STOCK")
    assert bought.latency_ms > 0
    assert {change.actor for change in bought.changes} == {"agent"}


async def test_tools_and_messages_are_as_openai_has_them(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    await episode.call("list_products", {})
    await episode.call("order", BUY)
    await episode.score("Done.")
    run = trajectory_of(episode)
    order = next(tool for tool in run.tools if tool["function"]["name"] == "order")
    assert order["type"] == "function"
    assert order["function"]["parameters"]["properties"]["quantity"]["minimum"] == 1
    assert [message["role"] for message in run.messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    call = run.messages[4]["tool_calls"][0]
    assert call["function"]["name"] == "order"
    assert json.loads(call["function"]["arguments"]) == BUY
    assert run.messages[5]["tool_call_id"] == call["id"]
    assert json.loads(run.messages[5]["content"])["price_cents"] == 900
    assert run.messages[-1] == {"role": "assistant", "content": "Done."}


async def test_what_the_policy_saw_and_its_tokens_pass_through(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    messages = ({"role": "user", "content": "Tea!", "token_ids": [5, 6], "logprobs": [-0.5, -2]},)
    tokens = {"prompt_ids": [1, 2], "weights": {"a": [0.25]}}
    run = trajectory_of(episode, Provenance(messages=messages, tokens=tokens))
    again = msgspec.json.decode(msgspec.json.encode(run), type=Trajectory)
    assert again.messages == messages
    assert again.tokens == tokens


async def test_how_a_run_stopped(shop: Environment) -> None:
    episode = await Episode.start(shop, task="last-cup")
    assert trajectory_of(episode).stop_reason == "live"
    for _ in range(3):
        await episode.call("list_products", {})
    run = trajectory_of(episode)
    assert (run.stop_reason, run.truncated, run.terminated) == ("horizon", True, False)
    await episode.score()
    run = trajectory_of(episode)
    assert (run.stop_reason, run.truncated, run.terminated) == ("horizon", True, False)
    await episode.score("The cup is ordered.")
    assert trajectory_of(episode).stop_reason == "answered", "it spoke with its last breath"
    left = await Episode.start(shop, task="buy-tea")
    await left.close()
    assert trajectory_of(left).stop_reason == "closed"
    assert trajectory_of(left).reward is None


async def test_a_run_nobody_could_score_is_masked(shop: Environment) -> None:
    episode = await Episode.start(shop, task="buy-tea")
    episode.reward = Reward(value=None, outcome="unset", failure_kind="infrastructure", reason="x")
    run = trajectory_of(episode)
    assert (run.failed, run.mask, run.stop_reason) == (True, True, "failed")
    assert (run.terminated, run.truncated) == (False, False)


async def test_observations_are_word_for_word_what_mcp_tells(shop: Environment) -> None:
    episode = await Episode.start(shop)
    surface = EpisodeSurface(episode)
    calls = [
        ("list_products", {}),
        ("order", BUY),
        ("order", {"sku": "TEA-250", "quantity": 1}),
        ("order", {"sku": "TEA-100", "quantity": 0}),
        ("recite", {"length": 2}),
        ("break_down", {}),
    ]
    for tool, arguments in calls:
        answer = await surface.call_tool(tool, dict(arguments), CallContext("tools/call", {}))
        told = render(answer, any_structured=True)["content"][0]["text"]
        assert observation(episode.steps[-1]) == told


async def test_lines_come_back_as_they_were(shop: Environment, tmp_path: Path) -> None:
    runs = []
    for seed in range(3):
        episode = await Episode.start(shop, task="buy-tea", seed=seed)
        await episode.call("order", BUY)
        await episode.score()
        runs.append(trajectory_of(episode))
    file = tmp_path / "runs.jsonl"
    assert write_lines(file, runs) == 3
    assert list(read_lines(file)) == runs
    first = json.loads(file.read_bytes().splitlines()[0])
    assert next(iter(first)) == "format"
    assert first["format"] == TRAJECTORY_FORMAT
    assert set(first) == {"format", *Trajectory.__struct_fields__}, "every field, in every line"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('{"format": "envhub-trajectory-9"}', "envhub-trajectory-9"),
        ("{}", "format"),
        ("nonsense", "malformed"),
    ],
)
def test_a_line_that_is_no_trajectory_is_named(tmp_path: Path, line: str, word: str) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(TrajectoryInvalid, match="line 2") as caught:
        list(read_lines(file))
    assert word in str(caught.value)
    with pytest.raises(TrajectoryInvalid, match="cannot read"):
        list(read_lines(tmp_path / "none.jsonl"))

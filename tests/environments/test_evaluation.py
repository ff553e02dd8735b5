"""Measuring policies: a model behind a real endpoint, scripts, and the figures they give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.environment import Environment, Environments, open_environments
from environments.errors import UnknownTask
from environments.evaluation.figures import Prices, by_task, estimate, figures_of
from environments.evaluation.policies import Agent, UnknownPolicy, script_named
from environments.evaluation.runs import (
    Evaluation,
    EvaluationDiffers,
    Terms,
    Try,
    cost_of,
    tries_of,
)
from environments.llm import Endpoint, Llm, LlmUnavailable
from environments.record import read_lines
from environments.replay import replay
from environments.trajectory import Trajectory, Window
from tests.environments.playing_server import (
    Messages,
    Mind,
    PlayingServer,
    call,
    knowing,
    playing,
    say,
)

pytestmark = pytest.mark.anyio

SHOP = Path(__file__).parents[1] / "packs" / "shop"
TERMS = Terms(policy="solomon")


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    async with open_environments([SHOP], data_dir=tmp_path_factory.mktemp("eval")) as opened:
        yield opened


@pytest.fixture
async def shop(environments: Environments) -> Environment:
    return await environments.get("shop")


@asynccontextmanager
async def agent(server: PlayingServer, window: Window | None = None) -> AsyncIterator[Agent]:
    async with playing(server) as address:
        endpoint = Endpoint(base_url=address, model="solomon", api_key="s3", pause_seconds=0.0)
        async with Llm(endpoint) as llm:
            yield Agent(llm, window)


async def one_run(
    shop: Environment, folder: Path, mind: Mind, terms: Terms = TERMS, task: str = "buy-tea"
) -> Trajectory:
    """What a model of this mind makes of one task."""
    evaluation = Evaluation(folder, terms)
    item = Try(shop, shop.pack.task(task), 0)
    async with agent(PlayingServer(mind), terms.window) as policy:
        failed = await evaluation.make(policy, [item], 1)
    assert not failed
    return evaluation.made[item.key]


# --- the loop ------------------------------------------------------------------------------------


async def test_a_model_that_knows_passes_every_task(
    environments: Environments, shop: Environment, tmp_path: Path
) -> None:
    server = PlayingServer(knowing(list(shop.pack.tasks.values())))
    evaluation = Evaluation(tmp_path, TERMS)
    tries = tries_of([shop], 2)
    async with agent(server) as policy:
        assert await evaluation.make(policy, tries, 4) == {}
    runs = list(read_lines(tmp_path / "runs.jsonl"))
    assert len(runs) == 2 * len(shop.pack.tasks)
    figures = figures_of("shop", runs, Prices(prompt=2.0, completion=10.0))
    assert (figures.pass_at[1].value, figures.pass_at[2].value) == (1.0, 1.0)
    assert figures.usage.requests == len(server.asked)
    assert figures.price == pytest.approx(len(server.asked) * (1000 * 2 + 50 * 10) / 1e6)
    assert server.keys == {"Bearer s3"}
    assert {run.seed for run in runs} == {0, 1}
    for run in runs:
        assert (await replay(environments, run)).confirmed
    body = server.asked[0]
    assert {tool["function"]["name"] for tool in body["tools"]} == set(shop.tools)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


async def test_the_transcript_is_what_the_model_saw_and_said(
    shop: Environment, tmp_path: Path
) -> None:
    run = await one_run(shop, tmp_path, knowing(list(shop.pack.tasks.values())))
    roles = [message["role"] for message in run.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert run.messages[2]["tool_calls"][0]["function"]["name"] == "order"
    assert "refusal" not in run.messages[2], "what endpoints add of their own is not sent back"
    assert run.messages[-1]["content"] == run.answer == "Done."
    assert [each.completion for each in run.calls] == [2, 4]
    assert (run.policy, run.stop_reason) == ("solomon", "answered")
    assert cost_of(run).usage.prompt_tokens == 2000


async def test_a_window_shows_the_task_and_the_last_turns(
    shop: Environment, tmp_path: Path
) -> None:
    seen: list[Messages] = []

    def mind(messages: Messages) -> dict[str, Any]:
        seen.append(messages)
        return call("list_products", {}) if len(seen) < 5 else say("Enough.")

    terms = Terms(policy="solomon", window=Window(turns=1))
    run = await one_run(shop, tmp_path, mind, terms)
    assert len(run.steps) == 4
    assert [len(messages) for messages in seen] == [2, 4, 4, 4, 4]
    assert [len(each.prompt) for each in run.calls] == [2, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"sku": "TEA-100"', "INVALID_ARGUMENTS"),
        ("[1]", "INVALID_ARGUMENTS"),
        ("{}", "INVALID_ARG"),
    ],
)
async def test_malformed_arguments_are_a_step_the_model_is_told_of(
    shop: Environment, tmp_path: Path, arguments: str, code: str
) -> None:
    def mind(messages: Messages) -> dict[str, Any]:
        told = [message["content"] for message in messages if message["role"] == "tool"]
        return say("Sorry.") if told and code in told[0] else call("order", arguments)

    run = await one_run(shop, tmp_path / "a", mind)
    assert len(run.steps) == 1
    assert run.steps[0].error is not None
    assert run.reward is not None
    assert run.reward.value == 0.0
    strict = Terms(policy="solomon", malformed="end")
    ended = await one_run(shop, tmp_path / "b", mind, strict)
    assert (ended.stop_reason, len(ended.steps)) == ("malformed", 1)
    assert ended.reward is not None
    assert ended.reward.value == -1.0


async def test_the_horizon_ends_a_run_and_one_more_answer_is_heard(
    shop: Environment, tmp_path: Path
) -> None:
    terms = Terms(policy="solomon", horizon=3)
    endless = await one_run(shop, tmp_path / "a", lambda _: call("list_products", {}), terms)
    assert (len(endless.steps), endless.truncated, endless.answer) == (3, True, None)

    def mind(messages: Messages) -> dict[str, Any]:
        steps = sum(message["role"] == "tool" for message in messages)
        return call("list_products", {}) if steps < 3 else say("That is all.")

    last = await one_run(shop, tmp_path / "b", mind, terms)
    assert (len(last.steps), last.answer, last.truncated) == (3, "That is all.", False)


async def test_several_calls_in_one_message_are_made_in_order(
    shop: Environment, tmp_path: Path
) -> None:
    def mind(messages: Messages) -> dict[str, Any]:
        if any(message["role"] == "tool" for message in messages):
            return say("Bought.")
        both = call("list_products", {}, "a")
        both["tool_calls"] += call("order", {"sku": "TEA-100", "quantity": 2}, "b")["tool_calls"]
        return both

    run = await one_run(shop, tmp_path, mind)
    assert [step.tool for step in run.steps] == ["list_products", "order"]
    assert [m["tool_call_id"] for m in run.messages if m["role"] == "tool"] == ["a", "b"]
    assert run.reward is not None
    assert run.reward.value == 1.0


async def test_a_model_that_says_nothing_is_asked_again_and_then_left(
    shop: Environment, tmp_path: Path
) -> None:
    run = await one_run(shop, tmp_path, lambda _: say(None))
    assert run.answer is None
    assert len(run.calls) == 3
    assert run.reward is not None
    assert run.reward.value == 0.0


# --- going on ------------------------------------------------------------------------------------


async def test_a_folder_is_gone_on_with(shop: Environment, tmp_path: Path) -> None:
    server = PlayingServer(knowing(list(shop.pack.tasks.values())))
    async with agent(server) as policy:
        await Evaluation(tmp_path, TERMS).make(policy, tries_of([shop], 1), 4)
        asked = len(server.asked)
        file = tmp_path / "runs.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
        evaluation = Evaluation(tmp_path, TERMS)
        assert len(evaluation.made) == len(lines) - 1, "the torn line does not count"
        heard = []
        await evaluation.make(policy, tries_of([shop], 1), 4, lambda: heard.append(1))
        assert len(heard) == len(lines)
        assert asked < len(server.asked) < 2 * asked, "only the torn one was made again"
        more = Evaluation(tmp_path, TERMS)
        await more.make(policy, tries_of([shop], 2), 4)
    assert len(more.made) == 2 * len(lines)
    assert len(list(read_lines(file))) == 2 * len(lines)
    with pytest.raises(EvaluationDiffers) as caught:
        Evaluation(tmp_path, Terms(policy="solomon", faults="flaky", seed=4))
    assert "seed, faults" in caught.value.message


async def test_what_an_endpoint_spoils_is_made_the_next_time(
    shop: Environment, tmp_path: Path
) -> None:
    server = PlayingServer(knowing(list(shop.pack.tasks.values())))
    server.down = True
    tries = tries_of([shop], 1)
    async with agent(server) as policy:
        failed = await Evaluation(tmp_path, TERMS).make(policy, tries, 1)
        assert set(failed) == {item.key for item in tries}
        assert all(isinstance(error, LlmUnavailable) for error in failed.values())
        assert (tmp_path / "runs.jsonl").read_bytes() == b""
        server.down = False
        evaluation = Evaluation(tmp_path, TERMS)
        assert await evaluation.make(policy, tries, 1) == {}
    assert len(evaluation.made) == len(tries)


async def test_a_run_of_another_version_of_the_pack_does_not_count(
    shop: Environment, tmp_path: Path
) -> None:
    run = await one_run(shop, tmp_path, knowing(list(shop.pack.tasks.values())))
    older = msgspec.structs.replace(run, digest="0" * 64)
    (tmp_path / "runs.jsonl").write_bytes(msgspec.json.encode(older) + b"\n")
    evaluation = Evaluation(tmp_path, TERMS)
    assert Try(shop, shop.pack.task("buy-tea"), 0).key not in evaluation.made


# --- scripts and choices -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "faults", "low", "high"),
    [
        ("oracle", None, 1.0, 1.0),
        ("patient-oracle", "hostile", 1.0, 1.0),
        ("oracle", "hostile", 0.0, 0.9),
        ("nothing", None, 0.0, 0.0),
        ("random", None, 0.0, 0.1),
    ],
)
async def test_scripts_play_too(
    shop: Environment, tmp_path: Path, name: str, faults: str | None, low: float, high: float
) -> None:
    evaluation = Evaluation(tmp_path, Terms(policy=name, faults=faults, horizon=60))
    tries = 3 if name == "random" else 12  # it often comes upon the tool that hangs
    assert await evaluation.make(script_named(name), tries_of([shop], tries), 4) == {}
    found = figures_of("shop", list(evaluation.made.values()))
    assert low <= found.pass_at[1].value <= high
    assert found.usage.requests == 0


async def test_an_unknown_policy_or_task_is_told_with_what_there_is(shop: Environment) -> None:
    with pytest.raises(UnknownPolicy) as caught:
        script_named("orcale")
    assert "patient-oracle" in caught.value.hint
    with pytest.raises(UnknownTask) as unknown:
        tries_of([shop], 1, tasks=["buy-tee"])
    assert "buy-tea" in unknown.value.hint
    assert len(tries_of([shop], 3, tasks=["shop/buy-tea"])) == 3
    assert tries_of([shop], 1, split="test") == []


# --- figures -------------------------------------------------------------------------------------


async def test_pass_at_k_is_what_k_tries_of_n_would_give(shop: Environment, tmp_path: Path) -> None:
    """One of four tries passes: pass@1 is a quarter, pass@4 is 1."""
    evaluation = Evaluation(tmp_path, Terms(policy="oracle"))
    tries = tries_of([shop], 4, tasks=["buy-tea"])
    for item in tries:
        script = script_named("oracle" if item.number == 2 else "nothing")
        await evaluation.make(script, [item], 1)
    runs = list(evaluation.made.values())
    found = figures_of("shop", runs)
    assert (found.pass_at[1].value, found.pass_at[4].value) == (0.25, 1.0)
    assert (by_task(runs)[0].passed, by_task(runs)[0].tries) == (1, 4)
    assert found.reward == 0.25


def test_intervals_hold_the_mean_and_narrow_with_more_tasks() -> None:
    few, many = estimate([1.0, 0.0, 1.0, 0.0]), estimate([1.0, 0.0] * 50)
    assert few.value == many.value == 0.5
    assert 0.0 < few.low < many.low < 0.5 < many.high < few.high < 1.0
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.05, rel=0.05)


def test_intervals_of_all_and_none_are_no_points() -> None:
    every, none = estimate([1.0] * 10), estimate([0.0] * 10)
    assert (every.value, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(0.722, abs=0.001), "Wilson's for 10 of 10"
    assert (none.low, none.high) == (0.0, pytest.approx(1 - every.low))


def test_many_tries_of_each_task_narrow_the_interval_only_where_tasks_agree() -> None:
    alike = estimate([0.5, 0.5, 0.5, 0.51] * 3)
    apart = estimate([1.0, 0.0] * 6)
    assert alike.high - alike.low < (apart.high - apart.low) / 3

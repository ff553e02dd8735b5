"""Simulated users: by script and by a model, in episodes on real workers."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.llm import Llm, LlmUnavailable
from environments.oracle import play_oracle
from environments.record import trajectory_of
from environments.replay import replay
from environments.users.persona import Persona
from environments.users.script import ASK_USER, GONE
from tests.environments.model_server import ModelServer, Reply, answering

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"
USER: dict[str, Any] = {
    "persona": "Mrs Hale, who runs the tea room next door.",
    "otherwise": ["Pardon?", "What do you mean?", "I am not sure."],
    "patience": 6,
    "facts": [
        {"id": "what", "says": "The Assam, please.", "asked": ["which tea", "what kind"]},
        {"id": "size", "says": "The 100 gram packs.", "asked": ["siz*", "big", "gram"]},
        {"id": "many", "says": "Two.", "asked": ["how many", "quantity"]},
        {"id": "gift", "says": "And a cup.", "asked": ["else"], "after": ["many"]},
    ],
}
TASK = {
    "id": "tea-for-mrs-hale",
    "instruction": "Mrs Hale wants tea. Ask her, and order it.",
    "user": USER,
    "oracle": [
        {"tool": ASK_USER, "arguments": {"message": "Which tea, in what size, and how many?"}},
        {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}},
    ],
    "verifier": {
        "expect": [
            {"table": "orders", "change": "added", "where": {"sku": "TEA-100", "quantity": 2}},
            {"table": "products", "where": {"sku": "TEA-100"}, "set": {"stock": {"delta": -2}}},
        ],
        "trace": [{"tool": ASK_USER, "called": {"ge": 1}}],
    },
}


def pack(folder: Path, **user: Any) -> Path:
    """The shop with one conversational task more."""
    shutil.copytree(PACKS / "shop", folder / "shop")
    task = {**TASK, "user": {**USER, **user}}
    with (folder / "shop" / "tasks.jsonl").open("a") as file:
        file.write(msgspec.json.encode(task).decode() + "\n")
    return folder / "shop"


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    folder = tmp_path_factory.mktemp("users")
    async with open_environments([pack(folder)], data_dir=folder / "data") as opened:
        yield opened


@pytest.fixture
async def shop(environments: Environments) -> Environment:
    return await environments.get("shop")


@pytest.fixture
async def episode(shop: Environment) -> Episode:
    return await Episode.start(shop, task="tea-for-mrs-hale")


async def ask(episode: Episode, message: str) -> str:
    step = await episode.call(ASK_USER, {"message": message})
    assert step.error is None, step.error
    return str(step.result)


# --- by rule -------------------------------------------------------------------------------------


async def test_facts_are_told_when_they_are_asked_for(episode: Episode) -> None:
    start = episode.clock_ms
    assert await ask(episode, "WHICH kind of tea would you like?") == "The Assam, please."
    assert await ask(episode, "Size and quantity?") == "The 100 gram packs. Two."
    assert await ask(episode, "How many, again?") == "Two.", "and again, when asked again"
    assert (episode.clock_ms, episode.changes().to_json()) == (start, {})


async def test_some_facts_wait_for_others(episode: Episode) -> None:
    assert await ask(episode, "Anything else?") in USER["otherwise"]
    assert await ask(episode, "How many? Anything else?") == "Two. And a cup."


async def test_what_fits_nothing_is_answered_by_the_seed(shop: Environment) -> None:
    async def answers(seed: int) -> list[str]:
        episode = await Episode.start(shop, task="tea-for-mrs-hale", seed=seed)
        return [await ask(episode, "Hm.") for _ in range(4)]

    by_seed = {seed: await answers(seed) for seed in range(6)}
    assert len({tuple(said) for said in by_seed.values()}) > 1
    assert by_seed[3] == await answers(3)
    assert {line for said in by_seed.values() for line in said} <= set(USER["otherwise"])


async def test_a_user_has_only_so_much_patience(episode: Episode) -> None:
    for _ in range(USER["patience"]):
        assert await ask(episode, "Hm.") != GONE
    assert await ask(episode, "How many?") == GONE


async def test_forks_and_rewinds_find_the_same_user(episode: Episode) -> None:
    mark = await episode.mark()
    await ask(episode, "How many?")
    fork = await episode.fork()
    assert await ask(fork, "Anything else?") == "And a cup."
    await episode.rewind(mark)
    assert await ask(episode, "Anything else?") in USER["otherwise"], "it was not said yet"


async def test_there_is_somebody_to_ask_only_where_a_task_has_a_user(shop: Environment) -> None:
    other = await Episode.start(shop, task="buy-tea")
    assert ASK_USER not in other.tools
    step = await other.call(ASK_USER, {"message": "Hello?"})
    assert step.error is not None
    assert step.error.code == "UNKNOWN_TOOL"
    episode = await Episode.start(shop, task="tea-for-mrs-hale")
    assert ASK_USER in episode.tools
    assert "facts" not in msgspec.json.encode(trajectory_of(episode).tools).decode()
    wrong = await episode.call(ASK_USER, {"text": "Hello?"})
    assert wrong.error is not None
    assert wrong.error.code == "INVALID_ARGUMENTS"


async def test_talk_is_judged_by_the_trace_and_spared_by_faults(
    environments: Environments, shop: Environment
) -> None:
    silent = await Episode.start(shop, task="tea-for-mrs-hale")
    await silent.call("order", {"sku": "TEA-100", "quantity": 2})
    assert (await silent.score()).value == 0.0, "it was not asked"
    for seed in range(5):
        episode = await Episode.start(shop.under("hostile"), task="tea-for-mrs-hale", seed=seed)
        run = await play_oracle(episode, retries=20)
        assert (await episode.score(run.answer)).value == 1.0
        assert run.steps[0].fault is None
        trajectory = trajectory_of(episode)
        assert trajectory.user == "script"
        assert (await replay(environments, trajectory)).status == "identical"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([{"id": "a", "says": "A.", "asked": []}], "nothing asks"),
        ([{"id": "a", "says": "A.", "asked": ["a"], "after": ["b"]}], "'b'"),
        ([{"id": "a", "says": "A.", "asked": ["a"]}] * 2, "twice"),
    ],
)
async def test_a_user_nobody_can_ask_is_refused(
    tmp_path: Path, facts: list[dict[str, Any]], said: str
) -> None:
    async with open_environments([pack(tmp_path, facts=facts)]) as opened:
        with pytest.raises(PackInvalid) as caught:
            await opened.get("shop")
    assert "tea-for-mrs-hale" in str(caught.value)
    assert said in str(caught.value)


# --- by a model ----------------------------------------------------------------------------------


async def test_a_model_plays_the_persona_and_knows_the_talk(shop: Environment) -> None:
    server = ModelServer('{"reply": "Two of the Assam, dear."}', '{"reply": "The small ones."}')
    async with answering(server) as endpoint, Llm(endpoint) as llm:
        episode = await Episode.start(shop.heard_by(Persona(llm)), task="tea-for-mrs-hale")
        assert await ask(episode, "What would you like?") == "Two of the Assam, dear."
        assert await ask(episode, "Which size?") == "The small ones."
        assert trajectory_of(episode).user == "solomon"
    first, second = server.asked
    system = first["messages"][0]["content"]
    assert "Mrs Hale, who runs the tea room" in system
    assert "The 100 gram packs." in system
    assert [message["role"] for message in second["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert "Two of the Assam, dear." in second["messages"][2]["content"]


async def test_a_run_with_a_model_is_played_again_with_what_it_said(
    environments: Environments, shop: Environment
) -> None:
    server = ModelServer('{"reply": "Two of the Assam, dear."}')
    async with answering(server) as endpoint, Llm(endpoint) as llm:
        episode = await Episode.start(shop.heard_by(Persona(llm)), task="tea-for-mrs-hale")
        await play_oracle(episode)
        await episode.score()
        told = trajectory_of(episode)
    asked = len(server.asked)
    assert (await replay(environments, told)).status == "identical"
    assert len(server.asked) == asked


async def test_a_user_who_cannot_answer_is_our_fault_and_no_step(shop: Environment) -> None:
    server = ModelServer(Reply(status=503))
    async with answering(server) as endpoint:
        quick = msgspec.structs.replace(endpoint, attempts=1)
        async with Llm(quick) as llm:
            episode = await Episode.start(shop.heard_by(Persona(llm)), task="tea-for-mrs-hale")
            with pytest.raises(LlmUnavailable):
                await ask(episode, "How many?")
            assert list(episode.steps) == []
            server.replies = [Reply('{"reply": "Two."}')]
            assert await ask(episode, "How many?") == "Two."


async def test_a_task_without_a_persona_keeps_its_script(tmp_path: Path) -> None:
    server = ModelServer("never asked")
    async with (
        answering(server) as endpoint,
        Llm(endpoint) as llm,
        open_environments([pack(tmp_path, persona="")], user=Persona(llm)) as opened,
    ):
        episode = await Episode.start(await opened.get("shop"), task="tea-for-mrs-hale")
        assert await ask(episode, "How many?") == "Two."
    assert server.asked == []

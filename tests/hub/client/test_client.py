"""The Python client against a real hub, and over connections that fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import httpx2
import pytest

from hub.client import (
    AsyncHub,
    CreateEpisode,
    HorizonSchedule,
    Hub,
    HubError,
    HubUnreachable,
    Phase,
    SamplerSpec,
    TaskFilter,
    Window,
    asks,
)
from tests.hub.served import Served, served

TEA = ("shop", "buy-tea")
SHOP = TaskFilter(environments=("shop",))
BUY = {"sku": "TEA-100", "quantity": 2}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("client") / "data") as hub:
        yield hub


@pytest.fixture
def hub(running: Served) -> Iterator[Hub]:
    with Hub(running.address) as connected:
        yield connected


def test_neither_the_server_nor_mcp_is_imported() -> None:
    server = ("mcp", "starlette", "uvicorn", "pydantic", "apsw", "aiosqlite", "snapshots", "rich")
    code = (
        "import sys, hub.client\n"
        f"print(*sorted({{name.split('.')[0] for name in sys.modules}} & set({server})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_an_episode_from_beginning_to_end(hub: Hub) -> None:
    assert [each.name for each in hub.environments("corner")] == ["shop"]
    assert {task.id for task in hub.tasks("shop", difficulty="easy")} == {"buy-tea", "last-cup"}
    with hub.episode(*TEA, seed=3, horizon=5) as episode:
        assert episode.instruction.startswith("Please order")
        assert {tool["function"]["name"] for tool in episode.tools()} >= {"order", "wait"}
        mark = episode.mark()
        wrong = episode.call("order", {"sku": "TEA-999", "quantity": 1})
        assert wrong.step.error is not None
        assert "NO_SUCH_PRODUCT" in episode.observation(wrong)
        assert (episode.remaining, episode.status) == (4, "live")
        episode.rewind(mark)
        assert episode.remaining == 5
        episode.call("order", BUY)
        assert episode.changes(actor="agent")["products"]["changed"][0]["after"] == {"stock": 10}
        (fork,) = episode.fork()
        fork.call("order", BUY)
        assert (fork.score().value, episode.score("done").value) == (0.0, 1.0)
        assert [step.tool for step in fork.steps(since=1)] == ["order"]
        trajectory = episode.trajectory()
        assert trajectory.answer == "done"
        assert [step.call_key for step in trajectory.steps] == ["2"]
    assert hub.attach(episode.id).status == "closed"
    with pytest.raises(HubError) as caught:
        episode.call("order", BUY)
    assert (caught.value.code, caught.value.kind, caught.value.status) == (
        "EPISODE_CLOSED", "agent", 409,
    )  # fmt: skip


def test_a_group_and_what_it_teaches(hub: Hub) -> None:
    hub.ask(asks.keep_schedule("two", HorizonSchedule((Phase(0, 2), Phase(10, 4)))))
    with hub.group(*TEA, size=4, schedule="two", training_step=12) as group:
        assert [episode.horizon for episode in group] == [4] * len(group)
        for episode in group[:2]:
            episode.call("order", BUY)
        rewards = [episode.score().value for episode in group]
    assert rewards == [1.0, 1.0, 0.0, 0.0]
    detail = group.detail()
    assert detail.complete
    assert detail.lesson.advantages[0] == pytest.approx(0.8659, abs=1e-3)
    group.close()


def test_many_at_once(hub: Hub) -> None:
    wanted = [CreateEpisode(environment="shop", task=task) for task in ("buy-tea", "none")]
    episode, refused = hub.episodes(wanted)
    assert isinstance(refused, HubError)
    assert refused.code == "UNKNOWN_TASK"
    assert not isinstance(episode, HubError)
    others = [hub.episode(*TEA) for _ in range(3)]
    others[0].close()
    answers = hub.call_all((each, "order", BUY) for each in (episode, *others))
    assert [isinstance(answer, HubError) for answer in answers] == [False, True, False, False]
    assert episode.remaining == 11

    def play(_: int) -> float | None:
        with hub.episode(*TEA) as mine:
            mine.call("order", BUY)
            return mine.score().value

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(play, range(24))) == {1.0}


def test_samplers_by_name_and_by_sample(hub: Hub) -> None:
    info = hub.ask(asks.keep_sampler("uniform", SamplerSpec(seed=2, where=SHOP)))
    assert len(info.tasks) == 3
    drawn = [task.task for task in hub.ask(asks.draw("uniform", 2)).tasks]
    with hub.group(size=1, sampler="uniform") as group:
        third = group.info.task
    assert sorted([*drawn, third]) == ["buy-tea", "last-cup", "wait-for-tea"]
    with hub.group(
        size=2, sample=TaskFilter(environments=("shop",), difficulties=("medium",)), seed=4
    ) as group:
        assert group.info.task == "wait-for-tea"


def test_a_transcript_is_what_the_trajectory_says(hub: Hub) -> None:
    with hub.episode(*TEA, window=Window(turns=1)) as episode:
        chat = episode.converse()
        for turn in range(3):
            assert len(chat.prompt()) == (2 if turn == 0 else 4)
            chat.reply({"role": "assistant", "content": f"turn {turn}", "ids": [turn]}, n=turn)
            answer = episode.call("list_products")
            chat.answered(f"call_{turn}", episode.observation(answer))
    kept = hub.attach(episode.id).trajectory()
    assert list(kept.messages) == chat.messages
    assert kept.calls == tuple(chat.calls)
    assert [len(call.prompt) for call in kept.calls] == [2, 4, 4]


# --- what goes wrong on the way ----------------------------------------------------------------


class Failing(httpx2.BaseTransport):
    """Every second request goes wrong: it does not arrive, or its answer does not."""

    def __init__(self, lose_answers: bool) -> None:
        self._real = httpx2.HTTPTransport()
        self._lose_answers = lose_answers
        self.requests = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        if self.requests % 2 == 0:
            return self._real.handle_request(request)
        if self._lose_answers:
            self._real.handle_request(request).read()
            raise httpx2.ReadError("the connection was cut")
        raise httpx2.ConnectError("nobody listens")

    def close(self) -> None:
        self._real.close()


@pytest.mark.parametrize("lose_answers", [False, True])
def test_what_is_asked_twice_happens_once(running: Served, lose_answers: bool) -> None:
    with Hub(running.address, transport=Failing(lose_answers)) as hub:
        with hub.group(*TEA, size=2) as group:
            for episode in group:
                episode.call("list_products")
                answer = episode.call("order", BUY)
                assert answer.step.index == 1, "the first answer was lost, the step was not"
                assert episode.score().value == 1.0
        assert len({member.episode for member in group.detail().members}) == 2
        with hub.episode(*TEA) as single:
            assert len(single.steps()) == 0
            (fork,) = single.fork() if not lose_answers else (None,)
            if lose_answers:
                with pytest.raises(HubUnreachable, match="was cut"):
                    single.fork()  # it may have happened: only whoever asks can say
            assert fork is None or fork.id != single.id


def test_patience_has_an_end(running: Served) -> None:
    asked = Failing(lose_answers=True)
    with Hub(running.address, transport=asked, patience_seconds=0) as hub:
        with pytest.raises(HubUnreachable):
            hub.environments()
        assert asked.requests == 1
        asked.requests = 1
        with pytest.raises(HubError) as caught:
            hub.environment("shoop")
        assert (caught.value.status, caught.value.hint) == (404, "did you mean shop?")
    with Hub("http://127.0.0.1:9", patience_seconds=0.2) as nobody:
        started = time.monotonic()
        with pytest.raises(HubUnreachable, match="envhub serve"):
            nobody.environments()
        assert time.monotonic() - started < 20


def test_a_hub_that_is_restarted_is_waited_for(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as first:
        port = first.address.rsplit(":", 1)[1]
        hub = Hub(first.address)
        episode = hub.episode(*TEA)
        episode.call("list_products")
        following = hub.events(cursor=0)
        first.kill()
    again: list[Served] = []

    def restart() -> None:
        again.append(Served(data, "--port", port))

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        assert episode.call("order", BUY).step.index == 1
        assert episode.score().value == 1.0
        episode.close()
        assert next(following).id == episode.id
        hub.close()
    finally:
        thread.join()
        again[0].close()


def test_leases_are_renewed_while_somebody_thinks(hub: Hub, running: Served) -> None:
    kept = hub.episode(*TEA, lease_seconds=0.6)
    left = hub.episode(*TEA, lease_seconds=0.6)
    hub._keeper.drop(left.id)
    deadline = time.monotonic() + 20
    listing = asks.Ask(method="GET", path="/v1/episodes", answer=dict, query={"status": "parked"})
    while left.id not in [each["id"] for each in hub.ask(listing)["episodes"]]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parked = [each["id"] for each in hub.ask(listing)["episodes"]]
    assert kept.id not in parked
    left.call("order", BUY)
    assert left.score().value == 1.0, "it went on where it was"
    left.park()
    assert left.id in [each["id"] for each in hub.ask(listing)["episodes"]]


def test_leaving_the_hub_closes_what_it_began(running: Served) -> None:
    with Hub(running.address) as first:
        mine = first.episode(*TEA)
        with Hub(running.address) as second:
            with second.attach(mine.id) as guest:
                guest.call("order", BUY)
            assert guest.info().status == "live"
        mine.call("list_products")
    with Hub(running.address) as third:
        assert third.attach(mine.id).info().status == "closed"


def test_what_finished_is_followed(hub: Hub) -> None:
    last = max((cursor for cursor, _ in hub.trajectories()), default=0)
    ids = []
    for _ in range(3):
        with hub.episode(*TEA, policy_version="v9") as episode:
            episode.score()
        ids.append(episode.id)
    finished = list(hub.trajectories(last))
    assert [each.id for _, each in finished] == ids
    assert {each.policy for _, each in finished} == {"v9"}
    assert [event.id for event in islice(hub.events(last), 3)] == ids


def test_not_a_hub() -> None:
    page = httpx2.MockTransport(lambda _: httpx2.Response(404, text="<h1>Not Found</h1>"))
    with (
        Hub("http://elsewhere", patience_seconds=0, transport=page) as hub,
        pytest.raises(HubError) as caught,
    ):
        hub.environments()
    assert caught.value.code == "NOT_A_HUB"


# --- the same, awaited -------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_awaited_client(running: Served) -> None:
    async with AsyncHub(running.address) as hub:
        assert "shop" in [each.name for each in await hub.environments()]
        following = hub.events()
        first = asyncio.ensure_future(anext(following))
        async with hub.group(*TEA, size=6, lease_seconds=5) as group:

            async def play(number: int) -> float | None:
                episode = group[number]
                chat = episode.converse()
                chat.reply({"role": "assistant", "content": "buy"})
                answer = await episode.call("order", BUY if number % 2 else {**BUY, "quantity": 1})
                chat.answered("c", episode.observation(answer))
                return (await episode.score()).value

            rewards = await asyncio.gather(*map(play, range(6)))
        assert rewards == [0.0, 1.0] * 3
        assert (await group.detail()).lesson.passed == 3
        async with asyncio.timeout(20):
            assert (await first).group == group.id
        episode = await hub.episode(*TEA)
        mark = await episode.mark()
        answers = await hub.call_all([(episode, "order", BUY), (episode, "list_products", {})])
        assert [getattr(each, "remaining", None) for each in answers] == [11, 10]
        await episode.rewind(mark)
        assert len(await episode.steps()) == 0
        forks = await episode.fork(2)
        assert len({fork.id for fork in forks}) == 2
        await episode.reset(seed=9)
        assert (await episode.info()).seed == 9
        assert await episode.changes() == {}
        assert {tool["function"]["name"] for tool in await episode.tools()} >= {"order"}
        refused = await hub.episodes([CreateEpisode(environment="none")])
        assert isinstance(refused[0], HubError)
        trajectories = [each async for _, each in hub.trajectories(group=group.id)]
        assert {each.messages[2]["content"] for each in trajectories} == {"buy"}
        with pytest.raises(HubError, match="no environment"):
            await hub.environment("none")
        await following.aclose()  # type: ignore[attr-defined]

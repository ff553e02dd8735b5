"""Leases and room: episodes nobody asks for are parked, resumed, closed; a full hub says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from environments.episode import Episode
from hub.admission import Admission
from hub.app import Hub
from hub.errors import AtCapacity
from hub.leases import Leases
from hub.ledger import RowQuery
from hub.settings import Settings
from hub.wire import CreateEpisode
from tests.hub.served import PACKS

pytestmark = pytest.mark.anyio

BUY = {"sku": "TEA-100", "quantity": 2}
SHOP = CreateEpisode(environment="shop", task="buy-tea")
SHORT = CreateEpisode(environment="shop", task="buy-tea", lease_seconds=0.05)


@asynccontextmanager
async def opened(data_dir: Path, **settings: Any) -> AsyncIterator[Hub]:
    given = Settings(data_dir=data_dir, packs=(PACKS / "shop",), shipped=False, **settings)
    async with Hub.open(given) as hub:
        yield hub


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- the parts ---------------------------------------------------------------------------------


def test_a_lease_runs_out_once_unless_it_is_renewed() -> None:
    now = 0.0
    leases = Leases(10, lambda: now)
    leases.grant("a")
    leases.grant("b", 4)
    leases.grant("c", 30)
    assert leases.next_seconds() == 4
    now = 5
    assert leases.expired() == ["b"]
    assert leases.expired() == []
    assert leases.touch("a") == 10
    now = 12
    assert leases.expired() == [], "a was renewed at 5"
    now = 15
    assert leases.expired() == ["a"]
    assert leases.touch("a") == 10, "told of, and still there: it begins anew"
    leases.drop("c")
    now = 40
    assert leases.expired() == ["a"]
    assert (leases.touch("c"), leases.seconds("b"), len(leases)) == (None, 4, 2)


def test_a_lease_that_is_held_does_not_run_out() -> None:
    now = 0.0
    leases = Leases(10, lambda: now)
    leases.grant("a")
    leases.hold("a")
    leases.hold("a")
    now = 25
    assert leases.expired() == []
    leases.let_go("a")
    assert leases.held("a")
    now = 50
    assert leases.expired() == []
    leases.let_go("a")
    assert not leases.held("a")
    now = 59
    assert leases.expired() == []
    now = 70
    assert leases.expired() == ["a"]
    leases.let_go("none")


async def test_who_waits_for_a_lease_wakes_for_a_shorter_one() -> None:
    leases = Leases(3600)
    leases.grant("long")
    waiting = asyncio.ensure_future(leases.due(3600))
    await asyncio.sleep(0)
    leases.grant("short", 0.001)
    async with asyncio.timeout(5):
        await waiting
        while not (found := leases.expired()):
            await leases.due(3600)
    assert found == ["short"]


async def test_those_who_queue_are_let_in_in_order_and_all_or_none() -> None:
    room = Admission(4, lambda: 12.3)
    await room.admit(3)
    order: list[str] = []

    async def enter(name: str, count: int) -> None:
        await room.admit(count, wait_seconds=20)
        order.append(name)

    waiting = [asyncio.ensure_future(enter("two", 2)), asyncio.ensure_future(enter("one", 1))]
    await asyncio.sleep(0)
    assert room.queued == 3
    with pytest.raises(AtCapacity) as caught:
        await room.admit(1)  # there is room for one, but others came first
    assert caught.value.details["retry_after_seconds"] == 12
    room.release(1)
    await until(lambda: order)
    assert order == ["two"]
    room.release(3)
    await asyncio.gather(*waiting)
    assert (order, room.occupied, room.queued) == (["two", "one"], 2, 0)
    with pytest.raises(AtCapacity, match="more than this hub may hold"):
        await room.admit(5, wait_seconds=20)


async def test_a_wait_that_is_over_leaves_no_trace_and_lets_smaller_ones_in() -> None:
    room = Admission(2, lambda: 0.0)
    await room.admit(1)
    large = asyncio.ensure_future(room.admit(2, wait_seconds=0.02))
    small = asyncio.ensure_future(room.admit(1, wait_seconds=20))
    with pytest.raises(AtCapacity):
        await large
    await small
    assert (room.occupied, room.queued) == (2, 0)
    cancelled = asyncio.ensure_future(room.admit(1, wait_seconds=20))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert (room.occupied, room.queued) == (2, 0)


# --- a hub -------------------------------------------------------------------------------------


async def status(hub: Hub, episode: Episode) -> str:
    row = await hub.ledger.row(episode.id)
    assert row is not None
    return row.status


async def test_nobody_asks_and_it_is_parked_somebody_asks_and_it_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        kept = await hub.episodes.create(SHOP)
        episode = await hub.episodes.create(SHORT)
        await hub.episodes.call(episode, "order", BUY)
        pages = episode.branch.encode()
        await until(lambda: hub.ledger.live == 1)
        assert hub.episodes.live(episode.id) is None
        assert await status(hub, episode) == "parked"
        assert await status(hub, kept) == "live"
        again = await hub.episodes.lookup(episode.id)
        assert again is not episode
        assert (again.steps, again.branch.encode()) == (episode.steps, pages)
        assert await status(hub, again) == "live"
        # whoever still holds the one that was parked plays the one there is now
        await hub.episodes.call(episode, "list_products", {})
        current = await hub.episodes.lookup(episode.id)
        assert len(current.steps) == 2
        assert (await hub.episodes.score(episode)).value == 1.0


async def test_whoever_is_heard_of_or_busy_is_not_parked(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        episode = await hub.episodes.create(SHORT)
        hanging = asyncio.ensure_future(hub.episodes.call(episode, "hang", {}))
        await until(lambda: episode.busy)
        await hub.episodes.park(episode.id)
        assert hub.episodes.live(episode.id) is episode, "a call is under way"
        assert (await hanging).error is not None, "it ran into its deadline of two seconds"
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert await hub.episodes.lookup(episode.id) is episode


async def test_leases_hold_over_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        request = CreateEpisode(environment="shop", lease_seconds=0.4)
        episode = await hub.episodes.create(request)
        await hub.episodes.create(SHOP)
    async with opened(tmp_path) as hub:
        assert hub.ledger.live == 2
        await until(lambda: hub.ledger.live == 1)
        assert await status(hub, episode) == "parked"
    async with opened(tmp_path, retention_seconds=0.0) as hub:
        await until(lambda: hub.ledger.finishes == 1)
        assert await status(hub, episode) == "closed"
        await hub.episodes.close(episode.id)


async def test_closing_what_is_parked_brings_nothing_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        episode = await hub.episodes.create(SHOP)
        await hub.episodes.park(episode.id)
        await hub.episodes.park(episode.id)
        assert (hub.ledger.live, hub.episodes.admission.occupied) == (0, 0)
        await hub.episodes.close(episode.id)
        await hub.episodes.close(episode.id)
        assert await status(hub, episode) == "closed"
        assert hub.episodes.live(episode.id) is None


async def test_a_seat_that_was_parked_is_taken_up_again(tmp_path: Path) -> None:
    async with opened(tmp_path, lease_seconds=0.1) as hub:
        seat = await hub.seats.at("shop", "ann")
        await hub.episodes.call(seat, "order", BUY)
        await until(lambda: hub.ledger.live == 0)
        again = await hub.seats.at("shop", "ann")
        assert (again.id, len(again.steps)) == (seat.id, 1)


async def test_without_records_an_episode_nobody_asks_for_is_closed(tmp_path: Path) -> None:
    async with opened(tmp_path, durability="none") as hub:
        episode = await hub.episodes.create(SHORT)
        await until(lambda: hub.ledger.live == 0)
        assert (await hub.episodes.lookup(episode.id)).closed


async def test_a_full_hub_says_so_and_lets_wait(tmp_path: Path) -> None:
    async with opened(tmp_path, max_episodes=2) as hub:
        first, second = [await hub.episodes.create(SHOP) for _ in range(2)]
        with pytest.raises(AtCapacity):
            await hub.episodes.create(SHOP)
        waiting = CreateEpisode(environment="shop", wait_seconds=20)
        queued = asyncio.ensure_future(hub.episodes.create(waiting))
        await until(lambda: hub.episodes.admission.queued == 1)
        await hub.episodes.close(first.id)
        await queued
        with pytest.raises(AtCapacity):
            await hub.episodes.fork(second.id)
        await hub.episodes.park(second.id)
        third = await hub.episodes.create(SHOP)
        with pytest.raises(AtCapacity):
            await hub.episodes.lookup(second.id)  # no room to take it up again
        await hub.episodes.close(third.id)
        assert (await hub.episodes.lookup(second.id)).id == second.id
        unknown = CreateEpisode(environment="shop", task="none")
        await hub.episodes.close(second.id)
        for _ in range(3):
            with pytest.raises(Exception, match="no task"):
                await hub.episodes.create(unknown)
        assert hub.episodes.admission.occupied == 1


@pytest.mark.parametrize("durability", ["step", "none"])
async def test_who_gives_up_while_an_episode_begins_holds_no_room(
    tmp_path: Path, durability: str
) -> None:
    async with opened(tmp_path, max_episodes=1, durability=durability) as hub:
        await hub.episodes.environments.get("shop")
        for turns in range(1, 4):
            begun = asyncio.ensure_future(hub.episodes.create(SHOP))
            for _ in range(turns):
                await asyncio.sleep(0)
            begun.cancel()
            with pytest.raises(asyncio.CancelledError):
                await begun
            assert (hub.episodes.admission.occupied, hub.episodes.admission.held) == (0, {})
            assert hub.ledger.live == 0
        episode = await hub.episodes.create(SHOP)
        assert hub.episodes.admission.held == {"local": 1}
        assert hub.episodes.live(episode.id) is episode


async def test_thousands_that_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        warm = await hub.episodes.create(SHOP)
        await hub.episodes.call(warm, "order", BUY)
        handles = open_files()
        asked = CreateEpisode(environment="shop", task="buy-tea", lease_seconds=1.0)
        episodes = await asyncio.gather(*(hub.episodes.create(asked) for _ in range(2000)))
        await asyncio.gather(*(hub.episodes.call(each, "order", BUY) for each in episodes[::20]))
        await until(lambda: hub.episodes.admission.occupied == 1)
        assert hub.ledger.live == 1
        assert len(await hub.ledger.rows(RowQuery(status="parked", limit=5000))) == 2000
        assert len(hub.episodes.leases) == 1
        assert open_files() <= handles + 2
        some = await hub.episodes.lookup(episodes[20].id)
        assert (await hub.episodes.score(some)).value == 1.0

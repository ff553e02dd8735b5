"""Which episode a hub finds: by id, by seat, after a restart, and where its pack has moved on."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from environments.errors import EnvironmentChanged, EpisodeClosed
from hub.app import Hub
from hub.errors import EpisodeGone, UnknownEpisode
from hub.ledger import RowQuery
from hub.settings import Durability, Settings
from hub.telemetry import configure_logging
from hub.wire import CreateEpisode
from tests.hub.served import PACKS

pytestmark = pytest.mark.anyio

BUY = {"sku": "TEA-100", "quantity": 2}
SHOP = CreateEpisode(environment="shop", task="buy-tea")


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    shutil.copytree(PACKS / "shop", tmp_path / "packs" / "shop")
    return tmp_path / "packs"


@asynccontextmanager
async def opened(packs: Path, durability: Durability = "step") -> AsyncIterator[Hub]:
    settings = Settings(
        data_dir=packs.parent / "data", packs=(packs,), shipped=False, durability=durability
    )
    async with Hub.open(settings) as hub:
        yield hub


async def test_an_episode_is_resumed_once_however_many_ask(packs: Path) -> None:
    async with opened(packs) as hub:
        episode = await hub.episodes.create(SHOP)
        await hub.episodes.call(episode, "order", BUY)
    async with opened(packs) as hub:
        found = await asyncio.gather(*(hub.episodes.lookup(episode.id) for _ in range(20)))
        assert len({id(each) for each in found}) == 1
        assert found[0].steps == episode.steps
        assert found[0].branch.encode() == episode.branch.encode()
        assert (await hub.episodes.score(found[0])).value == 1.0
        with pytest.raises(UnknownEpisode):
            await hub.episodes.lookup("ep-none")


async def test_a_seat_is_kept_over_connections_and_restarts(packs: Path) -> None:
    async with opened(packs) as hub:
        seats = await asyncio.gather(*(hub.seats.at("shop", "ann") for _ in range(10)))
        assert len({each.id for each in seats}) == 1
        ann, bob = seats[0], await hub.seats.at("shop", "bob")
        assert ann.id != bob.id
        await hub.episodes.call(ann, "order", BUY)
        assert not bob.changes()
    async with opened(packs) as hub:
        again = await hub.seats.at("shop", "ann")
        assert again.id == ann.id
        assert len(again.steps) == 1
        await hub.episodes.close(again.id)
        fresh = await hub.seats.at("shop", "ann")
        assert fresh.id != ann.id
        assert fresh.horizon > 1000, "a person is not cut short"


async def test_an_episode_whose_pack_changed_is_told_so_and_can_be_closed(packs: Path) -> None:
    async with opened(packs) as hub:
        episode = await hub.episodes.create(SHOP)
        seat = await hub.seats.at("shop", "ann")
    policy = packs / "shop" / "policy.md"
    policy.write_text(policy.read_text() + "Be kind.\n")
    async with opened(packs) as hub:
        with pytest.raises(EnvironmentChanged):
            await hub.episodes.lookup(episode.id)
        assert (await hub.seats.at("shop", "ann")).id != seat.id
        await hub.episodes.close(episode.id)
        await hub.episodes.close(episode.id)
        rows = await hub.ledger.rows(RowQuery(status="closed"))
        assert [row.id for row in rows] == [episode.id]
    (packs / "shop" / "environment.toml").unlink()
    async with opened(packs) as hub:
        await hub.episodes.close(seat.id)
        assert hub.ledger.live == 1


async def test_without_durability_a_closed_episode_is_gone_in_the_end(
    packs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.episodes.KEPT_CLOSED", 1)
    async with opened(packs, "none") as hub:
        first = await hub.episodes.create(SHOP)
        second = await hub.episodes.create(SHOP)
        await hub.episodes.close(first.id)
        assert await hub.episodes.lookup(first.id) is first
        with pytest.raises(EpisodeClosed):
            await hub.episodes.call(first, "order", BUY)
        await hub.episodes.close(second.id)
        with pytest.raises(EpisodeGone):
            await hub.episodes.lookup(first.id)
        await hub.episodes.close(first.id)


async def test_faults_are_logged_with_the_ids_of_episode_and_call(packs: Path) -> None:
    heard = io.StringIO()
    before = structlog.get_config()
    configure_logging("debug", "json", heard)
    try:
        async with opened(packs) as hub:
            episode = await hub.episodes.create(SHOP)
            await asyncio.gather(
                hub.episodes.call(episode, "order", BUY),
                hub.episodes.call(episode, "break_down", {}),
            )
    finally:
        structlog.configure(**before)
    lines = [json.loads(line) for line in heard.getvalue().splitlines()]
    (fault,) = [line for line in lines if line["event"] == "fault"]
    calls = [line for line in lines if line["event"] == "call"]
    assert (fault["kind"], fault["code"], fault["tool"]) == (
        "environment",
        "TOOL_CRASHED",
        "break_down",
    )
    assert [call["tool"] for call in calls] == ["order", "break_down"]
    assert fault["episode_id"] == episode.id
    assert fault["call_id"] == calls[1]["call_id"] != calls[0]["call_id"]

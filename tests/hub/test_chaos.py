"""Many episodes, few workers, and somebody who kills the workers."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from environments.catalogue import Catalogue
from environments.environment import Environments
from environments.episode import Episode
from environments.errors import InfrastructureFault
from environments.sandbox.host import Sandbox, SandboxLimits
from hub.curriculum import Curricula
from hub.episodes import Episodes
from hub.ledger import Ledger
from hub.telemetry import Metrics
from hub.wire import CreateEpisode
from snapshots import SnapshotStore
from tests.hub.served import PACKS

pytestmark = pytest.mark.anyio

NAMES = ("shop-north", "shop-south", "shop-west")
EPISODES = 200
ORDERS = 12
KILL_EVERY_SECONDS = 0.1
"""Ten times as often as promised, so that a short test sees many."""


class Workers:
    """The process ids of the workers that live, as the sandbox tells of them."""

    def __init__(self) -> None:
        self.pids: set[int] = set()
        self.lost = 0

    def hear(self, kind: str, environment: str, **fields: object) -> None:
        pid = fields.get("pid")
        if kind == "worker_started" and isinstance(pid, int):
            self.pids.add(pid)
        elif kind == "worker_ended" and isinstance(pid, int):
            self.pids.discard(pid)
            self.lost += fields.get("reason") == "lost"

    async def be_killed(self) -> None:
        dice = random.Random(1)
        while True:
            await asyncio.sleep(KILL_EVERY_SECONDS)
            if self.pids:
                os.kill(dice.choice(sorted(self.pids)), signal.SIGKILL)


@pytest.fixture
async def workers() -> Workers:
    return Workers()


@pytest.fixture
async def episodes(tmp_path: Path, workers: Workers) -> AsyncIterator[Episodes]:
    for name in NAMES:
        shutil.copytree(PACKS / "shop", tmp_path / "packs" / name)
        manifest = tmp_path / "packs" / name / "environment.toml"
        manifest.write_text(manifest.read_text().replace('"shop"', f'"{name}"'))
    limits = SandboxLimits(workers_per_environment=2)
    async with (
        Sandbox(limits, on_event=workers.hear) as sandbox,
        Ledger.open(tmp_path / "ledger.sqlite3") as ledger,
    ):
        catalogue = Catalogue([tmp_path / "packs"])
        environments = Environments(catalogue, SnapshotStore(tmp_path / "snapshots"), sandbox)
        yield Episodes(environments, ledger, Metrics(), Curricula(catalogue, ledger))


async def test_no_acknowledged_step_is_lost_or_doubled_while_workers_die(
    episodes: Episodes, workers: Workers
) -> None:
    async def play(number: int) -> Episode:
        name = NAMES[number % len(NAMES)]
        request = CreateEpisode(environment=name, seed=number, horizon=100)
        episode = await episodes.create(request)
        for index in range(ORDERS):
            await insist(episodes, episode, f"order-{index}")
        return episode

    for name in NAMES:  # their databases are built before: calls are what may be repeated by key
        await episodes.environments.get(name)
    killer = asyncio.create_task(workers.be_killed())
    played = await asyncio.gather(*map(play, range(EPISODES)))
    killer.cancel()
    assert workers.lost >= 3, "some workers were lost while they were wanted"

    assert len(played) == EPISODES
    for episode in played:
        keys = [step.call_key for step in episode.steps]
        assert keys == [f"order-{index}" for index in range(ORDERS)]
        assert not any(step.error for step in episode.steps)
        changes = episode.changes().to_json()
        assert changes["products"]["changed"][0]["after"] == {"stock": 12 - ORDERS}
        ordered = Counter(row["id"] for row in changes["orders"]["added"])
        assert ordered == Counter(step.result["order_id"] for step in episode.steps)
    for episode in played[:: len(NAMES) * 5]:
        replayed = await Episode.replay(
            episode.environment, episode.id, await episodes.ledger.records(episode.id)
        )
        assert list(replayed.steps) == list(episode.steps)
        assert replayed.branch.encode() == episode.branch.encode()


async def insist(episodes: Episodes, episode: Episode, key: str) -> None:
    """Order one pack of tea; if that is lost through our own fault, ask again with the same key."""
    for _ in range(10):
        try:
            arguments = {"sku": "TEA-100", "quantity": 1}
            await episodes.call(episode, "order", arguments, key)
        except InfrastructureFault:
            continue
        return
    pytest.fail(f"{key} of {episode.id} was lost ten times")

"""Whatever a pack asks what time it is, it is the episode's time, and the same at every replay."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from environments.sandbox.host import Sandbox
from tests.environments.sandbox.conftest import Make, Packs, World

pytestmark = pytest.mark.anyio

CLOCKS = """
import datetime as dates
import random
import time
import uuid
from datetime import date, datetime, timezone
from time import time as imported_by_name

from environments.authoring import now

LOADED = datetime.now(timezone.utc).isoformat(), random.random(), str(uuid.uuid4())

@tool(read_only=True)
def clocks(db: Database) -> dict:
    "Every clock there is."
    return {
        "now": now().isoformat(),
        "datetime": datetime.now(timezone.utc).isoformat(),
        "naive": datetime.now().isoformat() + "+00:00",
        "utcnow": dates.datetime.utcnow().isoformat() + "+00:00",
        "today": date.today().isoformat(),
        "time": datetime.fromtimestamp(imported_by_name(), timezone.utc).isoformat(),
        "time_ns": time.time_ns() // 1_000_000,
        "gettime": time.clock_gettime(time.CLOCK_REALTIME),
        "gmtime": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "localtime": time.strftime("%Y-%m-%dT%H:%M:%S+00:00"),
        "sql": db.scalar("SELECT strftime('%Y-%m-%dT%H:%M:%S', 'now')") + "+00:00",
        "uuid1": datetime.fromtimestamp(
            (uuid.uuid1().time - 0x01b21dd213814000) / 1e7, timezone.utc).isoformat(),
    }

@tool(read_only=True)
def loaded() -> list:
    "What it was while this was loaded."
    return list(LOADED)

@tool(read_only=True)
def measure() -> bool:
    "Durations are still measured."
    began, counted = time.monotonic(), time.perf_counter()
    time.sleep(0.01)
    return time.monotonic() - began >= 0.01 <= time.perf_counter() - counted
"""
START = "[clock]\nstart = 2031-02-03T04:05:06Z\nstep_seconds = 90\n"


async def told(world: World) -> dict[str, Any]:
    transition = await world.call("clocks")
    assert transition.error is None, transition.error
    result: dict[str, Any] = transition.result
    return result


def expected(moment: datetime) -> dict[str, Any]:
    text = moment.isoformat()
    same = ("now", "datetime", "naive", "utcnow", "time", "gmtime", "localtime", "sql", "uuid1")
    return dict.fromkeys(same, text) | {
        "today": text[:10],
        "time_ns": int(moment.timestamp()) * 1000,
        "gettime": moment.timestamp(),
    }


async def test_every_clock_stands_at_the_episodes_time(make: Make) -> None:
    world = make(CLOCKS, START)
    assert await told(world) == expected(datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC))
    await world.call("take", sku="a")
    assert await told(world) == expected(datetime(2031, 2, 3, 4, 6, 36, tzinfo=UTC))
    world.accept(await world.sandbox.wait(world.pack, world.branch, world.moment, 86_400.0))
    assert await told(world) == expected(datetime(2031, 2, 4, 4, 6, 36, tzinfo=UTC))
    assert await told(world.another()) == expected(datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC))


async def test_durations_are_measured(make: Make) -> None:
    assert (await make(CLOCKS).call("measure")).result is True


async def test_what_is_drawn_while_loading_is_the_same_in_every_worker(
    packs: Packs, sandbox: Sandbox
) -> None:
    seen = []
    for name in ("one", "two"):
        world = packs.world(sandbox, CLOCKS, START, name=name)
        seen.append((await world.call("loaded")).result)
    assert seen[0] == seen[1]
    assert seen[0][0] == "2031-02-03T04:05:06+00:00"
    async with Sandbox() as another:  # forked from another zygote
        world = packs.world(another, CLOCKS, START, name="three")
        assert (await world.call("loaded")).result == seen[0]

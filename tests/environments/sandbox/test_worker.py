"""Questions in a row at one worker, and what becomes of those behind one that takes long."""

from __future__ import annotations

import anyio
import pytest

from environments.errors import ToolTimedOut
from environments.sandbox import crew
from environments.sandbox.host import Sandbox
from tests.environments.sandbox.conftest import Packs, World, until

pytestmark = pytest.mark.anyio

TOOLS = """
import threading, time

@tool(read_only=True)
def rest(seconds: float = 0) -> float:
    "Take that long."
    time.sleep(seconds)
    return seconds

@tool(read_only=True)
def linger() -> None:
    "Leave a thread running."
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""
SLOW_SECONDS = 0.3
"""Longer than a question waits behind another."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers count as quick enough for a queue at the worker, however busy this machine is."""
    monkeypatch.setattr(crew, "_AHEAD_SECONDS", 3600.0)


async def behind_a_slow_call(world: World, tool: str, **arguments: object) -> list[object]:
    """What came of a call that waited at the worker while that had a slow one before it."""
    told: list[object] = []

    async def ask(tool: str, **arguments: object) -> None:
        try:
            told.append((await world.another().call(tool, **arguments)).error)
        except ToolTimedOut as error:
            told.append(error)

    async with anyio.create_task_group() as group:
        # the others queue before this is answered, and then go to the worker together
        group.start_soon(ask, "rest")
        group.start_soon(lambda: ask("rest", seconds=SLOW_SECONDS))
        group.start_soon(lambda: ask(tool, **arguments))
    return told


async def test_a_call_that_was_asked_elsewhere_does_not_keep_its_first_worker_for_ever(
    lone: Sandbox, packs: Packs, ended: list[str]
) -> None:
    world = packs.world(lone, TOOLS, "[limits]\ncall_seconds = 1\n")
    await world.call("rest")
    with anyio.fail_after(20):
        told = await behind_a_slow_call(world, "rest", seconds=3600)
        assert told[:2] == [None, None]
        assert isinstance(told[2], ToolTimedOut)
        assert (await world.call("rest")).error is None
    assert ended == ["deadline", "deadline"], "the first came to it too"


async def test_a_worker_spoiled_by_a_call_that_was_asked_elsewhere_does_not_serve_again(
    lone: Sandbox, packs: Packs, ended: list[str]
) -> None:
    world = packs.world(lone, TOOLS)
    await world.call("rest")
    told = await behind_a_slow_call(world, "linger")
    assert told[:2] == [None, None]
    assert "left a thread running" in str(told[2])
    await until(lambda: len(ended) == 2)
    assert ended == ["spoiled", "spoiled"]
    assert (await world.call("rest")).error is None

"""An alarm that is put off again and again."""

from __future__ import annotations

import asyncio

import pytest

from environments.sandbox.alarm import Alarm

pytestmark = pytest.mark.anyio


async def test_it_rings_when_it_was_last_set_to_and_once() -> None:
    loop = asyncio.get_running_loop()
    rang, last = loop.create_future(), loop.create_future()
    alarm = Alarm(loop, lambda: rang.set_result(loop.time()))
    late = loop.time() + 0.05
    alarm.set(loop.time() + 0.01)
    alarm.set(late)
    assert alarm.is_set
    assert await rang >= late
    assert not alarm.is_set
    Alarm(loop, lambda: last.set_result(None)).set(loop.time() + 0.02)
    await last  # a second ring meanwhile would have raised InvalidStateError


async def test_it_may_be_set_to_come_sooner() -> None:
    loop = asyncio.get_running_loop()
    rang = loop.create_future()
    alarm = Alarm(loop, lambda: rang.set_result(None))
    alarm.set(loop.time() + 3600)
    alarm.set(loop.time())
    await rang


async def test_stopped_or_closed_it_does_not_ring() -> None:
    loop = asyncio.get_running_loop()
    after = loop.create_future()
    rang: list[str] = []
    stopped, closed = (Alarm(loop, lambda name=name: rang.append(name)) for name in "sc")
    for alarm in (stopped, closed):
        alarm.set(loop.time() + 0.01)
    stopped.stop()
    closed.close()
    Alarm(loop, lambda: after.set_result(None)).set(loop.time() + 0.02)
    await after
    assert rang == []

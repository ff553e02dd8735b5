"""Work that ends whatever becomes of who waits for it."""

from __future__ import annotations

import asyncio

import pytest

from environments import unhurried as module
from environments.unhurried import unhurried

pytestmark = pytest.mark.anyio


async def test_the_result_and_the_error_of_the_work_are_those_of_waiting() -> None:
    async def doubled(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise ValueError(number)
        return number * 2

    assert await unhurried(doubled(4)) == 8
    with pytest.raises(ValueError, match="-1"):
        await unhurried(doubled(-1))


@pytest.mark.parametrize("bare", [True, False], ids=["asleep", "awaiting"])
async def test_cancelling_the_waiting_lets_the_work_end(bare: bool) -> None:
    loop = asyncio.get_running_loop()
    gate, done = loop.create_future(), loop.create_future()
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        while not gate.done():
            await (asyncio.sleep(0) if bare else gate)
        await asyncio.sleep(0)
        done.set_result("ended")

    async def wait() -> None:
        await unhurried(work())

    waiting = asyncio.ensure_future(wait())
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not gate.cancelled()
    gate.set_result(None)
    assert await done == "ended"


async def test_what_is_left_of_the_work_may_be_cancelled_itself() -> None:
    loop = asyncio.get_running_loop()
    gate, seen = loop.create_future(), loop.create_future()

    async def work() -> None:
        try:
            await gate
        except asyncio.CancelledError:
            seen.set_result("cancelled")
            raise

    async def wait() -> None:
        await unhurried(work())

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (rest,) = module._running
    await asyncio.sleep(0)
    rest.cancel()
    assert await seen == "cancelled"
    with pytest.raises(asyncio.CancelledError):
        await rest
    await asyncio.sleep(0)
    assert not module._running


async def test_a_cancelled_future_of_the_work_is_the_works_own_affair() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await gate
        except asyncio.CancelledError:
            return "went on"
        return "never"

    async def wait() -> str:
        return await unhurried(work())

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    gate.cancel()
    assert await waiting == "went on"

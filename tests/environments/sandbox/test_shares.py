"""What a tenant may have of the workers at once, and what is left to the others."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from environments.errors import ToolTimedOut, WorkerExited, WorkersBusy
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.sandbox.pool import Pool
from environments.sandbox.shares import Share, on_behalf_of
from environments.sandbox.wire import LoadBuilder
from tests.environments.sandbox.conftest import LOOSE, Packs, World, until

pytestmark = pytest.mark.anyio

TOOLS = """
import os, threading, time

@tool(read_only=True)
def who() -> int:
    "The worker."
    return os.getpid()

@tool(read_only=True)
def spin(marker: str = "", threads: int = 0) -> None:
    "Announce itself, and compute for ever."
    for _ in range(threads):
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
    if marker:
        os.close(os.open(marker + str(os.getpid()), os.O_CREAT))
    while True: pass

@tool(read_only=True)
def doze(seconds: float) -> int:
    "Take that long."
    time.sleep(seconds)
    return os.getpid()

@tool(read_only=True)
def crash() -> None:
    "End the worker."
    os._exit(3)

@tool(read_only=True)
def large(rows: int) -> list:
    "Many rows."
    return [{"number": number, "text": "row"} for number in range(rows)]
"""
SHORT = "[limits]\ncall_seconds = 1\n"
LONG = "[limits]\ncall_seconds = 60\n"


@pytest.fixture
async def shared() -> AsyncIterator[Sandbox]:
    """A loose sandbox in which a tenant may have two workers at once."""
    limits = SandboxLimits(
        workers_per_tenant=2, workers_per_environment=1, queue_timeout_seconds=0.5, without=LOOSE
    )
    async with Sandbox(limits) as opened:
        yield opened


def worlds(packs: Packs, sandbox: Sandbox, count: int, manifest: str) -> list[World]:
    return [packs.world(sandbox, TOOLS, manifest, name=f"pack{n}") for n in range(count)]


def busy(sandbox: Sandbox) -> int:
    pools = sandbox.statistics().environments.values()
    return sum(pool.workers - pool.idle + pool.starting for pool in pools)


async def test_one_tenants_loops_leave_workers_to_another(packs: Packs, shared: Sandbox) -> None:
    *hostile, quiet = worlds(packs, shared, 6, SHORT)
    told: list[object] = []

    async def loop(world: World) -> None:
        try:
            await world.call("spin")
        except (ToolTimedOut, WorkersBusy) as error:
            told.append(type(error))

    async with anyio.create_task_group() as group:
        with on_behalf_of("hostile"):
            for world in hostile:
                group.start_soon(loop, world)
        await until(lambda: shared.statistics().queued == 3)
        with on_behalf_of("quiet"):
            for _ in range(50):
                assert (await quiet.call("who")).error is None
                assert busy(shared) <= 3
    assert len(told) == 5, "each was answered, or told that no worker came free"
    assert ToolTimedOut in told
    with on_behalf_of("hostile"):
        for world in hostile:
            assert (await world.another().call("who")).error is None
    assert busy(shared) == 0


async def test_who_waits_too_long_is_told(packs: Packs, shared: Sandbox) -> None:
    one, two, three = worlds(packs, shared, 3, LONG)
    with on_behalf_of("hostile"):
        async with anyio.create_task_group() as group:
            group.start_soon(one.call, "spin")
            group.start_soon(two.call, "spin")
            await until(lambda: busy(shared) == 2)
            with pytest.raises(WorkersBusy, match="no worker for pack2 was free"):
                await three.call("who")
            group.cancel_scope.cancel()
    await until(lambda: busy(shared) == 0)


async def test_clients_that_vanish_leave_nothing(packs: Packs, shared: Sandbox) -> None:
    hostile = worlds(packs, shared, 5, LONG)
    for _ in range(3):
        with on_behalf_of("hostile"):
            async with anyio.create_task_group() as group:
                for world in hostile:
                    group.start_soon(world.call, "spin")
                await until(lambda: busy(shared) == 2 and shared.statistics().queued == 3)
                group.cancel_scope.cancel()
        await until(lambda: busy(shared) == 0 and shared.statistics().queued == 0)
        with on_behalf_of("hostile"):
            for world in hostile:
                assert (await world.another().call("who")).error is None


async def test_environments_of_one_tenant_take_turns(packs: Packs) -> None:
    limits = SandboxLimits(workers_per_tenant=1, workers_per_environment=1)
    async with Sandbox(limits) as sandbox:
        busy_one, other = worlds(packs, sandbox, 2, LONG)
        with on_behalf_of("tenant"), anyio.fail_after(30):
            assert (await busy_one.call("who")).error is None
            async with anyio.create_task_group() as group:

                async def again_and_again() -> None:
                    while True:
                        await busy_one.another().call("doze", seconds=0.03)

                for _ in range(3):
                    group.start_soon(again_and_again)
                for _ in range(5):
                    assert (await other.call("who")).error is None
                group.cancel_scope.cancel()


async def test_no_worker_serves_two_tenants(packs: Packs, shared: Sandbox) -> None:
    world = packs.world(shared, TOOLS)
    pids: dict[str, set[int]] = {"one": set(), "two": set()}
    for _ in range(3):
        for tenant, seen in pids.items():
            with on_behalf_of(tenant):
                seen.add((await world.another().call("who")).result)
    assert [len(seen) for seen in pids.values()] == [1, 1]
    assert not pids["one"] & pids["two"]


async def test_a_tenant_with_many_environments_costs_another_no_worker(packs: Packs) -> None:
    limits = SandboxLimits(max_workers=4, workers_per_tenant=2, workers_per_environment=1)
    async with Sandbox(limits) as sandbox:
        quiet, *many = worlds(packs, sandbox, 7, LONG)
        with on_behalf_of("quiet"):
            before = (await quiet.call("who")).result
        with on_behalf_of("busy"):
            for world in many * 2:
                await world.another().call("who")
        assert sandbox.statistics().ends["evicted"] >= 9
        with on_behalf_of("quiet"):
            assert (await quiet.call("who")).result == before


async def test_a_call_that_takes_long_stands_back_with_all_its_threads(
    packs: Packs, shared: Sandbox, tmp_path: Path
) -> None:
    marker = tmp_path / "markers"
    marker.mkdir()
    world = packs.world(shared, TOOLS, LONG)

    def niceness() -> set[int]:
        [pid] = [path.name for path in marker.iterdir()]
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks}

    with on_behalf_of("tenant"):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: world.call("spin", marker=f"{marker}/", threads=3))
            await until(lambda: bool(list(marker.iterdir())) and niceness() == {19})
            group.cancel_scope.cancel()


async def test_it_comes_forward_after_a_quick_one(packs: Packs, shared: Sandbox) -> None:
    world = packs.world(shared, TOOLS, LONG)

    async def niceness(tool: str, **arguments: object) -> int:
        """How far the worker stands back (the same one, or another) after such a call."""
        pid = (await world.another().call(tool, **arguments)).result
        return os.getpriority(os.PRIO_PROCESS, pid)

    with on_behalf_of("tenant"), anyio.fail_after(60):
        while await niceness("doze", seconds=0.2) != 19:
            pass  # this machine was slower than the call
        while await niceness("who") != 10:
            pass


async def test_crashes_in_a_row_are_answered_ever_slower(packs: Packs, shared: Sandbox) -> None:
    world = packs.world(shared, TOOLS)
    for _ in range(4):
        with pytest.raises(WorkerExited):
            await world.call("crash")
    assert (await world.call("who")).error is None

    pool = Pool("pack", lambda number: LoadBuilder(id=number), 1)
    waits = []
    for _ in range(12):
        pool.failed(100.0)
        waits.append(max(0.0, pool.starts_at - 100.0))
    assert waits[:4] == pytest.approx([0.0, 0.05, 0.1, 0.2])
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(2.0)


async def test_large_answers_are_paid_for_and_come_all_the_same(
    packs: Packs, shared: Sandbox
) -> None:
    world, other = worlds(packs, shared, 2, LONG + "result_bytes = 4000000\n")
    with on_behalf_of("greedy"), anyio.fail_after(120):
        for _ in range(3):
            done = await world.call("large", rows=20_000)
            assert len(done.result) == 20_000
        assert (await other.call("who")).error is None
    assert busy(shared) == 0


def test_what_a_share_owes() -> None:
    share = Share(2)
    assert not share.charge(0.04, 10.0)
    assert not share.charge(0.04, 11.0), "it has paid back meanwhile"
    assert share.charge(0.20, 11.0)
    assert (share.full, share.resting) == (True, True)
    assert share.rests_until == pytest.approx(11.0 + (0.04 + 0.20 - 0.05) / 0.05)
    share.resume()
    assert (share.full, share.resting) == (False, False)

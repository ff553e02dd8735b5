"""Who gets a worker, when there are fewer than those who want one."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from pathlib import Path

import anyio
import pytest

from environments.errors import InfrastructureFault, ToolTimedOut
from environments.sandbox import crew, known, memory
from environments.sandbox.host import Sandbox, SandboxLimits
from tests.environments.sandbox.conftest import LOOSE, Make, Packs, World, until

pytestmark = pytest.mark.anyio

WHO = """
import os, signal, time

@tool(read_only=True)
def who() -> int:
    "The worker."
    return os.getpid()

@tool(read_only=True)
def block(marker: str, wait: bool = False) -> int:
    "Announce itself, then wait for the end (or for the announcement of another)."
    try:
        os.close(os.open(marker + str(os.getpid()), os.O_CREAT))
    except OSError:
        pass
    while wait and len(os.listdir(os.path.dirname(marker))) < 2:
        time.sleep(0.001)
    if not wait:
        signal.pause()
    return os.getpid()

@tool(read_only=True)
def fork() -> list:
    "Leave a child and a grandchild behind."
    read, write = os.pipe()
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.write(write, str(os.getpid()).encode())
            signal.pause()
        os.write(write, b"")
        signal.pause()
    return [int(os.read(read, 20)), os.getpid()]

@tool(read_only=True)
def hoard(size: int) -> int:
    "Take memory and keep it."
    globals()["hoarded"] = bytearray(b"x") * size
    return os.getpid()
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_workers_come_with_the_queue_and_stop_at_the_limit(
    packs: Packs, tmp_path: Path
) -> None:
    gather = tmp_path / "gather"
    gather.mkdir()
    async with Sandbox(SandboxLimits(workers_per_environment=2, without=LOOSE)) as sandbox:
        world = packs.world(sandbox, WHO)
        assert sandbox.statistics().workers == 0
        pids: set[int] = set()

        async def call(tool: str, **arguments: object) -> None:
            pids.add((await world.another().call(tool, **arguments)).result)

        await call("who")
        assert sandbox.statistics().workers == 1
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(lambda: call("block", marker=f"{gather}/", wait=True))
        assert len(pids) == 2
        assert sandbox.statistics().environments["shop"].workers == 2
        assert sandbox.statistics().queued == 0


async def test_200_concurrent_calls_over_three_packs(packs: Packs) -> None:
    async with Sandbox(SandboxLimits(workers_per_environment=2)) as sandbox:
        worlds = [packs.world(sandbox, WHO, name=name) for name in ("one", "two", "three")]
        episodes = [worlds[number % 3].another() for number in range(200)]

        async def play(world: World, takes: int) -> None:
            for number in range(takes):
                assert (await world.call("take", sku="a")).result == {"left": 4 - number}
            assert (await world.call("stock", sku="a")).result["on_hand"] == 5 - takes

        async with anyio.create_task_group() as group:
            for number, world in enumerate(episodes):
                group.start_soon(play, world, number % 4)
        assert sandbox.statistics().workers <= 6
        assert sandbox.statistics().ends == {}


@pytest.mark.parametrize("max_pages", [4, 1 << 30], ids=["forgetful", "mindful"])
async def test_interleaved_branches_on_several_workers_never_see_one_another(
    make: Make, monkeypatch: pytest.MonkeyPatch, max_pages: int
) -> None:
    monkeypatch.setattr(known, "MAX_PAGES", max_pages)
    root = make()
    chance = random.Random(7)
    episodes = [root.another() for _ in range(8)]
    expected = [{"a": 5, "b": 7} for _ in episodes]
    marks = [
        (world.branch.mark(), dict(stock)) for world, stock in zip(episodes, expected, strict=True)
    ]

    async def play(number: int) -> None:
        world, stock = episodes[number], expected[number]
        for _ in range(40):
            sku = chance.choice("ab")
            match chance.randrange(8):
                case 0:
                    marks[number] = (world.branch.mark(), dict(stock))
                case 1:
                    mark, stock = marks[number]
                    stock = dict(stock)
                    world.branch.rewind(mark)
                case 2:
                    refused = await world.call("take", sku=sku, quantity=999)
                    assert refused.error is not None
                case 3:  # done, but never committed
                    await world.sandbox.call(
                        world.pack, world.branch, world.moment, "take", {"sku": sku, "quantity": 0}
                    )
                case 4 | 5:
                    stock[sku] += 1
                    result = (await world.call("take", sku=sku, quantity=-1)).result
                    assert result == {"left": stock[sku]}
                case _:
                    assert (await world.call("stock", sku=sku)).result["on_hand"] == stock[sku]

    async with anyio.create_task_group() as group:
        for number in range(len(episodes)):
            group.start_soon(play, number)


async def test_more_environments_than_workers_take_turns(packs: Packs) -> None:
    async with Sandbox(SandboxLimits(max_workers=2, workers_per_environment=2)) as sandbox:
        worlds = [packs.world(sandbox, name=f"shop{number}") for number in range(5)]
        for _ in range(2):
            for world in worlds:
                assert (await world.call("take", sku="b")).error is None
                assert sandbox.statistics().workers <= 2
        assert sandbox.statistics().ends["evicted"] >= 8
        async with anyio.create_task_group() as group:  # and all at a time
            for world in [*worlds, *(world.another() for world in worlds)]:
                group.start_soon(lambda world=world: world.call("take", sku="b"))
        assert [(await world.call("stock", sku="b")).result["on_hand"] for world in worlds] == [
            4
        ] * 5


async def test_a_busy_environment_does_not_starve_another(
    packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "_TURN_SECONDS", 0.0)
    async with Sandbox(SandboxLimits(max_workers=1)) as sandbox:
        busy, other = packs.world(sandbox), packs.world(sandbox, name="other")
        async with anyio.create_task_group() as group:

            async def keep_busy() -> None:
                world = busy.another()
                while True:
                    await world.call("stock", sku="a")

            for _ in range(4):
                group.start_soon(keep_busy)
            await busy.call("stock", sku="a")
            with anyio.fail_after(10):
                assert (await other.call("stock", sku="a")).error is None
            group.cancel_scope.cancel()


async def test_a_cancelled_call_leaves_no_half_used_worker(
    packs: Packs, lone: Sandbox, ended: list[str], tmp_path: Path
) -> None:
    markers = tmp_path / "markers"
    markers.mkdir()
    world = packs.world(lone, WHO)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: world.call("block", marker=f"{markers}/"))
        await until(lambda: any(markers.iterdir()))
        group.cancel_scope.cancel()
    assert ended == ["cancelled"]
    assert (await world.call("take", sku="a")).result == {"left": 4}


async def test_those_cancelled_in_the_queue_take_nothing_with_them(
    packs: Packs, lone: Sandbox, ended: list[str]
) -> None:
    world = packs.world(lone, WHO)
    await world.call("who")
    for patience in range(12):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(lambda: world.another().call("who"))
            for _ in range(patience):  # so that they are cancelled at every stage
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert (await world.call("who")).error is None
        statistics = lone.statistics()
        assert (statistics.queued, statistics.workers) == (0, 1)
    assert set(ended) <= {"cancelled"}


async def test_idle_workers_go_and_come_back(packs: Packs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_SWEEP_SECONDS", 0.02)
    async with Sandbox(SandboxLimits(idle_seconds=0.05)) as sandbox:
        world = packs.world(sandbox)
        await world.call("take", sku="a")
        await until(lambda: sandbox.statistics().workers == 0)
        assert sandbox.statistics().ends == {"idle": 1}
        assert (await world.call("stock", sku="a")).result["on_hand"] == 4


async def test_keeping_house_goes_on_after_a_round_that_went_wrong(
    packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "_SWEEP_SECONDS", 0.02)
    told: list[str] = []
    left = ["nobody thought of that"]
    look = memory.Holdings.look

    async def look_once_in_vain(holdings: memory.Holdings) -> None:
        if left:
            raise RuntimeError(left.pop())
        await look(holdings)

    monkeypatch.setattr(memory.Holdings, "look", look_once_in_vain)
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    try:
        async with Sandbox(SandboxLimits(idle_seconds=0.05)) as sandbox:
            await packs.world(sandbox).call("take", sku="a")
            await until(lambda: sandbox.statistics().ends == {"idle": 1})
            gc.collect()  # the loop tells of it once nobody else can
    finally:
        loop.set_exception_handler(handler)
    assert told == ["nobody thought of that"]


async def test_workers_beyond_the_memory_budget_go(
    packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "_SWEEP_SECONDS", 0.02)
    limits = SandboxLimits(memory_budget_bytes=50 << 20)
    async with Sandbox(limits) as sandbox:
        small = packs.world(sandbox, WHO)
        large = packs.world(sandbox, WHO, "[limits]\nmemory_bytes = 200_000_000\n", name="large")
        await large.call("hoard", size=70 << 20)
        await until(lambda: sandbox.statistics().ends.get("evicted") == 1)
        await small.call("who")
        await anyio.sleep(0.1)
        assert sandbox.statistics().environments["shop"].workers == 1
        assert sandbox.statistics().resident_bytes > 1 << 20
        await large.call("hoard", size=120 << 20)
        await until(lambda: sandbox.statistics().ends.get("grown") == 1)


async def test_the_memory_budget_holds_while_environments_take_turns(packs: Packs) -> None:
    budget = 45 << 20
    async with Sandbox(SandboxLimits(memory_budget_bytes=budget)) as sandbox:
        for number in range(10):
            await packs.world(sandbox, WHO, name=f"shop-{number}").call("who")
            assert sandbox.statistics().resident_bytes <= budget
        held = sandbox.statistics()
        assert 2 <= held.workers < 10
        assert held.ends == {"evicted": 10 - held.workers}


async def test_nobody_queues_for_ever(packs: Packs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_SWEEP_SECONDS", 0.02)
    limits = SandboxLimits(workers_per_environment=1, queue_timeout_seconds=0.2)
    async with Sandbox(limits) as sandbox:
        world = packs.world(sandbox, WHO, "[limits]\ncall_seconds = 1\n")
        await world.call("who")

        async def block() -> None:
            with pytest.raises(ToolTimedOut):
                await world.call("block", marker="/nowhere/")

        async with anyio.create_task_group() as group:
            group.start_soon(block)
            await anyio.lowlevel.checkpoint()
            with pytest.raises(InfrastructureFault, match=r"within 0\.2 seconds"):
                await world.another().call("who")


async def test_close_leaves_no_process(packs: Packs, tmp_path: Path) -> None:
    markers = tmp_path / "markers"
    markers.mkdir()
    pids: list[int] = []

    def note(kind: str, environment: str, **fields: object) -> None:
        if kind in ("worker_started", "zygote_started"):
            pids.append(int(str(fields["pid"])))

    async def block(world: World) -> None:
        with pytest.raises(InfrastructureFault):
            await world.call("block", marker=f"{markers}/")

    sandbox = Sandbox(SandboxLimits(workers_per_environment=3, without=LOOSE), note)
    async with anyio.create_task_group() as group:  # noqa: SIM117 - closes under those in flight
        async with sandbox:
            world = packs.world(sandbox, WHO)
            idle = packs.world(sandbox, WHO, name="idle")
            orphans = (await idle.call("fork")).result
            assert all(alive(pid) for pid in orphans)
            for _ in range(5):  # three in flight, two in the queue
                group.start_soon(block, world.another())
            await until(lambda: len(list(markers.iterdir())) == 3)
    assert len(pids) == 5
    await until(lambda: not any(alive(pid) for pid in [*pids, *orphans]), seconds=2)
    with pytest.raises(InfrastructureFault, match="closed"):
        await idle.call("who")
    await sandbox.close()

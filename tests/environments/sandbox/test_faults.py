"""Packs that misbehave: each fault is told, laid at the right door, and costs nobody else a row."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from pathlib import Path

import anyio
import pytest

from environments.errors import (
    EnvironmentFault,
    FrameRejected,
    InfrastructureFault,
    PackInvalid,
    ToolTimedOut,
    WorkerExited,
    WorkerLost,
)
from environments.sandbox import crew
from environments.sandbox.host import Sandbox, SandboxLimits
from tests.environments.sandbox.conftest import LOOSE, Make, Packs, World, until

pytestmark = pytest.mark.anyio
QUICK = "[limits]\ncall_seconds = 0.5\n"


async def still_works(world: World) -> None:
    """The episode is where it was, and its next call is served."""
    assert (await world.call("stock", sku="a")).result["on_hand"] == 5
    assert (await world.call("take", sku="a")).result == {"left": 4}


# --- it raises, or answers what it must not -------------------------------------------------------

RAISING = """
import ctypes, json, os, signal, sys, threading, time

@tool(read_only=False)
def crash(db: Database) -> None:
    "Write, then fail."
    db.run("UPDATE items SET on_hand = 0")
    db.run("COMMIT")
    return {}["missing"]

@tool(read_only=False)
def interrupt(db: Database) -> None:
    "Raise what is no Exception."
    db.run("UPDATE items SET on_hand = 0")
    raise KeyboardInterrupt

@tool(read_only=False)
def unspeakable(db: Database) -> None:
    "Raise what has no text."
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError
    db.run("UPDATE items SET on_hand = 0")
    raise Mute

@tool(read_only=False)
def nonsense(db: Database) -> Any:
    "Return what is not JSON."
    db.run("UPDATE items SET on_hand = 0")
    return object()

@tool(read_only=False)
def surrogate(db: Database) -> str:
    "Return text that is no text."
    db.run("UPDATE items SET on_hand = 0")
    return chr(0xd800)

@tool(read_only=False)
def endless(db: Database) -> Any:
    "Return a number that JSON has not."
    db.run("UPDATE items SET on_hand = 0")
    return {"share": float("nan")}

@tool(read_only=False)
def astronomical(db: Database) -> Any:
    "Return a number that no record can hold."
    db.run("UPDATE items SET on_hand = 0")
    return [1, {"atoms": 10 ** 80}]

@tool(read_only=False)
def abyss(db: Database) -> Any:
    "Return what is nested too deep for clients."
    db.run("UPDATE items SET on_hand = 0")
    nested = []
    for _ in range(220):
        nested = [nested]
    return nested

@tool(read_only=False)
def huge(db: Database) -> str:
    "Return too much."
    db.run("UPDATE items SET on_hand = 0")
    return "x" * 9_000_000

@tool(read_only=False)
def rewrite(db: Database) -> None:
    "Change too much."
    db.run("INSERT INTO log WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
           "LIMIT 100) SELECT i, hex(zeroblob(50000)) FROM n")

@tool(read_only=True)
def lie(db: Database) -> None:
    "Write although it says that it only reads."
    db.run("UPDATE items SET on_hand = 0")

@tool(read_only=False)
def linger(db: Database) -> None:
    "Leave a thread running."
    db.run("UPDATE items SET on_hand = 0")
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

@tool(read_only=False)
def hold(db: Database) -> None:
    "Leave a transaction open."
    db.run("COMMIT")
    blob = db._connection.blob_open("main", "items", "sku", 1, False)
    globals()["held"] = blob

@tool(read_only=True)
def bomb() -> None:
    "Take more memory than there is."
    bytearray(4 << 30)

@tool(read_only=True)
def write_file(path: str) -> None:
    "Write to the disk."
    with open(path, "w") as file:
        file.write("x" * 100)
"""


@pytest.mark.parametrize(
    ("tool", "code", "text"),
    [
        ("crash", "TOOL_CRASHED", "KeyError: 'missing'"),
        ("interrupt", "TOOL_CRASHED", "KeyboardInterrupt"),
        ("unspeakable", "TOOL_CRASHED", "Mute"),
        ("nonsense", "BAD_RESULT", "not JSON"),
        ("surrogate", "BAD_RESULT", "not JSON"),
        ("endless", "BAD_RESULT", "NaN is no JSON number"),
        ("astronomical", "BAD_RESULT", "64-bit"),
        ("abyss", "BAD_RESULT", "levels"),
        ("huge", "BAD_RESULT", "bytes"),
        ("rewrite", "BAD_RESULT", "bytes"),
        ("lie", "BAD_RESULT", "read-only"),
        ("linger", "TOOL_CRASHED", "thread"),
        ("hold", "TOOL_CRASHED", "UncleanMount"),
        ("bomb", "TOOL_CRASHED", "MemoryError"),
    ],
)
async def test_what_a_tool_gets_wrong_is_the_packs_fault_and_counts_for_nothing(
    make: Make, tool: str, code: str, text: str
) -> None:
    world = make(RAISING)
    transition = await world.call(tool)
    assert transition.error is not None
    assert (transition.error.kind, transition.error.code) == ("environment", code)
    assert text in transition.error.message
    assert (transition.delta, transition.commits, transition.result) == (None, (), None)
    await still_works(world)


async def test_a_crash_says_where(make: Make) -> None:
    error = (await make(RAISING).call("crash")).error
    assert error is not None
    place, line = error.details["where"].split(":")
    assert place == "tools.py"
    assert int(line) > 20


async def test_nothing_can_be_written_to_the_disk(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "loot"
    error = (await make(RAISING).call("write_file", path=str(path))).error
    assert error is not None
    assert "PermissionError" in error.message
    assert not path.exists()


async def test_workers_that_say_they_are_spoiled_do_not_serve_again(
    packs: Packs, ended: list[str], lone: Sandbox
) -> None:
    world = packs.world(lone, RAISING)
    for tool in ("linger", "hold", "bomb"):
        await world.call(tool)
    assert ended == ["spoiled"] * 3


# --- it prints ------------------------------------------------------------------------------------


async def test_what_is_printed_is_kept_up_to_the_limit(make: Make) -> None:
    tools = """
    import os, sys

    @tool(read_only=True)
    def shout(times: int) -> str:
        "Print."
        for _ in range(times):
            print("é" * 499_999)
        sys.stderr.write("end")
        sys.stdout.buffer.write(b"raw")
        os.write(1, b"past python")
        return "done"
    """
    world = make(tools, "[limits]\noutput_bytes = 1000\n")
    quiet = await world.call("shout", times=0)
    assert (quiet.result, quiet.output) == ("done", "endraw")
    loud = await world.call("shout", times=100)
    assert loud.result == "done"
    assert len(loud.output.encode()) < 1100
    assert "more bytes]" in loud.output
    assert (await world.call("stock", sku="a")).output == ""


# --- it takes the worker with it ------------------------------------------------------------------

ENDING = """
import ctypes, os, signal, sys

@tool(read_only=False)
def end(db: Database, how: str) -> None:
    "Write, then go."
    db.run("UPDATE items SET on_hand = 0")
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(4)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()
    if how == "close":
        for descriptor in range(3, 100):
            try:
                os.close(descriptor)
            except OSError:
                pass
        signal.pause()
"""


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exit", "exit code 3"),
        ("_exit", "exit code 4"),
        ("segfault", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("close", "channel"),
    ],
)
async def test_code_that_ends_its_worker_is_the_packs_fault(
    make: Make, how: str, text: str
) -> None:
    world = make(ENDING)
    with pytest.raises(WorkerExited, match=text):
        await world.call("end", how=how)
    await still_works(world)


async def test_a_call_past_its_deadline_is_killed(
    packs: Packs, lone: Sandbox, ended: list[str]
) -> None:
    tools = """
    @tool(read_only=False)
    def spin(db: Database) -> None:
        "Never end."
        db.run("UPDATE items SET on_hand = 0")
        while True:
            pass
    """
    world = packs.world(lone, tools, QUICK)
    with pytest.raises(ToolTimedOut, match=r"spin ran past its 0\.5 seconds"):
        await world.call("spin")
    assert ended == ["deadline"]
    await still_works(world)


async def test_a_query_that_never_ends_is_killed(make: Make) -> None:
    tools = """
    @tool(read_only=True)
    def count(db: Database) -> int:
        "Count for ever."
        return db.scalar("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                         "SELECT count(*) FROM n")
    """
    world = make(tools, QUICK)
    with pytest.raises(ToolTimedOut):
        await world.call("count")
    await still_works(world)


# --- it forges what the worker says ---------------------------------------------------------------

FORGING = """
import os, socket, stat
import msgspec
from environments.sandbox import wire
from snapshots.pages import PageDelta

def channel():
    for descriptor in range(3, 100):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return descriptor
        except OSError:
            pass

def send(data):
    while data:
        data = data[os.write(channel(), data):]

def reply(id=0, payload=b"{}", delta=None, refused=False):
    return bytes(wire.encode_frame(
        wire.Reply(id=id, refused=refused, payload=payload, delta=delta)))

def later(id, size):
    first = b"SQLite format 3" + bytes(4081)
    changes = b'{"commits":[{"actor":"agent","changes":{"items":{"added":[{}]}}}]}'
    blame = b'{"error":{"kind":"infrastructure","code":"X","message":"not me"}}'
    return {
        "garbage": b"\\xff" * 100,
        "oversized": (1 << 30).to_bytes(4, "big") + bytes(100_000),
        "flood": (8 << 20).to_bytes(4, "big") + bytes(9 << 20),
        "short": (3).to_bytes(4, "big") + b"\\x94\\x01\\xc2",
        "twice": reply(id) + reply(id),
        "wrong_id": reply(id + 1),
        "refused": reply(id, refused=True),
        "no_json": reply(id, b"{"),
        "deep": reply(id, b'{"result":' + b"[" * 100_000),
        "page": reply(id, delta=PageDelta({10**6: bytes(4096)}, 8192, 1)),
        "page_size": reply(id, delta=PageDelta({1: b"x"}, 8192, 1)),
        "header": reply(id, delta=PageDelta({0: first}, 40960, 1)),
        "no_moment": reply(id, delta=PageDelta({}, size, 1)),
        "no_pages": reply(id, changes),
        "blame": reply(id, blame),
        "clock": reply(id, b'{"moment":{"clock_ms":1,"seed":0,"counters":{}}}'),
    }

@tool(read_only=False)
def forge(kind: str, id: int, size: int) -> None:
    "Speak for the worker."
    send(later(id, size)[kind])
    import signal
    signal.pause()
"""


@pytest.mark.parametrize(
    "kind",
    [
        "garbage", "oversized", "flood", "short", "twice", "wrong_id", "refused", "no_json", "deep",
        "page", "page_size", "header", "no_moment", "no_pages", "blame", "clock",
    ],
)  # fmt: skip
async def test_forged_answers_are_refused(make: Make, kind: str) -> None:
    world = make(FORGING, "[limits]\ncall_seconds = 5\n")
    before = world.branch.head
    with pytest.raises(FrameRejected):
        # A fresh worker has been asked once before: to load.
        await world.call("forge", kind=kind, id=2, size=world.snapshot.size_bytes)
    assert world.branch.head is before
    await still_works(world)


async def test_a_worker_that_speaks_without_being_asked_is_killed(
    packs: Packs, lone: Sandbox, ended: list[str]
) -> None:
    tools = (
        FORGING
        + """
@tool(read_only=True)
def arm() -> None:
    "Speak once the call is over."
    import signal
    signal.signal(signal.SIGALRM, lambda *_: send(b"hello"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
"""
    )
    world = packs.world(lone, tools)
    assert (await world.call("arm")).error is None
    await until(lambda: bool(ended))
    assert ended == ["frame"]
    await still_works(world)


# --- it does not even load ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tools", "text"),
    [
        ("def broken(:", r"tools\.py:\d+: "),
        ("1 / 0", r"tools\.py:\d+: ZeroDivisionError"),
        ("import sys; sys.exit(2)", "exits"),
        ("import os; os._exit(2)", "exit code 2"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("@tool(read_only=True)\ndef undocumented() -> None: ...", "docstring"),
        ("@tool(read_only=True)\ndef vague(x) -> None: 'x'", "annotation"),
        ("for name in ('stock', 'take'): del globals()[name]", "declares no tool"),
    ],
)
async def test_tools_that_do_not_load_say_why(make: Make, tools: str, text: str) -> None:
    world = make(tools)
    with pytest.raises(PackInvalid, match=text):
        await world.call("stock", sku="a")
    with pytest.raises(PackInvalid, match=text):
        await world.sandbox.describe(world.pack, world.snapshot)


async def test_tools_that_never_finish_loading_are_stopped(packs: Packs) -> None:
    async with Sandbox(SandboxLimits(start_timeout_seconds=1)) as sandbox:
        world = packs.world(sandbox, "while True: pass")
        with pytest.raises(PackInvalid, match="loading shop ran past its 1 seconds"):
            await world.call("stock", sku="a")


async def test_a_runtime_without_what_it_needs_says_so(make: Make) -> None:
    world = make(manifest='runtime = "scenario"\n')
    with pytest.raises(PackInvalid, match=r"shop has no document\.json"):
        await world.call("stock", sku="a")


# --- it is not the pack's fault -------------------------------------------------------------------

SUICIDE = """
import os, signal

@tool(read_only=False)
def fall(db: Database, marker: str) -> str:
    "Be killed by the first who comes, as if from outside; succeed when it happened before."
    db.run("UPDATE items SET on_hand = on_hand - 1 WHERE sku = 'a'")
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "second try"
    os.kill(os.getpid(), signal.SIGKILL)

@tool(read_only=True)
def always() -> None:
    "Be killed each time."
    os.kill(os.getpid(), signal.SIGKILL)

@tool(read_only=False)
def meet(db: Database, marker: str) -> int:
    "Tell who serves, then wait to be killed; the next one ends at once."
    db.run("UPDATE items SET on_hand = on_hand - 1 WHERE sku = 'a'")
    if not os.path.lexists(marker):
        os.symlink(str(os.getpid()), marker)
        signal.pause()
    return os.getppid()
"""


async def test_a_worker_killed_from_outside_is_replaced_and_the_call_made_once_more(
    packs: Packs, lone: Sandbox, tmp_path: Path
) -> None:
    world = packs.world(lone, SUICIDE)
    done = await world.call("fall", marker=str(tmp_path / "marker"))
    assert done.result == "second try"
    assert (await world.call("stock", sku="a")).result["on_hand"] == 4


async def test_a_worker_lost_twice_is_the_infrastructures_fault(
    packs: Packs, lone: Sandbox
) -> None:
    world = packs.world(lone, SUICIDE)
    with pytest.raises(WorkerLost) as raised:
        await world.call("always")
    assert raised.value.kind == "infrastructure"
    await still_works(world)


@pytest.mark.parametrize("whole", [False, True], ids=["worker", "zygote"])
async def test_a_call_survives_the_death_of(
    packs: Packs, lone: Sandbox, tmp_path: Path, whole: bool
) -> None:
    world = packs.world(lone, SUICIDE)
    marker = tmp_path / "marker"
    zygote = (await world.call("meet", marker=sys.executable)).result
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: world.call("meet", marker=str(marker)))
        await until(marker.is_symlink)
        os.kill(zygote if whole else int(marker.readlink().name), signal.SIGKILL)
    assert world.branch.dirty_pages
    assert (await world.call("stock", sku="a")).result["on_hand"] == 3
    after = (await world.call("meet", marker=str(marker))).result
    assert (after != zygote) is whole


async def test_workers_that_die_while_idle_are_replaced_unnoticed(
    packs: Packs, lone: Sandbox, ended: list[str]
) -> None:
    tools = """
    import os

    @tool(read_only=True)
    def who() -> int:
        "The worker."
        return os.getpid()
    """
    world = packs.world(lone, tools)
    first = (await world.call("who")).result
    os.kill(first, signal.SIGKILL)
    assert (await world.call("who")).result != first
    assert len(ended) == 1


def refused() -> None:
    raise OSError(errno.EMFILE, "Too many open files")


async def test_who_waits_for_a_worker_that_cannot_be_started_is_told_why(
    packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def note(kind: str, environment: str, **fields: object) -> None:
        if kind == "start_failed":
            told.append(str(fields["message"]))

    async with Sandbox(SandboxLimits(workers_per_environment=1), note) as sandbox:
        await packs.world(sandbox).call("stock", sku="a")
        world = packs.world(sandbox, name="another")
        with monkeypatch.context() as patch, anyio.fail_after(20):
            patch.setattr(socket, "socketpair", refused)
            for _ in range(2):
                with pytest.raises(InfrastructureFault, match="Too many open files"):
                    await world.call("stock", sku="a")
        assert len(told) == 2
        assert all("Too many open files" in message for message in told)
        await still_works(world)


async def test_who_waits_where_no_worker_is_or_comes_is_told_why_at_the_first_start_that_fails(
    packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    def note(kind: str, environment: str, **fields: object) -> None:
        if kind == "start_failed":
            failed.append(environment)

    async def ask(world: World) -> None:
        with pytest.raises(InfrastructureFault, match="Too many open files"):
            await world.call("stock", sku="a")

    async with Sandbox(SandboxLimits(workers_per_environment=1), note) as sandbox:
        world = packs.world(sandbox)
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socketpair", refused)
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(ask, world.another())
        assert failed == ["shop"]
        await still_works(world)


async def test_who_waits_for_a_busy_worker_while_others_cannot_be_started_is_told_that(
    packs: Packs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(crew, "_SWEEP_SECONDS", 0.02)
    told: list[str] = []

    async def ask(world: World) -> None:
        with pytest.raises(InfrastructureFault) as raised:
            await world.call("stock", sku="a")
        told.append(raised.value.message)

    limits = SandboxLimits(workers_per_environment=2, queue_timeout_seconds=0.5, without=LOOSE)
    async with Sandbox(limits) as sandbox:
        world = packs.world(sandbox, SUICIDE)
        marker = tmp_path / "marker"
        async with anyio.create_task_group() as busy:
            busy.start_soon(lambda: world.another().call("meet", marker=str(marker)))
            await until(marker.is_symlink)
            with monkeypatch.context() as patch:
                patch.setattr(socket, "socketpair", refused)
                async with anyio.create_task_group() as group:
                    for _ in range(12):
                        group.start_soon(ask, world.another())
            busy.cancel_scope.cancel()
    assert len(told) == 12
    assert all("Too many open files" in message for message in told)


async def test_a_zygote_that_hangs_is_killed_and_another_forks_the_worker(packs: Packs) -> None:
    zygotes: list[int] = []
    lost: list[int] = []

    def note(kind: str, environment: str, **fields: object) -> None:
        if kind in ("zygote_started", "zygote_lost"):
            (zygotes if kind == "zygote_started" else lost).append(int(str(fields["pid"])))

    limits = SandboxLimits(workers_per_environment=2, start_timeout_seconds=3)
    async with Sandbox(limits, note) as sandbox:
        world = packs.world(sandbox)
        os.kill(zygotes[0], signal.SIGSTOP)
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(still_works, world.another())
        assert lost == zygotes[:1]
        assert len(zygotes) == 2
        with pytest.raises(ProcessLookupError):
            os.kill(zygotes[0], 0)


async def test_faults_of_the_pack_share_a_base(make: Make) -> None:
    world = make(ENDING)
    with pytest.raises(EnvironmentFault):
        await world.call("end", how="exit")

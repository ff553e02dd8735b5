"""Where attacks are run: something to steal, something to break, a neighbour to disturb; afterwards
all of it is looked at."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from environments.catalogue import SHIPPED
from environments.errors import EnvhubError, EnvironmentFault
from environments.sandbox.confine import kernel
from environments.sandbox.host import Sandbox, SandboxLimits, Transition
from tests.environments.sandbox.conftest import Packs, World
from tests.security.attacks import PRELUDE, Attack
from tests.security.kernel import CALLS

ANSWER_SECONDS = 5.0
LONG_SECONDS, LAPS = 0.4, 3
"""While an attack lasts longer than the one, a neighbour gets this many calls answered."""
TASKS = '{"id":"t","instruction":"x","verifier":{"expect":[{"table":"log","change":"added"}]}}\n'
QUICK = "[limits]\ncall_seconds = 0.6\nmemory_bytes = 134_217_728\noutput_bytes = 1000\n"

BYSTANDER = """
import ctypes, sys
token = ctypes.create_string_buffer(sys.stdin.readline().strip().encode())
print(ctypes.addressof(token), flush=True)
for line in sys.stdin:
    print(token.value.decode(), flush=True)
"""


class Verdict(msgspec.Struct):
    attack: str
    held: bool
    how: str
    """How the call ended, or what was wrong afterwards."""


class Canary:
    """What attacks are aimed at."""

    def __init__(self, stack: ExitStack) -> None:
        self.token = f"CANARY-{secrets.token_hex(16)}"
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="canary-")))
        self.folder.chmod(0o755)
        (self.folder / "secret.txt").write_text(self.token)
        (self.folder / "inner").mkdir()
        with sqlite3.connect(self.folder / "data.sqlite") as database:
            database.execute("CREATE TABLE t AS SELECT ? AS token", (self.token,))
        database.close()
        self.listeners = [stack.enter_context(each) for each in self._listen(stack)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", BYSTANDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        stack.callback(self._end)
        self.address = int(self._ask(self.token))
        self.heard: list[int] = []
        self.before = self._state()

    def _listen(self, stack: ExitStack) -> Iterator[socket.socket]:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="canary-"))
        named, abstract = (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2))
        named.bind(f"{place}/socket")
        abstract.bind(f"\0{place}")
        for listener in (tcp, udp, named, abstract):
            if listener is not udp:
                listener.listen()
            listener.setblocking(False)
            yield listener
        self.port, self.udp = tcp.getsockname()[1], udp.getsockname()[1]
        self.unix, self.abstract = f"{place}/socket", place

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        return self.process.stdout.readline().decode().strip() if ready else ""

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def _state(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in sorted([self.folder, *self.folder.rglob("*")]):
            status = path.lstat()
            content = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None
            found[str(path)] = (
                status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content,
                tuple(os.listxattr(path)),
            )  # fmt: skip
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        found["niceness"] = stat[16]
        found["stopped"] = stat[0] in "TtZ"
        return found

    def damage(self) -> list[str]:
        """What is not as it was."""
        problems = [f"signal {number} reached the gateway" for number in self.heard]
        if self.process.poll() is not None:
            return [*problems, "the bystander is dead"]
        now = self._state()
        changed = {key for key in {*now, *self.before} if now.get(key) != self.before.get(key)}
        problems += [f"changed: {key}" for key in sorted(changed)]
        if "stopped" not in changed and self._ask("?") != self.token:
            problems.append("the bystander does not answer as it did")
        for listener in self.listeners:
            try:
                listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()
            except BlockingIOError:
                continue
            problems.append(f"somebody reached {listener.getsockname()!r}")
        return problems


class Arena:
    def __init__(self, sandbox: Sandbox, folder: Path, lost: list[str], stack: ExitStack) -> None:
        self.sandbox = sandbox
        self._stack = stack
        self._canary: Canary | None = None
        self.packs = Packs(folder)
        self.folder = folder
        self.neighbour = self.packs.world(sandbox, name="neighbour")
        self.lost = lost

    async def attempt(self, attack: Attack, number: int, *, strict: bool) -> Verdict:
        """Run it, then look at everything. ``strict``: it must end as it says."""
        name = f"attack-{number}"
        code = f"{PRELUDE}\n{attack.code}"
        world = self.packs.world(self.sandbox, code, QUICK, name=name, tasks_jsonl=TASKS)
        canary = self._fresh_canary()
        with _listening(canary.heard):
            await world.call("take", sku="a")
            began = time.monotonic()
            attacking = asyncio.create_task(self._attack(world, self._aim(canary, world)))
            laps = await self._laps(attacking)
            how = await attacking
            problems = [how] if how.startswith(("BREACH", "WorkerLost")) else []
            if time.monotonic() - began > LONG_SECONDS and laps < LAPS:
                problems.append(f"the neighbour was answered {laps} times meanwhile")
            problems += await self._look_after(world)
            problems += canary.damage()
        if problems:
            self._canary = None
        if strict and not problems and not re.search(attack.ends, how):
            problems.append(f"it ended otherwise than expected: {how}")
        return Verdict(attack.name, not problems, "; ".join(problems) or how)

    def _fresh_canary(self) -> Canary:
        """One that nothing has happened to yet."""
        if self._canary is None:
            self._stack.close()
            self._canary = Canary(self._stack)
        return self._canary

    def _aim(self, canary: Canary, world: World) -> dict[str, Any]:
        return {
            "folder": str(canary.folder),
            "file": str(canary.folder / "secret.txt"),
            "database": str(canary.folder / "data.sqlite"),
            "port": canary.port,
            "udp": canary.udp,
            "unix": canary.unix,
            "abstract": canary.abstract,
            "pid": canary.process.pid,
            "address": canary.address,
            "length": len(canary.token),
            "gateway": os.getpid(),
            "pack": str(world.pack.path),
            "snapshot": str(world.snapshot.path),
            "size": world.snapshot.size_bytes,
            "shipped": str(SHIPPED),
            "scratch": tempfile.gettempdir(),
            "nr": CALLS[kernel.MACHINE],
        }

    async def _attack(self, world: World, aim: dict[str, Any]) -> str:
        try:
            done = await world.call("attack", aim=aim)
        except EnvhubError as error:
            return f"{type(error).__name__}: {error.message}"
        if done.error is not None:
            return f"{done.error.code}: {done.error.message}"[:300]
        return f"returned {str(done.result)[:200]!r}"

    async def _laps(self, attacking: asyncio.Task[str]) -> int:
        """How often the neighbour is answered while the attack lasts."""
        laps = 0
        while not attacking.done():
            transition = await self.neighbour.call("stock", sku="b")
            assert transition.result["on_hand"] == 7
            laps += 1
            await asyncio.wait([attacking], timeout=0.005)
        return laps

    async def _look_after(self, world: World) -> list[str]:
        """Is the episode where it was, are all served, is nobody left behind?"""
        problems = [f"lost: {what}" for what in self.lost]
        self.lost.clear()
        for episode, left in ((world, 4), (world.another(), 5)):
            try:
                stock = await _patiently(partial(episode.call, "stock", sku="a"))
                log = await _patiently(partial(episode.call, "logged"))
            except EnvhubError as error:
                problems.append(f"the next calls fail: {error}")
                continue
            if stock.result is None or stock.result.get("on_hand") != left:
                problems.append(f"the episode is changed: {stock.result} {stock.error}")
            elif log.result != 5 - left:
                problems.append(f"the episode's log has {log.result} rows")
        for _ in range(200):
            family, wanted = _descendants(os.getpid()), self.sandbox.statistics().workers + 2
            if len(family) <= wanted:
                break
            await asyncio.sleep(0.01)
        else:
            problems.append(f"{len(family)} processes instead of {wanted}")
        return problems


async def _patiently(call: Callable[[], Awaitable[Transition]]) -> Transition:
    """What the attack has left of its own worker may fall first, and be replaced."""
    for _ in range(3):
        with suppress(EnvironmentFault):
            return await call()
    return await call()


async def run(attacks: Iterable[Attack], without: tuple[str, ...] = ()) -> list[Verdict]:
    """Run attacks one after the other in one sandbox; ``without`` names layers left out."""
    lost: list[str] = []

    def note(kind: str, environment: str, **fields: object) -> None:
        if kind in ("zygote_lost", "start_failed"):
            lost.append(f"{kind} {environment} {fields}")

    limits = SandboxLimits(workers_per_environment=1, max_workers=6, without=without)
    folder = Path(tempfile.mkdtemp(prefix="arena-"))
    secret = f"CANARY-{secrets.token_hex(16)}"  # in the gateway's memory and environment
    try:
        with _environment("ENVHUB_SECRET", secret), ExitStack() as stack:
            async with Sandbox(limits, note) as sandbox:
                arena = Arena(sandbox, folder, lost, stack)
                return [
                    await arena.attempt(attack, number, strict=not without)
                    for number, attack in enumerate(attacks)
                ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            found += [child, *_descendants(child)] if Path(f"/proc/{child}").exists() else []
    return found


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


@contextmanager
def _listening(heard: list[int]) -> Iterator[None]:
    """Note signals that reach this process, which plays the gateway."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO, signal.SIGHUP, signal.SIGTERM)
    before = {
        number: signal.signal(number, lambda number, _: heard.append(number)) for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Random frames against both ends of a worker's channel: ``python -m tests.security.fuzz [COUNT]``.

The gateway's end is fed in this process; of the worker's end the decoder is, and real workers are
fed a part of what it took. Nothing may crash, leak a descriptor or keep memory.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from environments.errors import FrameRejected, WorkerExited
from environments.sandbox import jobs, wire
from environments.sandbox.host import SandboxLimits
from environments.sandbox.questions import Told, read_report
from environments.sandbox.worker import Overtaken, Question, Worker
from snapshots import Branch, SnapshotStore
from snapshots.pages import PageDelta
from tests.environments.sandbox.conftest import Packs

ROOT = Path(__file__).resolve().parents[2]
MAX_FRAME_BYTES = 64 * 1024
MEMORY_SLACK_BYTES = 24 << 20
WORDS = (
    "result", "error", "commits", "moment", "output", "spoiled", "kind", "code", "message",
    "agent", "environment", "infrastructure", "clock_ms", "seed", "counters", "actor", "changes",
    "items", "added", "removed", "changed", "key", "sku", "$schema", "indirect", "event",
)  # fmt: skip


class Fuzzer:
    """Draws frames: honest ones, broken ones, and noise."""

    def __init__(self, seed: int, size_bytes: int) -> None:
        self.random = random.Random(seed)
        self._size_bytes = size_bytes

    def frame(self) -> bytes:
        """What a worker might send, hostile or broken."""
        kind = self.random.randrange(6)
        if kind == 0:
            return self.random.randbytes(self.random.randrange(200))
        if kind == 1:
            body = self.random.randbytes(self.random.randrange(200))
        elif kind == 2:
            body = msgspec.msgpack.encode(self.value(4))
        else:
            body = bytes(wire.encode_frame(self.reply()))[wire.HEADER_BYTES :]
            if kind == 3:
                body = self.broken(body)
        frame = len(body).to_bytes(wire.HEADER_BYTES, "big") + body
        if self.random.random() < 0.1:
            frame = self.broken(frame)
        return frame * (2 if self.random.random() < 0.05 else 1)

    def broken(self, data: bytes) -> bytes:
        """``data`` with something flipped, cut, put in or doubled."""
        changed = bytearray(data)
        for _ in range(self.random.randrange(1, 4)):
            place = self.random.randrange(len(changed) + 1)
            match self.random.randrange(4):
                case 0 if place < len(changed):
                    changed[place] ^= 1 << self.random.randrange(8)
                case 1:
                    del changed[place:]
                case 2:
                    changed[place:place] = self.random.randbytes(self.random.randrange(1, 9))
                case _:
                    changed[place:place] = changed[place // 2 : place]
        return bytes(changed)

    def reply(self) -> wire.Reply:
        """A well-formed reply; what is in it need not be."""
        payload = json.dumps(self.report()).encode()
        if self.random.random() < 0.3:
            payload = self.broken(payload)
        return wire.Reply(
            id=self.random.choice((1, 1, 1, 0, 2, -1, 2**63 - 1)),
            refused=self.random.random() < 0.1,
            payload=payload,
            delta=self.delta() if self.random.random() < 0.5 else None,
        )

    def report(self) -> Any:
        """Mostly what a report has, often with the wrong things in it."""
        if self.random.random() < 0.1:
            return self.value(5)
        moment = {"clock_ms": self.integer(), "seed": self.integer(), "counters": {"log": 1}}
        claim = {"actor": self.random.choice(WORDS), "changes": self.value(4)}
        error = {"kind": self.random.choice(WORDS), "code": "X", "message": "m", "details": {}}
        honest = {
            "result": self.value(5), "error": error, "commits": [claim], "moment": moment,
            "output": "text", "spoiled": False,
        }  # fmt: skip
        chosen = {name: value for name, value in honest.items() if self.random.random() < 0.4}
        if chosen and self.random.random() < 0.2:
            chosen[self.random.choice([*chosen])] = self.value(3)
        return chosen

    def delta(self) -> PageDelta:
        count = self._size_bytes // 4096
        pages = {
            self.random.choice((0, 1, count - 1, count, -1, 2**40)): self.random.randbytes(
                self.random.choice((4096, 4096, 0, 10))
            )
            for _ in range(self.random.randrange(3))
        }
        size = self.random.choice((self._size_bytes, self._size_bytes + 4096, 0, 1, -4096, 2**62))
        return PageDelta(pages, size, self.random.choice((count, 1, 0, -1, 2**33)))

    def integer(self) -> int:
        return self.random.choice(
            (0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**64, -(2**63) - 1, 10**40)
        )

    def value(self, depth: int) -> Any:
        """Any JSON (or msgpack) value."""
        kind = self.random.randrange(9 if depth else 6)
        if kind == 0:
            return None
        if kind == 1:
            return self.random.choice((0, 1, -1, 2**31, 2**63 - 1, -(2**63)))
        if kind == 2:
            return self.random.random() * 10 ** self.random.randrange(-300, 300)
        if kind == 3:
            return self.random.choice(WORDS)
        if kind == 4:
            return self.random.random() < 0.5
        if kind == 5:
            return "".join(chr(self.random.randrange(1, 0xD7FF)) for _ in range(3))
        many = self.random.randrange(4)
        if kind == 6:
            return [self.value(depth - 1) for _ in range(many)]
        return {self.random.choice(WORDS): self.value(depth - 1) for _ in range(many)}

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """``data`` as a socket may hand it over."""
        while data:
            size = self.random.choice((len(data), len(data), 1, 3, 4, 5, 100))
            yield data[:size]
            data = data[size:]


class Transport(asyncio.Transport):
    """Where a worker's questions go that nobody hears."""

    def write(self, data: Any) -> None:
        pass

    def abort(self) -> None:
        pass


class Ends:
    """What became of the frames, and what may not grow."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._descriptors = self._memory = 0

    def settled(self) -> None:
        """From here on nothing may grow."""
        gc.collect()
        self._descriptors, self._memory = _descriptors(), _resident_bytes()

    def check(self) -> None:
        gc.collect()
        more = _descriptors() - self._descriptors  # fewer: a worker of another test was let go
        assert more <= 0, f"{more} descriptors are left open"
        grown = _resident_bytes() - self._memory
        assert grown < MEMORY_SLACK_BYTES, f"memory has grown by {grown} bytes"


async def against_host(count: int, seed: int, folder: Path) -> Counter[str]:
    """Feed ``count`` frames to the gateway's end of a worker. Returns how they ended."""
    packs = Packs(folder)
    snapshot = SnapshotStore(folder / "host-snapshots").build(packs.write(name="host").recipe())
    branch = Branch(snapshot)
    fuzzer, ends, loop = Fuzzer(seed, snapshot.size_bytes), Ends(), asyncio.get_running_loop()
    gone: list[Worker] = []

    def request(id: int, view: wire.View | None) -> wire.Request:
        return wire.Describe(id=id)

    for number in range(count):
        if number == count // 10:
            ends.settled()
        worker = Worker(1, loop, MAX_FRAME_BYTES, lambda _: None, gone.append, lambda worker: None)
        worker.connection_made(Transport())
        question = Question("x", 60, request, read_report, branch)
        worker.ask(question)
        for piece in fuzzer.pieces(fuzzer.frame()):
            worker.data_received(piece)
            if not worker.usable:
                break
        if not question.answer.done():
            worker.connection_lost(None)
            worker.exited(1)
        ends.counts[_ending(question)] += 1
        assert branch.head.pages == {}
        worker.kill("used")
        gone.clear()
        if number % 50 == 0:
            await asyncio.sleep(0)  # the loop forgets its cancelled timers
    await asyncio.sleep(1.1)  # and those that waited for an exit status
    ends.check()
    return ends.counts


def _ending(question: Question) -> str:
    error = question.answer.exception()
    if error is None:
        told = question.answer.result()
        assert isinstance(told, Told)
        # What is believed can be kept and told on.
        kept = (told.report.result, told.report.error, told.report.moment, told.commits)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(kept)) is not None
        return "believed"
    assert isinstance(error, FrameRejected | WorkerExited | Overtaken), repr(error)
    return type(error).__name__


def against_guest(count: int, seed: int, real: int, folder: Path) -> Counter[str]:
    """Feed ``count`` frames to what decodes requests, and ``real`` of them to workers."""
    packs = Packs(folder)
    pack = packs.write(name="guest")
    snapshot = SnapshotStore(folder / "guest-snapshots").build(pack.recipe())
    fuzzer, ends = Fuzzer(seed, snapshot.size_bytes), Ends()
    load = jobs.players(pack, snapshot, None, SandboxLimits()).load
    moment = wire.Moment(pack.spec.clock.start_ms, 0, {})
    view = wire.View(slot=1, pages={}, dropped=(), size_bytes=snapshot.size_bytes,
                     base_pages=snapshot.size_bytes // 4096)  # fmt: skip
    honest = [
        bytes(wire.encode_frame(request))
        for request in (
            load(1),
            wire.Describe(id=2),
            wire.Call(id=2, view=view, moment=moment, tool="take", arguments=b'{"sku":"a"}'),
            wire.Play(id=2, view=view, moment=moment, scripts=()),
        )
    ]
    frames: dict[str, list[bytes]] = {"decoded": [], "refused": []}
    for number in range(count):
        if number == count // 10:
            ends.settled()
        frame = fuzzer.frame()
        if fuzzer.random.random() < 0.6:
            body = fuzzer.broken(fuzzer.random.choice(honest)[wire.HEADER_BYTES :])
            frame = len(body).to_bytes(wire.HEADER_BYTES, "big") + body
        try:
            wire.decode_request(frame[wire.HEADER_BYTES :])
            kind = "decoded"
        except (msgspec.MsgspecError, RecursionError):
            kind = "refused"
        ends.counts[kind] += 1
        if len(frames[kind]) < real // 2:
            frames[kind].append(frame)
    ends.check()
    some = [frame for kind in frames.values() for frame in kind]
    fuzzer.random.shuffle(some)
    with Zygote() as zygote:
        for start in range(0, len(some), 4):
            ends.counts += zygote.feed(honest[0], some[start : start + 4])
    return ends.counts


class Zygote:
    """A real zygote; its workers are spoken to in raw bytes."""

    def __enter__(self) -> Zygote:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(60)
        self._numbers = 0
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-m", "environments.sandbox.zygote",
                 str(theirs.fileno()), wire.Breed.PLAIN],
                env={"PYTHONPATH": str(ROOT)},
                pass_fds=(theirs.fileno(),),
            )  # fmt: skip
        assert self._hear()[0] == wire.Control.READY
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        assert self._process.wait(30) == 0, "the zygote did not survive"

    def _hear(self) -> tuple[int, int, int]:
        record = self._control.recv(wire.CONTROL.size, socket.MSG_WAITALL)
        assert len(record) == wire.CONTROL.size, "the zygote is gone"
        operation, number, value = wire.CONTROL.unpack(record)
        return operation, number, value

    def feed(self, load: bytes, frames: list[bytes]) -> Counter[str]:
        """What one worker does with a few frames, and that it ends with its channel."""
        counts: Counter[str] = Counter()
        self._numbers += 1
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                spawn = wire.CONTROL.pack(wire.Control.SPAWN, self._numbers, 0)
                socket.send_fds(self._control, [spawn], [theirs.fileno()])
            assert self._hear()[0] == wire.Control.SPAWNED
            ours.settimeout(10)
            if self._numbers % 4:  # a few get nonsense from the start
                ours.sendall(load)
                assert _answer(ours) == "answered"
            ours.settimeout(0.02)
            for frame in frames:
                counts[f"worker {_ask(ours, frame)}"] += 1
        operation, number, _ = self._hear()
        assert (operation, number) == (wire.Control.EXITED, self._numbers)
        return counts


def _ask(channel: socket.socket, frame: bytes) -> str:
    try:
        channel.sendall(frame)
    except OSError:
        return "had ended"
    return _answer(channel)


def _answer(channel: socket.socket) -> str:
    """Whether an answer came; a frame that claims to be longer than it is gets none."""
    try:
        header = channel.recv(wire.HEADER_BYTES, socket.MSG_WAITALL)
        if not header:
            return "ended"
        size = int.from_bytes(header, "big")
        wire.decode_reply(channel.recv(size, socket.MSG_WAITALL))
    except TimeoutError:
        return "waits for more"
    except ConnectionResetError:
        return "ended"
    return "answered"


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


def _resident_bytes() -> int:
    if sys.platform != "linux":
        return 0
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.security.fuzz", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"{options.count} random frames against host and guest, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        print("host: ", dict(asyncio.run(against_host(options.count, options.seed, folder))))
        real = options.count // 50
        counts = against_guest(options.count, options.seed, real, folder)
        print("guest:", dict(counts))


if __name__ == "__main__":
    main()

"""A raw load generator, in a process of its own: HTTP/1.1 over plain sockets, no client library.

Reads a ``Plan`` (JSON) from standard input, prints a ``Count`` (JSON). It shares the machine with
what it measures, so it does as little as it can for each answer.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator
from typing import cast

import msgspec
import uvloop

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SESSION = re.compile(rb"\r\nmcp-session-id: *([^\r\n]+)", re.IGNORECASE)
GOOD = (b"HTTP/1.1 200", b"HTTP/1.1 202")


class Plan(msgspec.Struct):
    """``calls``: each connection sends its requests again and again. ``connects``: open a
    connection, send the requests in order (with the session id the first answer gave), close."""

    mode: str
    port: int
    seconds: float
    connections: list[list[str]]
    """Per connection the requests, each a whole HTTP request but for its session header."""


class Count(msgspec.Struct):
    done: int
    failed: int
    seconds: float
    sample: str


class Client(asyncio.Protocol):
    """One connection with one request in flight; the next is sent as soon as an answer is whole."""

    def __init__(self, load: Load, requests: list[bytes]) -> None:
        self.load = load
        self.requests = requests
        self.buffer = b""
        self.session = b""
        self.left: Iterator[bytes] = iter(requests)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(next(self.left))

    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        end = data.find(b"\r\n\r\n")
        length = LENGTH.search(data, 0, end + 2)
        if end < 0 or len(data) < end + 4 + (int(length[1]) if length else 0):
            self.buffer = data
            return
        self.buffer = b""
        if not data.startswith(GOOD) or b'"isError":true' in data:
            self.load.failed(data)
        self.answered(data)

    def answered(self, data: bytes) -> None:
        self.load.count.done += 1
        request = next(self.left, None)
        if request is None:
            if self.load.over():
                self.transport.close()
                return
            self.left = iter(self.requests)
            request = next(self.left)
        self.transport.write(request)

    def connection_lost(self, error: Exception | None) -> None:
        self.load.ended()


class Visitor(Client):
    """Opens a connection, sends its requests once, closes; then another like it comes."""

    def answered(self, data: bytes) -> None:
        found = SESSION.search(data)
        if found:
            self.session = b"\r\nMcp-Session-Id: " + found[1] + b"\r\n\r\n"
        request = next(self.left, None)
        if request is not None:
            self.transport.write(request.replace(b"\r\n\r\n", self.session or b"\r\n\r\n", 1))
            return
        self.load.count.done += 1
        self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self.load.over():
            self.load.ended()
        else:
            self.load.open(Visitor, self.requests)


class Load:
    """All connections of a plan, and what came of them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = Count(0, 0, 0.0, "")
        self.living = len(plan.connections)
        self.loop = asyncio.get_running_loop()
        self.finished = self.loop.create_future()
        self.started = time.perf_counter()
        self.opening: set[asyncio.Task[object]] = set()

    def over(self) -> bool:
        return time.perf_counter() - self.started > self.plan.seconds

    def failed(self, data: bytes) -> None:
        self.count.failed += 1
        self.count.sample = data[:900].decode(errors="replace")

    def open(self, kind: type[Client], requests: list[bytes]) -> None:
        connecting = self.loop.create_connection(
            lambda: kind(self, requests), "127.0.0.1", self.plan.port
        )
        task: asyncio.Task[object] = self.loop.create_task(connecting)
        self.opening.add(task)
        task.add_done_callback(self.opening.discard)

    def ended(self) -> None:
        self.living -= 1
        if not self.living:
            self.count.seconds = time.perf_counter() - self.started
            self.finished.set_result(None)


async def main() -> None:
    load = Load(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan))
    kind = Client if load.plan.mode == "calls" else Visitor
    for requests in load.plan.connections:
        load.open(kind, [request.encode() for request in requests])
    await load.finished
    sys.stdout.buffer.write(msgspec.json.encode(load.count))


if __name__ == "__main__":
    uvloop.run(main())

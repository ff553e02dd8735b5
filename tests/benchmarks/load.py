"""A raw load generator, in a process of its own: HTTP/1.1 over plain sockets, no client library.

Reads a ``Plan`` (JSON) from standard input, prints a ``Count`` (JSON).
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

import msgspec
import uvloop

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SESSION = re.compile(rb"\r\nmcp-session-id: *([^\r\n]+)", re.IGNORECASE)


class Plan(msgspec.Struct):
    """``calls``: each connection sends its one request again and again. ``connects``: open a
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


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request in flight."""

    def __init__(self) -> None:
        self.buffer = b""
        self.waiting: asyncio.Future[tuple[bytes, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = LENGTH.search(head + b"\r\n")
        if len(body) >= (int(length[1]) if length else 0) and self.waiting is not None:
            self.buffer = b""
            waiting, self.waiting = self.waiting, None
            waiting.set_result((head, body))

    def connection_lost(self, error: Exception | None) -> None:
        if self.waiting is not None:
            self.waiting.set_exception(ConnectionError("server closed the connection"))

    async def ask(self, request: bytes) -> tuple[bytes, bytes]:
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)  # type: ignore[attr-defined]
        return await self.waiting


async def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    loop = asyncio.get_running_loop()
    count = Count(0, 0, 0.0, "")
    deadline = 0.0

    async def connect() -> Connection:
        _, protocol = await loop.create_connection(Connection, "127.0.0.1", plan.port)
        return protocol

    def note(head: bytes, body: bytes) -> None:
        count.done += 1
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")) or b'"isError":true' in body:
            count.failed += 1
            count.sample = (head[:300] + b"\n" + body[:600]).decode(errors="replace")

    async def calls(requests: list[str]) -> None:
        connection = await connect()
        encoded = [request.encode() for request in requests]
        while time.perf_counter() < deadline:
            for request in encoded:
                note(*await connection.ask(request))
        connection.transport.close()  # type: ignore[attr-defined]

    async def connects(requests: list[str]) -> None:
        while time.perf_counter() < deadline:
            connection = await connect()
            session = b""
            for request in requests:
                head, body = await connection.ask(
                    request.encode().replace(b"\r\n\r\n", b"\r\n" + session + b"\r\n", 1)
                )
                found = SESSION.search(head)
                if found:
                    session = b"Mcp-Session-Id: " + found[1] + b"\r\n"
            connection.transport.close()  # type: ignore[attr-defined]
            note(head, body)

    work = calls if plan.mode == "calls" else connects
    started = time.perf_counter()
    deadline = started + plan.seconds
    async with asyncio.TaskGroup() as group:
        for requests in plan.connections:
            group.create_task(work(requests))
    count.seconds = time.perf_counter() - started
    sys.stdout.buffer.write(msgspec.json.encode(count))


if __name__ == "__main__":
    uvloop.run(main())

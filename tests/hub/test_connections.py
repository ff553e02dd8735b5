"""Clients that are slow, greedy or speak no HTTP, over real sockets."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from starlette.types import Receive, Scope, Send

from hub.edge.connections import MAX_PIPELINED, Connections, Limits
from hub.server import Connection
from tests.hub.mcp_server.serving import served

pytestmark = pytest.mark.anyio

GENEROUS = Limits(
    max_connections=100,
    max_connections_per_address=100,
    max_url_bytes=200,
    max_headers=20,
    max_head_bytes=4096,
    max_body_bytes=100_000,
    receive_seconds=60,
    send_seconds=60,
    keep_alive_seconds=60,
)
WAIT_SECONDS = 20


class Echo:
    """Answers with what it was sent; ``/still`` waits, ``/stream`` never ends, ``/deaf`` reads
    nothing."""

    def __init__(self) -> None:
        self.release = anyio.Event()
        self.waits = anyio.Event()
        self.left = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while scope["path"] != "/deaf":
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            body += message["body"]
            if not message["more_body"]:
                break
        if scope["path"] == "/still":
            self.waits.set()
            await self.release.wait()
        start: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        if scope["path"] == "/stream":
            leaving = asyncio.ensure_future(receive())
            while not leaving.done():
                await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
                await asyncio.sleep(0)
            self.left.set()
        told = {
            "path": scope["path"],
            "body": len(body),
            "headers": [name.decode() for name, _ in scope["headers"]],
        }
        await send({"type": "http.response.body", "body": json.dumps(told).encode()})


class Talk:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """All that comes until the other side ends it."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def refusal(self) -> tuple[int, str]:
        """Status and code of the one answer, which ends the connection."""
        head, _, body = (await self.rest()).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert b"x-content-type-options: nosniff" in head
        return int(head.split()[1]), json.loads(body)["error"]["code"]


class Place:
    """A server with these limits."""

    def __init__(self, address: str, app: Echo) -> None:
        self.port = int(address.rpartition(":")[2])
        self.app = app
        self.talks: list[Talk] = []

    async def talk(self) -> Talk:
        talk = Talk(*await asyncio.open_connection("127.0.0.1", self.port))
        self.talks.append(talk)
        return talk


@asynccontextmanager
async def place(**changes: Any) -> AsyncIterator[Place]:
    app = Echo()
    connections = Connections(msgspec.structs.replace(GENEROUS, **changes))
    protocol = functools.partial(Connection, connections=connections)
    async with connections.watched(), served(app, protocol) as address:
        there = Place(address, app)
        try:
            yield there
        finally:
            app.release.set()
            for talk in there.talks:
                talk.writer.close()


GET = b"GET /%b HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /%b HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n12"


@pytest.mark.parametrize("said", [b"GET / HT", GET[:-2] % b"", POST % b""])
async def test_a_request_that_does_not_arrive_is_cut_off(said: bytes) -> None:
    async with place(receive_seconds=0.2) as there:
        talk = await there.talk()
        await talk.say(said)
        assert await talk.refusal() == (408, "REQUEST_TIMED_OUT")


async def test_what_reads_a_body_that_does_not_arrive_learns_that_it_will_not() -> None:
    async with place(receive_seconds=0.2) as there:
        await (await there.talk()).say(POST % b"")
        async with asyncio.timeout(WAIT_SECONDS):
            await there.app.left.wait()


async def test_a_body_nobody_waits_for_holds_no_connection_either() -> None:
    async with place(receive_seconds=0.2) as there:
        talk = await there.talk()
        await talk.say(POST % b"deaf")
        answers = await talk.rest()
        assert answers.count(b"HTTP/1.1 ") == 1
        assert answers.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"\r\n\r\n", GET % b""])
async def test_a_connection_at_rest_is_closed_in_time(said: bytes) -> None:
    async with place(keep_alive_seconds=0.2) as there:
        talk = await there.talk()
        await talk.say(said)
        assert (await talk.rest()).count(b"HTTP/1.1 200") == bool(said.strip())


async def test_a_slow_answer_is_not_a_slow_client() -> None:
    async with place(receive_seconds=0.1, keep_alive_seconds=0.1, send_seconds=0.1) as there:
        talk, quick = await there.talk(), await there.talk()
        await talk.say(GET % b"still")
        assert await quick.rest() == b""  # time has passed: another was cut off meanwhile
        there.app.release.set()
        assert (await talk.rest()).startswith(b"HTTP/1.1 200")


async def test_who_never_reads_a_stream_is_cut_off() -> None:
    async with place(send_seconds=0.2) as there:
        with socket.create_connection(("127.0.0.1", there.port)) as deaf:
            deaf.sendall(GET % b"stream")
            async with asyncio.timeout(WAIT_SECONDS):
                await there.app.left.wait()


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (GET % (b"x" * 300), (414, "URL_TOO_LONG")),
        (GET[:-2] % b"" + b"a: b\r\n" * 30 + b"\r\n", (431, "HEAD_TOO_LARGE")),
        (GET[:-2] % b"" + b"a: " + b"b" * 5000 + b"\r\n\r\n", (431, "HEAD_TOO_LARGE")),
        (b"\x16\x03\x01\x02\x00\x01\x00", (400, "MALFORMED_HTTP")),
        (b"GET \xff HTTP/1.1\r\n\r\n", (400, "MALFORMED_HTTP")),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", (400, "MALFORMED_HTTP")),
    ],
)
async def test_nonsense_is_told_so(
    said: bytes, refusal: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with place() as there:
            talk = await there.talk()
            await talk.say(said)
            assert await talk.refusal() == refusal
    assert not caplog.records


async def test_a_head_without_end_is_not_kept() -> None:
    async with place() as there:
        talk = await there.talk()
        await talk.say(GET[:-2] % b"")
        try:
            while not talk.reader.at_eof():
                await talk.say(b"a" * 1000)
                await asyncio.sleep(0)
        except ConnectionError:
            return
        assert (await talk.rest()).startswith(b"HTTP/1.1 431")


async def test_a_body_of_crumbs_ends_where_a_whole_one_does() -> None:
    async with place(max_body_bytes=1000) as there:
        talk = await there.talk()
        await talk.say(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while not talk.reader.at_eof():
                await talk.say(b"1\r\nx\r\n" * 100)
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        async with asyncio.timeout(WAIT_SECONDS):
            await there.app.left.wait()


async def test_what_follows_a_body_is_no_header() -> None:
    async with place() as there:
        talk = await there.talk()
        await talk.say(
            b"POST / HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            b"1\r\nx\r\n0\r\nauthorization: Bearer other\r\n\r\n"
        )
        answer = await talk.rest()
        assert b'"body": 1' in answer
        assert b"authorization" not in answer


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_address"])
async def test_there_are_no_more_connections_than_may_be(limit: str) -> None:
    async with place(**{limit: 2}) as there:
        for _ in range(2):
            await (await there.talk()).say(GET % b"still")
        async with asyncio.timeout(WAIT_SECONDS):
            await there.app.waits.wait()
            third = await there.talk()
            answer = await third.rest()
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after" in answer
        assert b"TOO_MANY_CONNECTIONS" in answer
        there.app.release.set()
        first = there.talks[0]
        await first.reader.readuntil(b"0\r\n\r\n")
        first.writer.close()
        async with asyncio.timeout(WAIT_SECONDS):
            while True:  # until the server has seen it leave
                again = await there.talk()
                await again.say(GET[:-2] % b"" + b"connection: close\r\n\r\n")
                if (await again.rest()).startswith(b"HTTP/1.1 200"):
                    break


async def test_requests_may_wait_in_a_row_but_not_without_end() -> None:
    async with place() as there:
        few = await there.talk()
        await few.say(b"".join(GET % b"%d" % number for number in range(10)))
        for number in range(10):
            assert b'"/%d"' % number in await few.reader.readuntil(b"0\r\n\r\n")
        many = await there.talk()
        await many.say(GET % b"still" + GET % b"" * (2 * MAX_PIPELINED))
        assert await many.rest() == b""

"""HTTP as it goes over the wire: whole answers, streams, and what is unusual."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from hub.http_protocol import HttpProtocol

pytestmark = pytest.mark.anyio
GATES: dict[str, asyncio.Event] = {}
LEFT: dict[str, asyncio.Event] = {}
MEANWHILE: list[Callable[[], None]] = []
"""What comes between the moment that ``/meanwhile`` is answered and that of the writing."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Echoes; what it is asked for says how."""
    body = (await receive())["body"]
    text = f"{scope['method']} {scope['path']}?{scope['query_string'].decode()} ".encode() + body
    if scope["path"] == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await GATES["stream"].wait()
        await send({"type": "http.response.body", "body": b"last"})
        return
    if scope["path"] == "/watched":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        LEFT["watched"].set()
        return
    headers = [(b"content-length", str(len(text)).encode())]
    if scope["path"] == "/smuggled":
        headers.append((b"x-said", b"a\r\nset-cookie: b"))
    if scope["path"] == "/short":
        headers = [(b"content-length", b"1000")]
    start: Message = {"type": "http.response.start", "status": 201, "headers": headers}
    await send(start)
    if scope["path"] == "/raises":
        raise ValueError("after the head")
    await send({"type": "http.response.body", "body": text})
    if scope["path"] == "/meanwhile":
        MEANWHILE.pop()()


@pytest.fixture
async def server() -> AsyncIterator[uvicorn.Server]:
    config = uvicorn.Config(
        app, http=HttpProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
        port=0,
    )  # fmt: skip
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server
    finally:
        await server.shutdown()


@pytest.fixture
def port(server: uvicorn.Server) -> int:
    found: int = server.servers[0].sockets[0].getsockname()[1]
    return found


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[Any, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


async def answer(reader: asyncio.StreamReader, *, bodiless: bool = False) -> tuple[int, str, bytes]:
    """Status, head and body of the next answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head)
    body = b"" if bodiless or not length else await reader.readexactly(int(length[1]))
    return int(head.split()[1]), head, body


async def test_requests_that_come_together_are_answered_in_their_order(port: int) -> None:
    async with connection(port) as (reader, writer):
        writer.write(
            b"POST /a%20b?x=1&y=%20 HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi"
            b"GET http://other/c?z HTTP/1.1\r\nhost: h\r\n\r\n"
            b"GET /d HTTP/1.1\r\nhost: h\r\n\r\n"
        )
        bodies = [(await answer(reader))[2] for _ in range(3)]
    assert bodies == [b"POST /a b?x=1&y=%20 hi", b"GET /c?z ", b"GET /d? "]


@pytest.mark.parametrize(
    ("what", "then"),
    [
        (lambda connection: connection.data_received(b"nonsense\r\n\r\n"), b"HTTP/1.1 400 "),
        (lambda connection: connection.shutdown(), b""),
    ],
    ids=["nonsense", "the server stops"],
)
async def test_an_answer_that_is_given_comes_before_the_end(
    server: uvicorn.Server, port: int, what: Callable[[Any], None], then: bytes
) -> None:
    async with connection(port) as (reader, writer):
        MEANWHILE.append(lambda: what(next(iter(server.server_state.connections))))
        writer.write(b"GET /meanwhile HTTP/1.1\r\nhost: h\r\n\r\n")
        assert (await answer(reader))[2] == b"GET /meanwhile? "
        assert (await reader.read()).startswith(then)


async def test_an_answer_to_head_has_no_body(port: int) -> None:
    async with connection(port) as (reader, writer):
        writer.write(b"HEAD /a HTTP/1.1\r\nhost: h\r\n\r\nGET /b HTTP/1.1\r\nhost: h\r\n\r\n")
        status, head, _ = await answer(reader, bodiless=True)
        assert (status, "content-length: 9" in head) == (201, True)
        assert (await answer(reader))[2] == b"GET /b? "


HTTP_1_0 = b"GET / HTTP/1.0\r\n\r\n"
CLOSING = b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
UPGRADING = b"GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nGET /lost"


@pytest.mark.parametrize("asks", [HTTP_1_0, CLOSING, UPGRADING])
async def test_who_wants_the_connection_closed_has_it_closed(port: int, asks: bytes) -> None:
    async with connection(port) as (reader, writer):
        writer.write(asks)
        _, head, body = await answer(reader)
        assert "connection: close" in head
        assert body == b"GET /? "
        assert await reader.read() == b""


async def test_a_stream_is_sent_as_it_comes(port: int) -> None:
    GATES["stream"] = asyncio.Event()
    async with connection(port) as (reader, writer):
        writer.write(b"GET /stream HTTP/1.1\r\nhost: h\r\n\r\n")
        _, head, _ = await answer(reader, bodiless=True)
        assert "transfer-encoding: chunked" in head
        assert await reader.readuntil(b"first\r\n") == b"5\r\nfirst\r\n"
        GATES["stream"].set()
        assert await reader.readuntil(b"0\r\n\r\n") == b"4\r\nlast\r\n0\r\n\r\n"


async def test_a_stream_hears_that_its_client_left_though_a_request_waits_behind_it(
    port: int,
) -> None:
    LEFT["watched"] = asyncio.Event()
    async with connection(port) as (reader, writer):
        writer.write(
            b"GET /watched HTTP/1.1\r\nhost: h\r\n\r\nGET /next HTTP/1.1\r\nhost: h\r\n\r\n"
        )
        assert b"first" in await reader.readuntil(b"first")
        writer.transport.abort()
    async with asyncio.timeout(5):
        await LEFT["watched"].wait()


@pytest.mark.parametrize("path", ["/smuggled", "/raises"])
async def test_an_application_that_fails_is_answered_for(
    port: int, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection(port) as (reader, writer):
        writer.write(f"GET {path} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
        status, head, body = await answer(reader)
    assert (status, body) == (500, b"Internal Server Error")
    assert "set-cookie" not in head
    assert "Exception in ASGI application" in caplog.text


async def test_an_answer_shorter_than_it_says_ends_the_connection(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection(port) as (reader, writer):
        writer.write(b"GET /short HTTP/1.1\r\nhost: h\r\n\r\n")
        assert b"content-length: 1000" in await reader.read()
    assert "shorter than Content-Length" in caplog.text


async def test_what_is_no_request_is_a_400(port: int) -> None:
    for nonsense in (b"GET /\xff HTTP/1.1\r\nhost: h\r\n\r\n", b"nonsense\r\n\r\n"):
        async with connection(port) as (reader, writer):
            writer.write(nonsense)
            assert (await reader.read()).startswith(b"HTTP/1.1 400")

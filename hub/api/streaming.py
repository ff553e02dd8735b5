"""Answers that are not one JSON body: lines of text, and streams that stay open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from starlette.types import Receive, Send

from hub.edge.answers import SNIFF

Headers = Sequence[tuple[bytes, bytes]]

EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/jsonl"


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A whole body of another type than JSON."""

    body: bytes
    content_type: str
    headers: Headers = ()


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A body that comes in pieces until one of both sides ends it."""

    pieces: AsyncIterator[bytes]
    content_type: str


class Streams:
    """The streams of one application that are open."""

    def __init__(self) -> None:
        self._ending = asyncio.Event()

    def close(self) -> None:
        """End them all, so that a stopping server need not wait."""
        self._ending.set()

    async def send(self, stream: Stream, receive: Receive, send: Send) -> None:
        """Send the pieces until there are no more, the client leaves, or ``close`` is called."""
        headers = [
            (b"content-type", stream.content_type.encode()),
            (b"cache-control", b"no-cache, no-transform"),
            (b"x-accel-buffering", b"no"),
            SNIFF,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        ends = {asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(self._ending.wait())}
        try:
            while True:
                piece = asyncio.ensure_future(_next(stream.pieces))
                await asyncio.wait({piece, *ends}, return_when=asyncio.FIRST_COMPLETED)
                if not piece.done():
                    piece.cancel()
                    await asyncio.wait({piece})
                    break
                body = piece.result()
                if body is None:
                    break
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            for end in ends:
                end.cancel()
        await send({"type": "http.response.body", "body": b""})


def event(name: str, data: Any, id: int) -> bytes:
    """One server-sent event."""
    body = msgspec.json.encode(data)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (id, name.encode(), body)


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""How an answer travels: one JSON body, or an event stream once there is more to say than that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from mcp.shared.subscriptions import ServerEvent
from starlette.types import Receive, Send

from hub.edge.answers import SNIFF, send_body
from hub.mcp_server.jsonrpc import Params, encode_notification

T = TypeVar("T")
Headers = Sequence[tuple[bytes, bytes]]

WATCH_AFTER_SECONDS: Final = 0.25
"""A call that is not answered by then has its connection watched; before, that would only cost."""
PING_SECONDS: Final = 15.0
"""Silence after which a comment line keeps proxies from closing a stream."""
MAX_BACKLOG: Final = 1024
"""Events a client may leave unread before its stream is ended; it opens another and looks anew."""

PING: Final = b": ping\r\n\r\n"
STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    SNIFF,
]


class CallCancelled(Exception):
    """The client gave up on the request, by a notification or by closing its stream."""


def sse(message: bytes) -> bytes:
    """One JSON-RPC message as a server-sent event."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


class Exchange:
    """One request and its answer. Turns into an event stream with the first notification.

    Closing its stream cancels a request of the sessionless era (``cancel_on_disconnect``); in the
    handshake era only a notification does.
    """

    def __init__(
        self, receive: Receive, send: Send, *, streams: bool, cancel_on_disconnect: bool
    ) -> None:
        self._receive = receive
        self._send = send
        self._streams = streams
        self._cancel_on_disconnect = cancel_on_disconnect
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._lock: asyncio.Lock | None = None
        self._cancelled = False
        self._opened = False

    async def notify(self, method: str, params: Params) -> None:
        """Send a notification ahead of the answer; dropped if the client takes no streams."""
        if self._streams:
            await self._write(sse(encode_notification(method, params)))

    async def answer(self, body: bytes, status: int = 200, headers: Headers = ()) -> None:
        """Send the answer and end the response. A stream has long said 200."""
        if self._opened:
            await self._write(sse(body), last=True)
        else:
            await send_body(self._send, status, body, headers)

    async def run(self, work: Awaitable[T]) -> T:
        """Await ``work`` so that ``cancel`` ends it. Raises ``CallCancelled`` if it did."""
        self._task = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._start_watching)
        try:
            return await work
        except asyncio.CancelledError:
            if self._cancelled:
                raise CallCancelled from None
            raise
        finally:
            timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
            if self._cancelled and self._task is not None:
                self._task.uncancel()
            self._task = None

    def cancel(self) -> None:
        """End the work in progress, if it still is."""
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def _start_watching(self) -> None:
        self._watcher = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PING_SECONDS):
                    message = await self._receive()
            except TimeoutError:
                if self._streams:
                    await self._write(PING)
                continue
            if message["type"] == "http.disconnect":
                if self._cancel_on_disconnect:
                    self.cancel()
                return

    async def _write(self, frame: bytes, *, last: bool = False) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._opened:
                self._opened = True
                await self._send(
                    {"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS}
                )
            await self._send({"type": "http.response.body", "body": frame, "more_body": not last})


class EventStream:
    """A response that stays open and tells of events, until one of both sides ends it."""

    def __init__(self, frame_of: Callable[[ServerEvent], bytes | None]) -> None:
        """``frame_of`` answers ``None`` for an event this client did not ask for."""
        self._frame_of = frame_of
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_BACKLOG)
        self._ended = False

    def deliver(self, event: ServerEvent) -> None:
        """A listener for the surface's bus: never blocks, never raises."""
        frame = self._frame_of(event)
        if frame is None or self._ended:
            return
        try:
            self._frames.put_nowait(frame)
        except asyncio.QueueFull:
            self._ended = True

    def end(self) -> None:
        """End the response once what is waiting was sent."""
        if not self._ended:
            self._ended = True
            if not self._frames.full():
                self._frames.put_nowait(None)

    async def serve(
        self, receive: Receive, send: Send, *, first: bytes = b"", last: bytes = b""
    ) -> None:
        """Send events until ``end`` (then ``last`` is sent too) or until the client leaves."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        # an empty comment makes proxies and clients see the stream as open
        await self._body(send, first or b": open\r\n\r\n")
        gone = asyncio.ensure_future(self._await_disconnect(receive))
        try:
            while (frame := await self._next()) is not None:
                await self._body(send, frame)
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b"" if gone.done() else last})

    async def _next(self) -> bytes | None:
        if self._ended and self._frames.empty():
            return None
        try:
            async with asyncio.timeout(PING_SECONDS):
                return await self._frames.get()
        except TimeoutError:
            return PING

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()

    @staticmethod
    async def _body(send: Send, frame: bytes) -> None:
        await send({"type": "http.response.body", "body": frame, "more_body": True})

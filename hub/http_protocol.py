"""HTTP/1.1 as uvicorn speaks it, without what a short answer need not pay for.

An answer whose length is known leaves in one piece, and no timer is set for a rest:
``hub.edge.connections`` ends those that last too long, a connection's first among them. Whatever is
unusual (a stream, HEAD, a connection to be closed) is left to uvicorn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

if TYPE_CHECKING:
    from uvicorn._types import (
        ASGI3Application,
        ASGISendEvent,
        HTTPResponseBodyEvent,
        HTTPResponseStartEvent,
    )

REMEMBERED_LINES: Final = 4096


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._leaving = b""  # an answer that is given and not yet written
        self._served: RequestResponseCycle | None = None  # others may wait behind it

    def connection_lost(self, exc: Exception | None) -> None:
        if self._served is not None:  # it hears of it; what waits behind it is never begun
            self.cycle = self._served
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._write()  # what is made of the data may be a refusal, and the end
        super().data_received(data)

    def eof_received(self) -> None:
        self._write()
        super().eof_received()

    def shutdown(self) -> None:
        self._write()
        super().shutdown()

    def _leave(self, answer: bytes) -> None:
        """Have an answer written once what is ready to run has run."""
        self._leaving = answer
        self.loop.call_soon(self._write)

    def _write(self) -> None:
        answer, self._leaving = self._leaving, b""
        if answer and not self.transport.is_closing():  # the client may have left by now
            self.transport.write(answer)

    def on_headers_complete(self) -> None:
        """A request may be served, once those before it on this connection are."""
        scope, parser = self.scope, self.parser
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        path, query = _split(self.url)
        text = path.decode("ascii")
        scope["path"] = unquote(text) if "%" in text else text
        scope["raw_path"] = path
        scope["query_string"] = query
        before: RequestResponseCycle | None = self.cycle
        self.cycle = _Cycle(
            self._leave,
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            # nothing is upgraded here, and what comes after such a request the parser throws away
            keep_alive=version != "1.0"
            and parser.should_keep_alive()
            and not parser.should_upgrade(),
            on_response=self.on_response_complete,
        )  # fmt: skip
        if before is None or before.response_complete:
            self._serve(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_response_complete(self) -> None:
        """The next request is served, or the connection rests."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._serve(*self.pipeline.pop())

    def _serve(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        self._start_asgi_task(cycle, app)


class _Cycle(RequestResponseCycle):
    """A request and its answer."""

    def __init__(self, leave: Callable[[bytes], None], **given: Any) -> None:
        super().__init__(**given)
        self._leave = leave
        self._head: HTTPResponseStartEvent | None = None  # waits for the body, to leave with it

    async def send(self, message: ASGISendEvent) -> None:
        """See ASGI."""
        head, self._head = self._head, None
        if message["type"] == "http.response.start" and not self.response_started:
            if any(name == b"content-length" for name, _ in message["headers"]):
                self._head = message
                return
        elif head is not None and message["type"] == "http.response.body":
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if self._answer(head, message):
                return
        if self.transport.is_closing():  # as for a connection that is known to be lost
            self.disconnected = True
        if head is not None:
            await super().send(head)
        await super().send(message)

    def _answer(self, head: HTTPResponseStartEvent, body: HTTPResponseBodyEvent) -> bool:
        """Send the whole answer, if it is a plain one."""
        if body.get("more_body") or not self.keep_alive or self.scope["method"] == "HEAD":
            return False
        content = body.get("body", b"")
        parts = [STATUS_LINE[head["status"]]]
        for name, value in self.default_headers:
            parts.append(_line(name, value))
        for name, value in head["headers"]:
            if name == b"connection" or (name == b"content-length" and int(value) != len(content)):
                return False
            parts.append(_line(name, value))
        parts += (b"\r\n", content)
        if not self.disconnected:
            self._leave(b"".join(parts))
        self.response_started = self.response_complete = True
        self.message_event.set()
        self.on_response()
        return True


@lru_cache(maxsize=REMEMBERED_LINES)
def _line(name: bytes, value: bytes) -> bytes:
    """A header as it is sent. Raises ``RuntimeError`` for one that would be more than a header."""
    if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
        raise RuntimeError("Invalid HTTP header.")
    return b"%b: %b\r\n" % (name.lower(), value)


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Path and query of what a request names. Raises ``httptools.HttpParserInvalidURLError``."""
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
        return path, query
    url = httptools.parse_url(target)
    return url.path or b"/", url.query or b""

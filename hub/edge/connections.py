"""What one connection may ask of the hub before a request is served: how large a head, how slowly
it may send and read, and how many there may be beside it.

Clients that keep to it notice nothing; the others are answered once, if they can be, and cut off.
How long something takes is told by how often one timer, for all connections, has found it so: a
request costs a few notes, and where this process did not get to run no client is blamed for it.
"""

from __future__ import annotations

import asyncio
import http
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from environments.errors import EnvhubError
from hub.edge.answers import JSON, PRIVATE, error_json, headers_of
from hub.errors import (
    HeadTooLarge,
    MalformedRequest,
    RequestTimedOut,
    TooManyConnections,
    UrlTooLong,
    body_of,
    status_of,
)

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

MAX_PIPELINED: Final = 64
"""Requests that may wait behind the one that is served; nobody who means well sends more."""
LOOK_SECONDS: Final = 1.0
WIRE_OVERHEAD: Final = 2
"""What a body of many small chunks may take on the wire, as a multiple of itself."""

_log = logging.getLogger("uvicorn.error.connection")
_log.setLevel(logging.ERROR)  # a client's nonsense is not worth a line, let alone one each


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """See the settings of the same names."""

    max_connections: int
    max_connections_per_address: int
    max_url_bytes: int
    max_headers: int
    max_head_bytes: int
    max_body_bytes: int
    receive_seconds: float
    send_seconds: float
    keep_alive_seconds: float


class Connections:
    """Every connection of a server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        shortest = min(limits.receive_seconds, limits.send_seconds, limits.keep_alive_seconds)
        self._pause = min(LOOK_SECONDS, shortest / 4)
        self.receive_looks = self._looks(limits.receive_seconds)
        self.send_looks = self._looks(limits.send_seconds)
        self.keep_alive_looks = self._looks(limits.keep_alive_seconds)
        self._open: set[LimitedConnection] = set()
        self._of_address: Counter[str] = Counter()

    def enter(self, connection: LimitedConnection, address: str) -> bool:
        """Count ``connection`` in, unless there are as many as may be."""
        limits = self.limits
        if 0 < limits.max_connections <= len(self._open) or (
            0 < limits.max_connections_per_address <= self._of_address[address]
        ):
            return False
        self._open.add(connection)
        self._of_address[address] += 1
        return True

    def leave(self, connection: LimitedConnection, address: str) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Cut off who is too slow while the body runs."""
        watch = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            for connection in tuple(self._open):
                connection.look()

    def _looks(self, seconds: float) -> int:
        """How many times something is found unchanged that has lasted so long."""
        return math.ceil(seconds / self._pause) + 1


class _Refusal:
    """An answer that is ready before it is asked for; the connection ends with it."""

    def __init__(self, error: EnvhubError) -> None:
        self._status = status_of(error)
        self._body = error_json(body_of(error))
        headers = dict((*PRIVATE, *headers_of(error)))
        headers |= {
            b"content-type": JSON,
            b"content-length": b"%d" % len(self._body),
            b"connection": b"close",
        }
        self._headers = [*headers.items()]
        status = http.HTTPStatus(self._status)
        lines = b"".join(b"%b: %b\r\n" % header for header in self._headers)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
        self.raw = b"%b%b\r\n%b" % (head, lines, self._body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self._status, "headers": self._headers}
        await send(start)
        await send({"type": "http.response.body", "body": self._body})


MALFORMED: Final = _Refusal(MalformedRequest("this is not HTTP/1.1"))
TIMED_OUT: Final = _Refusal(
    RequestTimedOut(
        "the request did not arrive in time", hint="ENVHUB_RECEIVE_SECONDS is how long it may take"
    )
)
URL_TOO_LONG: Final = _Refusal(
    UrlTooLong("the address asked for is too long", hint="ENVHUB_MAX_URL_BYTES raises the limit")
)
HEAD_TOO_LARGE: Final = _Refusal(
    HeadTooLarge(
        "there are too many headers, or they are too large",
        hint="ENVHUB_MAX_HEADERS and ENVHUB_MAX_HEAD_BYTES raise the limits",
    )
)
TOO_MANY: Final = _Refusal(
    TooManyConnections(
        "the hub has as many connections as it takes, over all or from this address",
        hint="share connections (one HTTP client), or raise ENVHUB_MAX_CONNECTIONS and"
        " ENVHUB_MAX_CONNECTIONS_PER_ADDRESS",
    )
)


class _Trailers(list[tuple[bytes, bytes]]):
    """Where headers after a body go: nowhere, or they would pass for what stood before it."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        pass


_TRAILERS: Final = _Trailers()


class LimitedConnection(HttpToolsProtocol):
    """One connection, held to ``Limits``; to be mixed in before any other kind of it."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _log
        self._all = connections
        self._limits = connections.limits
        self._most_fed = WIRE_OVERHEAD * self._limits.max_body_bytes + self._limits.max_head_bytes
        self._most_headers = self._limits.max_headers
        self._unsuspicious = min(self._limits.max_url_bytes, self._limits.max_head_bytes)
        self._address = ""
        self._looks = 0  # since it came to rest, or a request began
        self._receiving = self._in_head = False
        self._piece = 0  # bytes of the last piece read
        self._fed = 0  # bytes of this request in the pieces after its first
        self._unsent: int | None = None  # bytes that wait for the client to read, where many do

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if not self._all.enter(self, self._address):
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self, self._address)
        super().connection_lost(exc)

    def look(self) -> None:
        """Cut the client off if it has been too slow."""
        self._looks += 1
        if self._unsent is not None:
            unsent = self.transport.get_write_buffer_size()
            if unsent < self._unsent:
                self._unsent, self._looks = unsent, 0
            elif self._looks >= self._all.send_looks:
                self.transport.abort()
        elif self._receiving:
            if self.flow.read_paused:
                self._looks = 0  # it waits for us
            elif self._looks >= self._all.receive_looks:
                self._refuse(TIMED_OUT)
        elif self._rests and self._looks >= self._all.keep_alive_looks:
            self.transport.close()

    @property
    def _rests(self) -> bool:
        """Whether nothing is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # none at first, whatever its type says
        return cycle is None or cycle.response_complete

    def _refuse(self, refusal: _Refusal) -> None:
        """End the connection, with this answer unless another is on its way."""
        if self.transport.is_closing():
            return
        if self._rests:
            if self._in_head or not self._receiving:  # else there has been an answer
                self.transport.write(refusal.raw)
        elif self._receiving and not self._in_head and not self.pipeline:
            if not self.cycle.response_started:
                self.transport.write(refusal.raw)
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    # from the transport ------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._piece = len(data)
        super().data_received(data)
        if self._receiving:
            self._fed += len(data)
            if self._in_head:
                if self._fed > self._limits.max_head_bytes:
                    self._refuse(HEAD_TOO_LARGE)
            elif self._fed > self._most_fed:
                self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._looks = 0

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent = None
        self._looks = 0

    # from the parser ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._looks = 0
        self._receiving = self._in_head = True
        self._fed = -self._piece  # other requests may have been in the same piece

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests in a row")  # the parser ends the connection
        # nothing in it can be larger than all that was read
        large = self._fed + 2 * self._piece > self._unsuspicious
        refusal = self._fault_of_head() if large or len(self.headers) > self._most_headers else None
        if refusal is None:
            super().on_headers_complete()
        else:
            served: ASGI3Application = self.app
            self.app = refusal
            super().on_headers_complete()
            self.app = served
        self._in_head = False
        self.headers = _TRAILERS

    def on_message_complete(self) -> None:
        """As uvicorn's, but for web sockets."""
        self._receiving = False
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self._looks = 0
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(MALFORMED)

    def _fault_of_head(self) -> _Refusal | None:
        limits, url, headers = self._limits, self.url, self.headers
        if len(url) > limits.max_url_bytes:
            return URL_TOO_LONG
        if len(headers) > limits.max_headers:
            return HEAD_TOO_LARGE
        size = len(url) + sum(len(name) + len(value) for name, value in headers)
        return HEAD_TOO_LARGE if size > limits.max_head_bytes else None

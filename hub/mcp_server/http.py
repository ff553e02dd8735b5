"""Streamable HTTP: one ASGI application, raw, for both eras of MCP on the same URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Final

import msgspec
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INVALID_REQUEST
from starlette.types import Receive, Scope, Send

from hub.edge.answers import JSON, headers_of, send_body
from hub.edge.guard import Disconnected, Guard
from hub.errors import status_of
from hub.mcp_server import handshake, modern
from hub.mcp_server.eras import admit, is_sessionless, refuse_unserved_version
from hub.mcp_server.jsonrpc import (
    REQUEST_CANCELLED,
    Message,
    Notification,
    Request,
    RpcError,
    decode,
    encode_error,
    encode_result,
    error_of,
)
from hub.mcp_server.sessions import Session, Sessions
from hub.mcp_server.streams import CallCancelled, EventStream, Exchange
from hub.mcp_server.surface import Surface

SESSION: Final = b"mcp-session-id"
ALLOW_ALL: Final = (b"allow", b"GET, POST, DELETE")
ALLOW_NO_GET: Final = (b"allow", b"POST, DELETE")

Resolve = Callable[[Scope], Awaitable[Surface]]
"""The surface of an URL. Raises an ``EnvhubError`` where there is none."""
Principal = Callable[[Scope], bytes]
"""Who sends a request; sessions are theirs alone."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """One HTTP request that may be served, with the surface it is for."""

    scope: Scope
    headers: dict[bytes, bytes]
    surface: Surface
    receive: Receive
    send: Send

    def accepts(self) -> tuple[bool, bool]:
        return accepted(self.headers.get(b"accept", b"*/*"))


class McpHttp:
    """Serves the surfaces that ``resolve`` finds. ``secret`` signs session ids: keep it, and they
    stay good when the hub is started again."""

    def __init__(
        self,
        resolve: Resolve,
        *,
        secret: bytes,
        guard: Guard | None = None,
        principal: Principal = lambda scope: b"",
    ) -> None:
        self._resolve = resolve
        self._guard = guard or Guard()
        self._principal = principal
        self._sessions = Sessions(secret)
        self._streams: set[EventStream] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; nothing a client sends makes this raise."""
        method = scope["method"]
        try:
            headers = self._guard.admit(scope["headers"])
            arrival = Arrival(scope, headers, await self._resolve(scope), receive, send)
            match method:
                case "POST":
                    await self._post(arrival)
                case "GET":
                    await self._get(arrival)
                case "DELETE":
                    await self._delete(arrival)
                case _:
                    await _refuse(send, 405, "Method Not Allowed", [ALLOW_ALL])
        except Disconnected:
            pass
        except Exception as error:  # noqa: BLE001 - the ASGI boundary
            body = encode_error(None, error_of(error))
            await send_body(send, status_of(error), body, headers_of(error))

    def close(self) -> None:
        """End every open event stream, so that a server that stops need not wait for them."""
        for stream in tuple(self._streams):
            stream.end()

    # POST ------------------------------------------------------------------------------------

    async def _post(self, arrival: Arrival) -> None:
        if not arrival.headers.get(b"content-type", b"").lower().startswith(JSON):
            await _refuse(arrival.send, 400, "Bad Request: Content-Type must be application/json")
            return
        takes_json, takes_streams = arrival.accepts()
        if not takes_json:
            await _refuse(arrival.send, 406, "Not Acceptable: Client must accept application/json")
            return
        body = await self._guard.read(arrival.receive)
        try:
            message = decode(body)
            sessionless = is_sessionless(arrival.headers, message)
            if sessionless and type(message) is Notification:
                refuse_unserved_version(arrival.headers)
        except RpcError as error:
            await send_body(arrival.send, 400, encode_error(None, error))
            return
        exchange = Exchange(
            arrival.receive,
            arrival.send,
            streams=takes_streams,
            cancel_on_disconnect=sessionless,
        )
        if not sessionless:
            await self._handshake(arrival, message, exchange)
        elif isinstance(message, Notification):
            # a client of this era cancels by closing the stream; it has nothing else to notify of
            await send_body(arrival.send, 202, b"")
        elif message.method == modern.LISTEN and not takes_streams:
            await _refuse(arrival.send, 406, "Not Acceptable: Client must accept text/event-stream")
        else:
            await self._sessionless(arrival, message, exchange)

    async def _sessionless(self, arrival: Arrival, request: Request, exchange: Exchange) -> None:
        surface, raw_headers = arrival.surface, arrival.scope["headers"]
        try:
            envelope = {"method": request.method, "params": request.params}
            version = admit(raw_headers, arrival.headers, envelope)
            if request.method == modern.LISTEN:
                listening = modern.listen(surface, request, version)
                await self._stream(
                    arrival, listening.stream, listening.acknowledgement, listening.closure
                )
                return
            result = await modern.respond(surface, request, version, raw_headers, exchange)
            answer, status = encode_result(request.id, result), 200
        except CallCancelled:
            return
        except Exception as error:  # noqa: BLE001 - the ASGI boundary
            told = error_of(error)
            answer = encode_error(request.id, told)
            status = ERROR_CODE_HTTP_STATUS.get(told.code, 200)
        await exchange.answer(answer, status)

    async def _handshake(self, arrival: Arrival, message: Message, exchange: Exchange) -> None:
        if isinstance(message, Request) and message.method == "initialize":
            await self._initialize(arrival, message, exchange)
            return
        session = self._session(arrival)
        if session is None and SESSION in arrival.headers:
            await _refuse(arrival.send, 404, "Session not found")
            return
        if isinstance(message, Notification):
            handshake.note(message, session)
            await send_body(arrival.send, 202, b"")
            return
        try:
            result = await handshake.respond(arrival.surface, message, session, exchange)
            answer = encode_result(message.id, result)
        except CallCancelled:
            answer = encode_error(message.id, RpcError(REQUEST_CANCELLED, "Request cancelled"))
        except Exception as error:  # noqa: BLE001 - the ASGI boundary
            answer = encode_error(message.id, error_of(error))
        await exchange.answer(answer)

    async def _initialize(self, arrival: Arrival, request: Request, exchange: Exchange) -> None:
        try:
            version = handshake.negotiate(request.params)
        except RpcError as error:
            await exchange.answer(encode_error(request.id, error))
            return
        session = self._sessions.open(self._binding(arrival.scope), version)
        greeting = handshake.greeting(arrival.surface, version)
        await exchange.answer(
            encode_result(request.id, greeting), headers=[(SESSION, session.id.encode())]
        )

    # GET and DELETE --------------------------------------------------------------------------

    async def _get(self, arrival: Arrival) -> None:
        send = arrival.send
        if arrival.surface.events is None:
            # nothing is ever said outside a request: the protocol's answer to that is 405
            await _refuse(send, 405, "Method Not Allowed", [ALLOW_NO_GET])
        elif not arrival.accepts()[1]:
            await _refuse(send, 406, "Not Acceptable: Client must accept text/event-stream")
        elif SESSION not in arrival.headers:
            await _refuse(send, 400, "Bad Request: Missing session ID")
        elif (session := self._session(arrival)) is None:
            await _refuse(send, 404, "Session not found")
        elif session.stream is not None:
            await _refuse(send, 409, "Conflict: Only one SSE stream is allowed per session")
        else:
            session.stream = handshake.standing_stream(session)
            try:
                await self._stream(arrival, session.stream)
            finally:
                session.stream = None

    async def _stream(
        self, arrival: Arrival, stream: EventStream, first: bytes = b"", last: bytes = b""
    ) -> None:
        assert arrival.surface.events is not None
        unsubscribe = arrival.surface.events.subscribe(stream.deliver)
        self._streams.add(stream)
        try:
            await stream.serve(arrival.receive, arrival.send, first=first, last=last)
        finally:
            self._streams.discard(stream)
            unsubscribe()

    async def _delete(self, arrival: Arrival) -> None:
        if SESSION not in arrival.headers:
            await _refuse(arrival.send, 400, "Bad Request: Missing session ID")
        elif (session := self._session(arrival)) is None:
            await _refuse(arrival.send, 404, "Session not found")
        else:
            self._sessions.end(session)
            await arrival.surface.end_session(session.id)
            await send_body(arrival.send, 200, b"")

    # What they share -------------------------------------------------------------------------

    def _session(self, arrival: Arrival) -> Session | None:
        claimed = arrival.headers.get(SESSION)
        if claimed is None:
            return None
        return self._sessions.find(claimed.decode("latin-1"), self._binding(arrival.scope))

    def _binding(self, scope: Scope) -> bytes:
        """What a session is good for: this URL, query included, and this principal."""
        path: bytes = scope["path"].encode()
        query: bytes = scope["query_string"]
        return b"%d:%b%d:%b%b" % (len(path), path, len(query), query, self._principal(scope))


@lru_cache(maxsize=256)
def accepted(accept: bytes) -> tuple[bool, bool]:
    """Whether an ``Accept`` header takes JSON, and whether it takes event streams."""
    types = {part.split(b";")[0].strip().lower() for part in accept.split(b",")}
    takes_json = not types.isdisjoint((b"*/*", b"application/json", b"application/*"))
    return takes_json, not types.isdisjoint((b"*/*", b"text/event-stream", b"text/*"))


async def _refuse(
    send: Send, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    body = encode_error(None, RpcError(INVALID_REQUEST, message))
    await send_body(send, status, body, headers)

"""The transport of 2024: a GET that stays open for answers, and POSTs beside it for requests."""

from __future__ import annotations

from typing import Final

from mcp.server.sse import SseServerTransport
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from hub.edge.answers import SNIFF
from hub.edge.guard import Guard
from hub.errors import InvalidRequest, MethodNotAllowed, TooManyUnanswered, UnknownEpisode
from hub.mcp_server.sdk import SdkServer
from hub.mcp_server.surface import Surface

MAX_UNANSWERED: Final = 256
"""Requests of one connection at work at once; its answers may also wait for a slow reader."""


class LegacySse:
    """Connections by the path they were opened at; a session is good at that path alone."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._transports: dict[str, SseServerTransport] = {}
        self._connections: dict[str, list[_Connection]] = {}

    def admit(self, scope: Scope) -> None:
        """Raise what the guard raises, and ``MethodNotAllowed``."""
        self._guard.admit(scope["headers"])
        expected = "GET" if scope["path"].endswith("/sse") else "POST"
        if scope["method"] != expected:
            raise MethodNotAllowed(f"this path takes {expected}")

    async def connect(
        self, surface: Surface, messages: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve the GET; its client is told to POST to the path ``messages``."""
        transport = self._transports.get(messages)
        if transport is None:
            transport = self._transports[messages] = SseServerTransport(
                messages.removeprefix(scope.get("root_path", "")),
                max_request_body_size=self._guard.max_body_bytes,
            )
        connection = _Connection(surface, send)
        connections = self._connections.setdefault(messages, [])
        connections.append(connection)
        try:
            async with transport.connect_sse(scope, receive, connection.send) as streams:
                await connection.server.run(streams)
            await connection.end()
        finally:
            connections.remove(connection)
            if not connections:
                del self._connections[messages], self._transports[messages]

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a message for a connection that is open.

        Raises ``UnknownEpisode`` where there is none, ``InvalidRequest``, ``TooManyUnanswered`` and
        what ``Guard.read`` raises.
        """
        transport = self._transports.get(scope["path"])
        if transport is None:
            raise UnknownEpisode("Could not find session", hint="GET the episode's /sse first")
        if any(connection.overrun for connection in self._connections[scope["path"]]):
            raise TooManyUnanswered("too many requests of this session wait for their answers")
        body = await self._guard.read(receive)
        try:
            jsonrpc_message_adapter.validate_json(body, by_name=False)
        except ValidationError:  # the SDK would log the whole body
            raise InvalidRequest("the body is not one JSON-RPC message") from None

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await transport.handle_post_message(scope, replay, send)


class _Connection:
    """One open GET: its server, and whether its client reads what it is sent."""

    def __init__(self, surface: Surface, send: Send) -> None:
        self.server = SdkServer(surface)
        self._send = send
        self._waits = False
        self._open = False

    @property
    def overrun(self) -> bool:
        return self._waits or self.server.unanswered >= MAX_UNANSWERED

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], SNIFF]
        self._open = bool(message.get("more_body", message["type"] == "http.response.start"))
        self._waits = True
        await self._send(message)
        self._waits = False

    async def end(self) -> None:
        """End the answer where the SDK did not, for it thought that the client had left."""
        if self._open:
            await self.send({"type": "http.response.body", "body": b""})

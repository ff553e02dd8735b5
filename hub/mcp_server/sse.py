"""The transport of 2024: a GET that stays open for answers, and POSTs beside it for requests."""

from __future__ import annotations

from mcp.server.sse import SseServerTransport
from starlette.types import Receive, Scope, Send

from hub.mcp_server.guard import Guard
from hub.mcp_server.sdk import SdkServer
from hub.mcp_server.streams import send_body
from hub.mcp_server.surface import Surface

TEXT = b"text/plain; charset=utf-8"


class LegacySse:
    """Connections by the path they were opened at; a session is good at that path alone."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._transports: dict[str, SseServerTransport] = {}
        self._connections: dict[str, int] = {}

    async def connect(
        self, surface: Surface, messages: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve the GET; its client is told to POST to the path ``messages``."""
        if not await self._admit("GET", scope, send):
            return
        transport = self._transports.get(messages)
        if transport is None:
            transport = self._transports[messages] = SseServerTransport(
                messages.removeprefix(scope.get("root_path", "")),
                max_request_body_size=self._guard.max_body_bytes,
            )
        self._connections[messages] = self._connections.get(messages, 0) + 1
        try:
            async with transport.connect_sse(scope, receive, send) as streams:
                await SdkServer(surface).run(streams)
        finally:
            self._connections[messages] -= 1
            if not self._connections[messages]:
                del self._connections[messages], self._transports[messages]

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a message for a connection that is open."""
        if not await self._admit("POST", scope, send):
            return
        transport = self._transports.get(scope["path"])
        if transport is None:
            await send_body(send, 404, b"Could not find session", TEXT)
        else:
            await transport.handle_post_message(scope, receive, send)

    async def _admit(self, method: str, scope: Scope, send: Send) -> bool:
        if scope["method"] != method:
            headers = [(b"allow", method.encode())]
            await send_body(send, 405, b"Method Not Allowed", TEXT, headers)
            return False
        refused = self._guard.refusal(method, dict(scope["headers"]))
        if refused is not None:
            await send_body(send, refused[0], refused[1], TEXT)
        return refused is None

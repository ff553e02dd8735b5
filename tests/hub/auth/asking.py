"""Requests straight to the application: any path, any header, and streams that are left again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message

from tests.hub.mcp_server.conftest import request

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
LEAVES_AFTER_SECONDS = 5.0
"""A stream that says nothing for so long is left; those of these tests do not get there."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Asking:
    """One bearer (or nobody) in front of an application."""

    def __init__(self, app: ASGIApp, token: str = "", *, authorization: str = "") -> None:
        self._app = app
        self.secret = token
        self.sent = 0
        """Pieces of bodies that came so far."""
        self._authorization = authorization or (f"Bearer {token}" if token else "")

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        pieces: int = 1,
        **headers: str,
    ) -> Answer:
        """The answer; of a stream its first ``pieces``, after which the client leaves."""
        given = {"host": "127.0.0.1", "accept": "application/json, text/event-stream"}
        if body is not None:
            given["content-type"] = "application/json"
        if self._authorization:
            given["authorization"] = self._authorization
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "scheme": "http",
            "http_version": "1.1",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 9),
            "root_path": "",
        }
        content = json.dumps(body).encode() if body is not None else b""
        sent: list[Message] = []
        left = asyncio.Event()
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": content, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)
            self.sent += bool(message.get("body"))
            if sum(bool(each.get("body")) for each in sent) >= pieces:
                left.set()

        async with asyncio.timeout(LEAVES_AFTER_SECONDS):
            await self._app(scope, receive, send)
        start = sent[0]
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(
            start["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])
        )

    async def made(self, path: str, body: Any, method: str = "POST") -> Any:
        """What was answered, which must be good news."""
        answer = await self.ask(method, path, body)
        assert answer.status in (200, 201), answer.body
        return answer.json

    async def rpc(self, path: str, method: str, params: Any = None, **headers: str) -> Answer:
        """One request of the handshake era."""
        return await self.ask("POST", path, request(method, params), **headers)

    async def session(self, path: str) -> str:
        """The id of a new session."""
        answer = await self.rpc(path, "initialize", HANDSHAKE)
        assert answer.status == 200, answer.body
        return answer.headers["mcp-session-id"]

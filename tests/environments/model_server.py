"""An OpenAI-compatible server on a loopback port that says what a test told it to say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from environments.llm import Endpoint
from tests.hub.mcp_server.serving import served

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Reply:
    """One answer: a completion of ``text``, or an error of ``status``; ``hang`` never comes."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: str | None = None
    hang: bool = False


class ModelServer:
    """Gives ``replies`` in turn, the last one for ever; keeps the bodies it was asked with.

    With a ``mind`` it says what that makes of a body once the replies have been given, and it has
    embeddings: the letters of a text, counted.
    """

    def __init__(
        self,
        *replies: Reply | str,
        takes_schema: bool = True,
        mind: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        self.mind = mind
        self.replies = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
        self.takes_schema = takes_schema
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.address = ""
        self._gone = anyio.Event()

    def close(self) -> None:
        """Let go of those who hang, so that the server can end."""
        self._gone.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    @property
    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/embeddings", self._embed, methods=["POST"]),
                Route("/v1/messages", self._message, methods=["POST"]),
            ]
        )

    async def _embed(self, request: Request) -> Response:
        body = await request.json()
        if self.replies and self.replies[0].hang:
            await self._gone.wait()
        vectors = [[float(text.count(letter)) for letter in LETTERS] for text in body["input"]]
        data = [
            {"object": "embedding", "index": number, "embedding": vector}
            for number, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return JSONResponse(
            {"object": "list", "data": data, "model": body["model"], "usage": usage}
        )

    async def _message(self, request: Request) -> Response:
        """As Anthropic's models answer."""
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers["authorization"])
        reply = self._next(body)
        if reply.status != 200:
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
            return JSONResponse(error, reply.status, headers=dict(reply.headers))
        return JSONResponse(
            {
                "id": "m-1",
                "type": "message",
                "role": "assistant",
                "model": body["model"],
                "content": [{"type": "text", "text": reply.text}],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 100, "output_tokens": 20},
            }
        )

    def _next(self, body: dict[str, Any]) -> Reply:
        if self.mind is not None and not self.replies:
            return Reply(self.mind(body))
        more = len(self.replies) > 1 or self.mind is not None
        return self.replies.pop(0) if more else self.replies[0]

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers["authorization"])
        if "response_format" in body and not self.takes_schema:
            return JSONResponse({"error": {"message": "response_format is unknown"}}, 400)
        reply = self._next(body)
        if reply.hang:
            await self._gone.wait()
        if reply.raw is not None:
            return PlainTextResponse(reply.raw, reply.status, headers=dict(reply.headers))
        if reply.status != 200:
            error = {"error": {"message": f"status {reply.status}"}}
            return JSONResponse(error, reply.status, headers=dict(reply.headers))
        return JSONResponse(
            {
                "id": "c-1",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": reply.text},
                    }
                ],
                "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
            }
        )


@asynccontextmanager
async def answering(server: ModelServer) -> AsyncIterator[Endpoint]:
    """The server at work, and the endpoint it is."""
    async with served(server) as address:
        yield Endpoint(
            base_url=f"{address}/v1", model="solomon", api_key="key-of-the-test", attempts=3
        )

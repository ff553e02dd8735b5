"""An OpenAI-compatible server whose model plays tasks: it reads the chat and calls the next tool of
what it has been told to do, as a model would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from environments.oracle import resolve_oracle
from environments.spec import Task
from tests.hub.mcp_server.serving import served

Messages = Sequence[Mapping[str, Any]]
Mind = Callable[[Messages], dict[str, Any]]
"""From the messages it is shown to the message it says."""


def call(name: str, arguments: Any, id: str = "c") -> dict[str, Any]:
    """A message that calls one tool; arguments that are text are sent as they are."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    function = {"name": name, "arguments": text}
    made = [{"id": id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": made, "refusal": None}


def say(text: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def knowing(tasks: Sequence[Task]) -> Mind:
    """Solves these tasks as their oracles do, told apart by what the user says."""
    known = {task.instruction: task for task in tasks}

    def next_message(messages: Messages) -> dict[str, Any]:
        task = next(known[m["content"]] for m in messages if m.get("content") in known)
        results = [
            msgspec.json.decode(message["content"].encode())
            for message in messages
            if message["role"] == "tool"
        ]
        if len(results) >= len(task.oracle):
            return say(task.answer or "Done.")
        wanted = task.oracle[len(results)]
        return call(wanted.tool, resolve_oracle(wanted, results), f"c{len(results)}")

    return next_message


class PlayingServer:
    """Keeps the bodies and keys it was asked with; ``down`` makes it refuse."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.down = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._complete(Request(scope, receive))
        await response(scope, receive, send)

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        if self.down:
            return JSONResponse({"error": {"message": "the key is gone"}}, 401)
        self.asked.append(body)
        self.keys.add(request.headers["authorization"])
        choice = {"index": 0, "finish_reason": "stop", "message": self.mind(body["messages"])}
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
        return JSONResponse({**answer, "choices": [choice], "usage": usage})


@asynccontextmanager
async def playing(server: PlayingServer) -> AsyncIterator[str]:
    """The server at work, and its address up to and with the version."""
    async with served(server) as address:
        yield f"{address}/v1"

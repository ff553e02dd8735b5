"""MCP over standard input and output, and beside it what a rollout worker asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
import msgspec
import pydantic
from anyio.abc import ObjectSendStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

from environments.episode import KEEP, Episode
from environments.trajectory import Actor
from hub.mcp_server.jsonrpc import Params, error_of, invalid_params, method_not_found
from hub.mcp_server.methods import Result
from hub.mcp_server.sdk import SdkServer
from hub.mcp_server.surface import Surface
from hub.wire import ResetEpisode, ScoreEpisode

PREFIX: Final = "envhub/"
T = TypeVar("T")


class ChangesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    since: str | int | None = None
    """A mark, or a number of steps."""
    actor: Actor | None = None


class Control:
    """``envhub/reset``, ``envhub/score`` and ``envhub/changes``: for whoever trains, never tools.

    They are taken at any time, before a handshake too.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._methods: dict[str, Callable[[Params], Awaitable[Result]]] = {
            "envhub/reset": self._reset,
            "envhub/score": self._score,
            "envhub/changes": self._changes,
        }

    async def perform(self, method: str, params: Params) -> Result:
        """Raises ``RpcError`` for an unknown method or parameters, and what ``Episode`` raises."""
        if method not in self._methods:
            raise method_not_found(method)
        return await self._methods[method]({k: v for k, v in params.items() if k != "_meta"})

    async def _reset(self, params: Params) -> Result:
        asked = _convert(params, ResetEpisode)
        episode = self._episode
        await episode.reset(KEEP if asked.task is msgspec.UNSET else asked.task, asked.seed)
        return {
            "episode": episode.id,
            "environment": episode.environment.name,
            "task": episode.task.id if episode.task else None,
            "instruction": episode.task.instruction if episode.task else None,
            "policy": episode.environment.pack.policy,
            "seed": episode.seed,
            "horizon": episode.horizon,
        }

    async def _score(self, params: Params) -> Result:
        reward = await self._episode.score(_convert(params, ScoreEpisode).answer)
        built: Result = msgspec.to_builtins(reward)
        return built

    async def _changes(self, params: Params) -> Result:
        asked = _convert(params, ChangesQuery)
        return {"changes": self._episode.changes(asked.since, asked.actor).to_json()}

    async def intercept(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """A middleware of the SDK's server that takes the requests meant for us."""
        if not ctx.method.startswith(PREFIX) or ctx.request_id is None:
            return await call_next(ctx)
        try:
            return await self.perform(ctx.method, dict(ctx.params or {}))
        except Exception as error:
            told = error_of(error)
            raise MCPError(told.code, told.message, told.data) from error


async def serve_stdio(surface: Surface, control: Control | None = None) -> None:
    """Serve until standard input ends. Nothing else may write to standard output meanwhile."""
    connection = SdkServer(surface)
    if control is not None:
        connection.server.middleware.insert(0, control.intercept)
    async with stdio_server() as (arrivals, answers), anyio.create_task_group() as group:
        onward, understood = anyio.create_memory_object_stream[SessionMessage | Exception]()
        group.start_soon(_sift, arrivals, onward, answers)
        await connection.run((understood, answers))
        group.cancel_scope.cancel()


async def _sift(arrivals: Any, onward: ObjectSendStream[Any], answers: Any) -> None:
    """Pass messages on; answer a line that is none, which the SDK would leave without a word."""
    async with onward:
        async for arrived in arrivals:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                if isinstance(arrived, Exception):
                    await answers.send(SessionMessage(_misunderstood(arrived)))
                else:
                    await onward.send(arrived)


def _misunderstood(error: Exception) -> JSONRPCError:
    problems = error.errors() if isinstance(error, pydantic.ValidationError) else []
    if any(problem["type"] == "json_invalid" for problem in problems):
        told = ErrorData(code=PARSE_ERROR, message=f"Parse error: {problems[0]['msg']}")
    else:
        told = ErrorData(
            code=INVALID_REQUEST, message="a line must be one JSON-RPC request or notification"
        )
    return JSONRPCError(jsonrpc="2.0", id=None, error=told)


def _convert(params: Params, kind: type[T]) -> T:
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise invalid_params(str(error)) from None

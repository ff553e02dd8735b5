"""The SDK's low-level server over a surface: it serves SSE and pipes, and tests compare with it."""

from __future__ import annotations

from typing import Any, Final, get_args

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    LoggingMessageNotification,
    ProgressNotification,
    RequestParams,
    ServerNotification,
    SubscriptionsListenRequestParams,
)
from mcp_types.methods import CacheableMethod
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hub.mcp_server import modern
from hub.mcp_server.jsonrpc import Params, error_of, method_not_found
from hub.mcp_server.methods import OFFERED, Result, call_tool, perform, render, tool_list
from hub.mcp_server.surface import CallContext, LogLevel, Surface

NOTIFICATIONS: Final[dict[str, type[ServerNotification]]] = {
    "notifications/progress": ProgressNotification,
    "notifications/message": LoggingMessageNotification,
}


class SdkServer:
    """One connection's server. ``server`` is what the SDK's transports run."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._log_from: LogLevel = "debug"
        self.unanswered = 0
        """Requests at work."""
        hint = CacheHint(surface.fresh_ms, "public" if surface.shared else "private")
        self.server: Server[Any] = Server(
            surface.name,
            version=surface.version,
            title=surface.title or None,
            instructions=surface.instructions() or None,
            cache_hints=dict.fromkeys(get_args(CacheableMethod), hint),
        )
        methods = [name for name, (feature, _) in OFFERED.items() if feature in surface.offers]
        if "tools" in surface.offers:
            methods += ["tools/list", "tools/call"]
        if "logging" in surface.offers:
            methods.append("logging/setLevel")
        for method in methods:
            self.server.add_request_handler(method, RequestParams, self._handle)
        if surface.events is not None:
            self.server.add_request_handler(
                "subscriptions/listen",
                SubscriptionsListenRequestParams,
                ListenHandler(surface.events),
            )

    async def run(self, streams: tuple[Any, Any]) -> None:
        """Serve one connection until its client leaves."""
        await self.server.run(*streams, self.server.create_initialization_options())

    async def _handle(self, ctx: ServerRequestContext[Any, Any], _: RequestParams) -> Result:
        self.unanswered += 1
        try:
            result = await self._answer(ctx)
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                result.setdefault("resultType", "complete")
            return result
        except MCPError:
            raise
        except Exception as error:
            told = error_of(error)
            raise MCPError(told.code, told.message, told.data) from error
        finally:
            self.unanswered -= 1

    async def _answer(self, ctx: ServerRequestContext[Any, Any]) -> Result:
        params: Params = dict(ctx.params or {})
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if ctx.method == "tools/list":
            tools = await tool_list(self._surface, params)
            return {"tools": tools.wire(any_structured=is_modern)}
        if ctx.method == "logging/setLevel":
            self._log_from = params["level"]
            return {}

        async def notify(method: str, params: Params) -> None:
            kind = NOTIFICATIONS.get(method)
            if kind is None:
                raise method_not_found(method)
            await ctx.session.send_notification(
                kind.model_validate({"method": method, "params": params}), ctx.request_id
            )

        context = CallContext(
            ctx.method,
            params,
            log_from=modern.log_from(params) if is_modern else self._log_from,
            notify=notify,
        )
        if ctx.method != "tools/call":
            return await perform(self._surface, context)
        return render(await call_tool(self._surface, context), any_structured=is_modern)

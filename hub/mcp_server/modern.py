"""Version 2026-07-28: no sessions; every request says of itself what the server must know."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
    event_to_notification,
)
from mcp_types import LOG_LEVEL_META_KEY, SERVER_INFO_META_KEY
from mcp_types.methods import CACHEABLE_METHODS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from hub.mcp_server.eras import RawHeaders, check_mirrored, check_params
from hub.mcp_server.jsonrpc import (
    Params,
    Request,
    encode_notification,
    encode_result,
    method_not_found,
)
from hub.mcp_server.methods import (
    Result,
    call_tool,
    capabilities,
    implementation,
    perform,
    render,
    tool_list,
)
from hub.mcp_server.streams import EventStream, Exchange, sse
from hub.mcp_server.surface import LOG_LEVELS, CallContext, LogLevel, Surface

LISTEN: Final = "subscriptions/listen"


async def respond(
    surface: Surface, request: Request, version: str, raw_headers: RawHeaders, exchange: Exchange
) -> Result:
    """The result of any request but ``LISTEN``, dressed for this era.

    Raises ``RpcError`` and ``CallCancelled``.
    """
    method, params = request.method, request.params
    check_params(method, version, params)
    if method == "tools/call":
        mirrored = (await tool_list(surface, {})).header_schemas
        if mirrored and (schema := mirrored.get(params["name"])) is not None:
            check_mirrored(schema, params, raw_headers)
        context = _context(request, exchange)
        answer = await exchange.run(call_tool(surface, context))
        return dress(surface, method, render(answer, any_structured=True))
    if method == "tools/list":
        return dress(surface, method, {"tools": (await tool_list(surface, params)).modern})
    if method == "server/discover":
        return dress(surface, method, _discovery(surface))
    return dress(surface, method, await perform(surface, _context(request, exchange)))


def dress(surface: Surface, method: str, result: Result) -> Result:
    """Add what every result of this era carries; what the surface said itself stays."""
    result.setdefault("resultType", "complete")
    result["_meta"] = {SERVER_INFO_META_KEY: implementation(surface), **result.get("_meta", {})}
    if method in CACHEABLE_METHODS and result["resultType"] == "complete":
        result.setdefault("ttlMs", surface.fresh_ms)
        result.setdefault("cacheScope", "public" if surface.shared else "private")
    return result


class Listening(msgspec.Struct, frozen=True):
    """An accepted ``subscriptions/listen``: its stream, and the frames that begin and end it."""

    stream: EventStream
    acknowledgement: bytes
    closure: bytes


def listen(surface: Surface, request: Request, version: str) -> Listening:
    """Raises ``RpcError``; METHOD_NOT_FOUND where nothing ever changes."""
    check_params(LISTEN, version, request.params)
    if surface.events is None:
        raise method_not_found(LISTEN)
    wanted = request.params["notifications"]
    uris = frozenset(wanted.get("resourceSubscriptions") or ())
    kinds: dict[type[Any], str] = {
        ToolsListChanged: "toolsListChanged",
        PromptsListChanged: "promptsListChanged",
        ResourcesListChanged: "resourcesListChanged",
    }
    honoured: Params = {key: True for key in kinds.values() if wanted.get(key) is True}
    if uris:
        honoured["resourceSubscriptions"] = sorted(uris)
    meta = {SUBSCRIPTION_ID_META_KEY: request.id}

    def frame_of(event: ServerEvent) -> bytes | None:
        kind = kinds.get(type(event))
        if not (kind in honoured if kind else getattr(event, "uri", None) in uris):
            return None
        wire = event_to_notification(event, meta).model_dump(by_alias=True, exclude_none=True)
        return sse(encode_notification(wire["method"], wire["params"]))

    acknowledged = {"notifications": honoured, "_meta": meta}
    return Listening(
        EventStream(frame_of),
        sse(encode_notification("notifications/subscriptions/acknowledged", acknowledged)),
        sse(encode_result(request.id, dress(surface, LISTEN, {"_meta": meta}))),
    )


def _discovery(surface: Surface) -> Result:
    versions = MODERN_PROTOCOL_VERSIONS if surface.sessionless else HANDSHAKE_PROTOCOL_VERSIONS
    result: Result = {
        "supportedVersions": list(versions),
        "capabilities": capabilities(surface, subscribe=True),
    }
    if instructions := surface.instructions():
        result["instructions"] = instructions
    return result


def log_from(params: Params) -> LogLevel | None:
    """The least level of log entries a request takes; by default it takes none."""
    asked = params["_meta"].get(LOG_LEVEL_META_KEY)
    return cast("LogLevel", asked) if asked in LOG_LEVELS else None


def _context(request: Request, exchange: Exchange) -> CallContext:
    return CallContext(
        request.method, request.params, log_from=log_from(request.params), notify=exchange.notify
    )

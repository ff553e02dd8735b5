"""Versions 2024-11-05 to 2025-11-25: a client shakes hands and is given a session.

A session is offered, never demanded: what an URL serves depends on the URL alone.
"""

from __future__ import annotations

from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent, event_to_notification
from mcp_types import DEFAULT_NEGOTIATED_VERSION, INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from hub.mcp_server.eras import check_params
from hub.mcp_server.jsonrpc import (
    Notification,
    Params,
    Request,
    RpcError,
    encode_notification,
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
from hub.mcp_server.sessions import Session
from hub.mcp_server.streams import EventStream, Exchange, sse
from hub.mcp_server.surface import CallContext, Surface


def negotiate(params: Params) -> str:
    """The version of a session: the one asked for, or our latest if we do not speak that."""
    check_params("initialize", LATEST_HANDSHAKE_VERSION, params)
    asked = params["protocolVersion"]
    return asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION


def greeting(surface: Surface, version: str) -> Result:
    """The result of ``initialize``."""
    result: Result = {
        "protocolVersion": version,
        "capabilities": capabilities(surface, subscribe=True),
        "serverInfo": implementation(surface),
    }
    if instructions := surface.instructions():
        result["instructions"] = instructions
    return result


async def respond(
    surface: Surface, request: Request, session: Session | None, exchange: Exchange
) -> Result:
    """The result of any other request. Raises ``RpcError`` and ``CallCancelled``."""
    method, params = request.method, request.params
    check_params(method, session.version if session else DEFAULT_NEGOTIATED_VERSION, params)
    if method == "tools/list":
        return {"tools": (await tool_list(surface, params)).handshake}
    if method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        return _remember(surface, request, session)
    context = CallContext(
        method,
        params,
        session_id=session.id if session else None,
        log_from=session.log_from if session else "debug",
        notify=exchange.notify,
    )
    if method != "tools/call":
        return await perform(surface, context)
    if session is None:
        return render(await call_tool(surface, context), any_structured=False)
    session.in_flight[request.id] = exchange
    try:
        answer = await exchange.run(call_tool(surface, context))
    finally:
        session.in_flight.pop(request.id, None)
    return render(answer, any_structured=False)


def note(notification: Notification, session: Session | None) -> None:
    """Act on a notification; one that means nothing here is dropped, as the protocol wants."""
    if notification.method != "notifications/cancelled" or session is None:
        return
    request_id = cancelled_request_id_from_params(notification.params)
    if request_id is not None and (exchange := session.in_flight.get(request_id)) is not None:
        exchange.cancel()


def standing_stream(session: Session) -> EventStream:
    """The stream a session's GET opens: changes of lists, and of the resources it subscribed to."""

    def frame_of(event: ServerEvent) -> bytes | None:
        if isinstance(event, ResourceUpdated) and event.uri not in session.subscriptions:
            return None
        wire = event_to_notification(event, {}).model_dump(by_alias=True, exclude_none=True)
        params = {key: value for key, value in wire["params"].items() if key != "_meta"}
        return sse(encode_notification(wire["method"], params))

    return EventStream(frame_of)


def _remember(surface: Surface, request: Request, session: Session | None) -> Result:
    if request.method == "logging/setLevel":
        if "logging" not in surface.offers:
            raise method_not_found(request.method)
    elif "resources" not in surface.offers or surface.events is None:
        raise method_not_found(request.method)
    if session is None:
        raise RpcError(INVALID_REQUEST, f"{request.method} needs a session: initialize first")
    match request.method:
        case "logging/setLevel":
            session.log_from = request.params["level"]
        case "resources/subscribe":
            session.subscriptions.add(request.params["uri"])
        case _:
            session.subscriptions.discard(request.params["uri"])
    return {}

"""JSON-RPC 2.0 on the wire: one message in, one message out, as bytes."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson
from mcp_types.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)

from environments.errors import EnvhubError
from hub.errors import NestedTooDeeply, body_of, status_of
from hub.telemetry import logger

log = logger("hub.mcp_server")

RequestId = int | str
Params = dict[str, Any]

REQUEST_CANCELLED: Final = -32800
"""Answers a request its client cancelled in the handshake era (the SDK's number, and LSP's)."""


class RpcError(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Request(msgspec.Struct, frozen=True, gc=False):
    """A message that is owed an answer."""

    id: RequestId
    method: str
    params: Params


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A message that is not. A response the client posted is one too: nobody waits for it."""

    method: str
    params: Params


Message = Request | Notification

_NOT_ONE_MESSAGE = "the body must be one JSON-RPC request or notification object"


def decode(body: bytes) -> Message:
    """The message in a request's body.

    Raises ``RpcError``: PARSE_ERROR for what is not JSON, INVALID_REQUEST for JSON that is not one
    JSON-RPC message (a batch included: no version this hub speaks needs them).
    """
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error}") from None
    if type(raw) is not dict or raw.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, _NOT_ONE_MESSAGE)
    method = raw.get("method")
    if method is None and ("result" in raw or "error" in raw):
        return Notification("", {})
    params = raw.get("params")
    if params is None:
        params = {}
    if type(method) is not str or type(params) is not dict:
        raise RpcError(INVALID_REQUEST, _NOT_ONE_MESSAGE)
    if "id" not in raw:
        return Notification(method, params)
    if type(raw["id"]) is not int and type(raw["id"]) is not str:
        raise RpcError(INVALID_REQUEST, "a request's id is a string or an integer")
    return Request(raw["id"], method, params)


def encode_result(id: RequestId, result: Any) -> bytes:
    """A successful answer; ``result`` may hold ``orjson.Fragment``."""
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": result})


def encode_error(id: RequestId | None, error: RpcError) -> bytes:
    """A failed answer; ``id`` is ``None`` where the request's could not be read."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "error": body})


def encode_notification(method: str, params: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def method_not_found(method: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, "Method not found", method)


def invalid_params(message: str, data: Any = None) -> RpcError:
    return RpcError(INVALID_PARAMS, message, data)


def error_of(error: Exception) -> RpcError:
    """How an error no surface turned into an answer is told: whose fault it was is in ``data``.

    One that is not the caller's is logged, one nobody foresaw with its traceback.
    """
    if isinstance(error, RpcError):
        return error
    body = body_of(error)
    code = INVALID_PARAMS if body.kind == "agent" else INTERNAL_ERROR
    if isinstance(error, NestedTooDeeply):
        code = PARSE_ERROR
    if not isinstance(error, EnvhubError):
        log.error("mcp request failed", exc_info=error, **body.details)
    elif code == INTERNAL_ERROR and status_of(error) >= 500:
        log.error("mcp request failed", code=error.code, message=str(error))
    return RpcError(code, body.message, msgspec.to_builtins(body))

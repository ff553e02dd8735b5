"""The two eras of MCP: which one a request belongs to, and what makes its parameters valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.datastructures import Headers

from environments.authoring import TOOL_NAME
from hub.mcp_server.jsonrpc import Message, Params, RpcError, invalid_params, method_not_found

VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()
METHOD: Final = MCP_METHOD_HEADER.encode()
NAME: Final = MCP_NAME_HEADER.encode()
LATEST: Final = MODERN_PROTOCOL_VERSIONS[-1]
LATEST_HEADER: Final = LATEST.encode()
ROUTING_HEADERS: Final = {
    name.encode(): name
    for name in (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER)
}
HANDSHAKE: Final = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)

RawHeaders = list[tuple[bytes, bytes]]


def is_sessionless(headers: Mapping[bytes, bytes], message: Message) -> bool:
    """Whether a POST belongs to the era without sessions.

    The version header decides, as in the SDK. Two bodies decide against it: an ``initialize``
    without an envelope shakes hands whatever its header says (clients keep the header of a probe
    that failed), and a request with an envelope is told about a header that does not match.
    """
    meta = message.params.get("_meta")
    enveloped = type(meta) is dict and PROTOCOL_VERSION_META_KEY in meta
    if message.method == "initialize":
        return enveloped
    version = headers.get(VERSION)
    return enveloped or not (version is None or version in HANDSHAKE)


def admit(raw_headers: RawHeaders, headers: Mapping[bytes, bytes], body: Params) -> str:
    """The version of a sessionless request; ``body`` has its ``method`` and ``params``.

    Raises ``RpcError`` for the first rung of the SDK's ladder that fails. A tool call that plainly
    stands on every rung does not climb them one by one: that would cost more than the call.
    """
    if len(raw_headers) == len(headers) and _plainly_admitted(headers, body):
        return LATEST
    if len(raw_headers) != len(headers) and (
        name := find_duplicated_routing_header((k.decode("latin-1"), "") for k, _ in raw_headers)
    ):
        raise RpcError(HEADER_MISMATCH, f"{name} header appears more than once")
    routing = {
        # the white space around a field's value is no part of it, and httptools leaves it there
        name: headers[key].decode("latin-1").strip(" \t")
        for key, name in ROUTING_HEADERS.items()
        if key in headers
    }
    verdict = classify_inbound_request(body, headers=routing)
    if isinstance(verdict, InboundLadderRejection):
        raise _rejected(verdict)
    return verdict.protocol_version


def _plainly_admitted(headers: Mapping[bytes, bytes], body: Params) -> bool:
    params = body["params"]
    meta, name = params.get("_meta"), params.get("name")
    return (
        body["method"] == "tools/call"
        and headers.get(VERSION) == LATEST_HEADER
        and headers.get(METHOD) == b"tools/call"
        and type(meta) is dict
        and meta.get(PROTOCOL_VERSION_META_KEY) == LATEST
        and CLIENT_CAPABILITIES_META_KEY in meta
        and type(name) is str
        and TOOL_NAME.match(name) is not None  # no other name is the same text in a header
        and headers.get(NAME) == name.encode()
    )


def refuse_unserved_version(headers: Mapping[bytes, bytes]) -> None:
    """Raise for a version no request would be served at (for notifications, which say no more)."""
    rejection = unsupported_protocol_version_rejection(headers.get(VERSION, b"").decode("latin-1"))
    if rejection is not None:
        raise _rejected(rejection)


def check_mirrored(schema: Mapping[str, Any], params: Params, raw_headers: RawHeaders) -> None:
    """Raise where ``Mcp-Param-*`` headers and the arguments they mirror disagree."""
    arguments = params.get("arguments") or {}
    if not isinstance(arguments, dict):
        return
    rejection = validate_mcp_param_headers(schema, arguments, Headers(raw=raw_headers))
    if rejection is not None:
        raise _rejected(rejection)


def check_params(method: str, version: str, params: Params) -> None:
    """Raise ``RpcError`` if ``version`` has no such method, or not with these parameters.

    The SDK's models judge. They cost more than a whole call should, so the plain form of the
    frequent methods is let through before; what is not plain is judged.
    """
    frequent = (method == "tools/call" and _plain_call(params)) or method == "tools/list"
    if frequent and _plain_meta(params.get("_meta", {})):
        return
    try:
        validate_client_request(method, version, params)
    except KeyError:
        raise method_not_found(method) from None
    except ValidationError as error:
        problems = [
            {"field": ".".join(map(str, item["loc"])), "problem": item["msg"]}
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise invalid_params("Invalid request parameters", {"problems": problems}) from None


def _plain_call(params: Params) -> bool:
    return type(params.get("name")) is str and type(params.get("arguments", {})) is dict


def _plain_meta(meta: Any) -> bool:
    if type(meta) is not dict or LOG_LEVEL_META_KEY in meta:
        return False
    client = meta.get(CLIENT_INFO_META_KEY, {"name": "", "version": ""})
    capabilities = meta.get(CLIENT_CAPABILITIES_META_KEY, {})
    return (
        type(meta.get("progressToken", "")) in (str, int)
        and type(client) is dict
        and client.keys() == {"name", "version"}
        and all(type(value) is str for value in client.values())
        and type(capabilities) is dict
        and all(type(value) is dict for value in capabilities.values())
    )


def _rejected(rejection: InboundLadderRejection) -> RpcError:
    return RpcError(rejection.code, rejection.message, rejection.data)

"""A table of routes, and the ASGI application that answers by it.

A route is declared once. Bodies are decoded straight into its structs, so that what the
description promises is what is checked; every error becomes an answer in one place.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive, Scope, Send

from environments.errors import EnvhubError
from hub.api.streaming import Stream, Streams, Text
from hub.auth import Access, Demand, Principal, admitted
from hub.edge.answers import JSON, error_json, headers_of, send_body
from hub.edge.guard import Disconnected, Guard
from hub.errors import (
    InvalidRequest,
    MalformedBody,
    MethodNotAllowed,
    UnknownRoute,
    body_of,
    status_of,
)
from hub.telemetry import logger
from hub.wire import Request

log = logger("hub.api")

Handler = Callable[..., Awaitable[Any]]
_FIELD = re.compile(r"(?:unknown field|required field) `([^`]+)`|at `\$\.?([^`]*)`")
_encode = msgspec.json.Encoder().encode


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint. ``handler`` takes the hub's episodes as who asks sees them, what ``{…}`` in the
    path captured, then the body if ``request`` is set, then the query if ``query`` is set."""

    method: str
    path: str
    scope: Demand
    """What whoever asks must have, where tokens are asked for."""
    handler: Handler
    summary: str
    response: Any
    """What the body is, or of another ``content_type`` each line or event of it."""
    request: type[msgspec.Struct] | None = None
    query: type[Request] | None = None
    example: dict[str, Any] | None = None
    """A body that this endpoint takes."""
    status: int = 200
    content_type: str = "application/json"
    headers: bool = False
    """Whether the handler takes the request's headers, ahead of body and query."""


class _Endpoint:
    """A route with its decoder made, and what makes that which its handler is called with first."""

    __slots__ = ("context", "decode", "route")

    def __init__(self, route: Route, context: Context) -> None:
        self.route = route
        self.context = context
        self.decode = msgspec.json.Decoder(route.request).decode if route.request else None


class _Node:
    """One segment of the paths: the literal ones below it, the captured one, its endpoints."""

    __slots__ = ("captured", "endpoints", "literal")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.captured: _Node | None = None
        self.endpoints: dict[str, _Endpoint] = {}


Context = Callable[[Principal], object]
"""What is there for a principal."""
Table = tuple[Context, Iterable[Route]]


class Api:
    """The ASGI application of tables of routes below ``prefix``, each with what its handlers are
    called with first; ``count`` hears of whom they refused."""

    def __init__(
        self,
        prefix: str,
        tables: Iterable[Table],
        *,
        guard: Guard,
        count: Callable[[str, str], None],
    ) -> None:
        self.prefix = prefix
        self._guard = guard
        self._count = count
        self._root = _Node()
        self._streams = Streams()
        self._access: list[Access] = []
        for context, routes in tables:
            for route in routes:
                self._add(route, context)

    @property
    def access(self) -> tuple[Access, ...]:
        """Every route with what it asks for."""
        return tuple(self._access)

    def close(self) -> None:
        """End the streams that are open."""
        self._streams.close()

    def _add(self, route: Route, context: Context) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                node.captured = node.captured or _Node()
                node = node.captured
            else:
                node = node.literal.setdefault(segment, _Node())
        node.endpoints[route.method] = _Endpoint(route, context)
        self._access.append(Access(route.method, self.prefix + route.path, route.scope))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: tuple[tuple[bytes, bytes], ...] = ()
        try:
            # unlike MCP, a body's declared type is not held against it
            self._guard.admit(scope["headers"])
            endpoint, captured = self._match(scope["method"], scope["path"])
            answer = await self._answer(endpoint, captured, scope, receive)
            if isinstance(answer, Stream):
                await self._streams.send(answer, receive, send)
                return
            content_type = endpoint.route.content_type.encode()
            status = endpoint.route.status
            if isinstance(answer, Text):
                body, headers = answer.body, tuple(answer.headers)
            else:
                body = _encode(answer)
        except Disconnected:
            return
        except Exception as error:
            told = body_of(error)
            status, body = status_of(error), error_json(told)
            content_type, headers = JSON, headers_of(error)
            if not isinstance(error, EnvhubError):
                log.exception(
                    "request failed", method=scope["method"], path=scope["path"], **told.details
                )
        await send_body(send, status, body, headers, content_type)

    def _match(self, method: str, path: str) -> tuple[_Endpoint, list[str]]:
        node: _Node | None = self._root
        captured: list[str] = []
        for segment in path.removeprefix(self.prefix).split("/")[1:]:
            assert node is not None
            below = node.literal.get(segment)
            if below is None and segment:
                below = node.captured
                captured.append(segment)
            node = below
            if node is None:
                break
        if node is None or not node.endpoints:
            raise UnknownRoute(
                f"there is nothing at {path}",
                hint=f"GET {self.prefix}/openapi.json lists the routes",
            )
        endpoint = node.endpoints.get(method)
        if endpoint is None:
            allowed = ", ".join(sorted(node.endpoints))
            raise MethodNotAllowed(f"{path} does not take {method}", hint=f"it takes {allowed}")
        return endpoint, captured

    async def _answer(
        self, endpoint: _Endpoint, captured: list[str], scope: Scope, receive: Receive
    ) -> Any:
        route = endpoint.route
        principal = admitted(scope, route.scope, self._count)
        values: list[Any] = [endpoint.context(principal), *captured]
        if route.headers:
            values.append(dict(scope["headers"]))
        if endpoint.decode is not None:
            body = await self._guard.read(receive)
            values.append(_decode(endpoint.decode, body or b"{}"))
        if route.query is not None:
            values.append(_query(route.query, scope["query_string"]))
        return await route.handler(*values)


def _decode(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise invalid(error, "body") from None
    except msgspec.DecodeError as error:
        raise MalformedBody(f"the body is not JSON: {_with_position(error, body)}") from None
    except RecursionError:
        raise MalformedBody("the body is nested too deeply") from None


def _query(kind: type[Request], query_string: bytes) -> Request:
    pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    try:
        return msgspec.convert(dict(pairs), kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error, "query") from None


def invalid(error: msgspec.ValidationError, where: str) -> InvalidRequest:
    """The mistake in words, with the path of the field at fault in ``details.field``."""
    text = str(error)
    field = ".".join(part for match in _FIELD.finditer(text) for part in match.groups() if part)
    problem = text.split(" - at `")[0]
    return InvalidRequest(f"{where} {field}: {problem}".replace(" :", ":"), field=field)


def _with_position(error: msgspec.DecodeError, body: bytes) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    if "(byte " in text:
        return text
    try:
        body.decode()
    except UnicodeDecodeError as broken:
        return f"invalid UTF-8 (byte {broken.start})"
    return f"{text} (byte {len(body)})"


def captures(path: str) -> list[str]:
    """The names in a route's path, e.g. ``["id"]`` for ``/episodes/{id}``."""
    return re.findall(r"{([a-z_]+)}", path)

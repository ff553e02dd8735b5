"""What goes with every answer: headers for browsers and caches, and what an error adds to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from starlette.types import Send

from hub.errors import (
    AtCapacity,
    BodyTooLarge,
    ScopeMissing,
    TokenMissing,
    Unauthenticated,
    status_of,
)
from hub.wire import ErrorBody, ErrorResponse

Headers = tuple[tuple[bytes, bytes], ...]

JSON: Final = b"application/json"
SNIFF: Final = (b"x-content-type-options", b"nosniff")
PRIVATE: Final[Headers] = (SNIFF, (b"cache-control", b"no-store"))
"""On every answer of the API and of MCP: nobody renders it, and nobody keeps it."""
PAGE: Final[Headers] = (
    *PRIVATE,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
"""On what a person may look at in a browser."""

CHALLENGE: Final = b"www-authenticate"
BEARER: Final = b'Bearer realm="envhub"'
INVALID: Final = BEARER + b', error="invalid_token"'
INSUFFICIENT: Final = BEARER + b', error="insufficient_scope", scope="%b"'


def headers_of(error: Exception) -> Headers:
    """What the answer to an error says beside its body."""
    if isinstance(error, AtCapacity):
        seconds = error.details["retry_after_seconds"]
        return ((b"retry-after", str(seconds).encode()),)
    if isinstance(error, BodyTooLarge):
        return ((b"connection", b"close"),)  # the rest of the body is not read
    if isinstance(error, Unauthenticated):
        return ((CHALLENGE, BEARER if isinstance(error, TokenMissing) else INVALID),)
    if isinstance(error, ScopeMissing):
        return ((CHALLENGE, INSUFFICIENT % str(error.details["scope"]).encode()),)
    if status_of(error) == 503:
        return ((b"retry-after", b"1"),)
    return ()


def error_json(told: ErrorBody) -> bytes:
    """The body of an answer that is not 2xx."""
    return msgspec.json.encode(ErrorResponse(error=told))


async def send_body(
    send: Send,
    status: int,
    body: bytes,
    headers: Iterable[tuple[bytes, bytes]] = (),
    content_type: bytes = JSON,
) -> None:
    """Send one complete answer."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", str(len(body)).encode()),
                *PRIVATE,
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})

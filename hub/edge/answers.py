"""What goes with every answer: headers for browsers and caches, and what an error adds to them."""

from __future__ import annotations

from typing import Final

from hub.errors import (
    AtCapacity,
    BodyTooLarge,
    ScopeMissing,
    TokenMissing,
    Unauthenticated,
    status_of,
)

Headers = tuple[tuple[bytes, bytes], ...]

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

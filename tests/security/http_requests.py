"""Bytes that are HTTP no more, or never were."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.security.fuzz import Fuzzer
from tests.security.request import Request

if TYPE_CHECKING:
    from tests.security.requests import Known

VERBS = (
    *("GET",) * 6,
    *("POST",) * 3,
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "PRI",
    "x",
)
TARGETS = (
    "*",
    "/",
    "//",
    "/%",
    "/%00",
    "/v1/%2e%2e/%2e%2e/etc/passwd",
    "/v1/episodes/..%2f..%2fsecret",
    "http://127.0.0.1/healthz",
    "http://evil.example/",
    "/v1/episodes?limit=-1&limit=99999999999999999999&after=%ff&status=\xff",
    "/v1/trajectories?cursor=-1",
    "/v1/events?cursor=99999999999999999999",
    "/metrics?x=" + "y" * 9000,
    "/readyz",
    "/healthz#x",
    "?",
    "",
)
LINES = (
    b"transfer-encoding: chunked",
    b"transfer-encoding: chunked, chunked",
    b"transfer-encoding: gzip",
    b"content-length: 5",
    b"content-length: -1",
    b"content-length: 99999999999999999999999",
    b"content-length: 4194305",
    b"expect: 100-continue",
    b"connection: upgrade",
    b"upgrade: websocket",
    b"upgrade: h2c",
    b"connection: keep-alive",
    b"host: a",
    b"host:",
    b"origin: \xff",
    b"cookie: " + b"a=b; " * 300,
    b"x: " + b"y" * 70_000,
    b" folded",
    b": no name",
    b"nul: \x00",
    b"range: bytes=0-",
    b"if-none-match: *",
    b"accept-encoding: gzip, br",
    b"content-type: multipart/form-data",
    b"last-event-id: -1",
)
CHUNKS = (
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5;x=y\r\nhello\r\n0\r\nhost: evil\r\n\r\n",
    b"fffffffffffffffff\r\n",
    b"-1\r\n",
    b"0\r\n\r\n",
    b"1\r\nx\r\n" * 500,
)


class Draws:
    """Draws one request at a time."""

    def __init__(self, description: dict[str, Any], chance: random.Random, known: Known) -> None:
        self._chance = chance
        self._known = known
        self._fuzzer = Fuzzer(chance.randrange(1 << 32), 1 << 20)
        self._paths = [*description["paths"], "/episodes/{id}/mcp", "/episodes/{id}/sse"]

    def draw(self) -> Request:
        """The next request."""
        chance = self._chance
        kind = chance.randrange(6)
        if kind == 0:
            raw = chance.randbytes(chance.randrange(1, 400))
        else:
            raw = self._request()
            if kind == 1:
                raw *= chance.randrange(2, 100)
            elif kind in (2, 3):
                raw = self._fuzzer.broken(raw)
        pieces = [*self._fuzzer.pieces(raw)] if len(raw) < 5000 else [raw]
        return Request("raw", tuple(pieces[:200]))

    def _request(self) -> bytes:
        chance = self._chance
        path = chance.choice(TARGETS) if chance.random() < 0.3 else chance.choice(self._paths)
        known = chance.choice(self._known.episodes)
        path = path.replace("{id}", known).replace("{name}", "shop").replace("{task}", "buy-tea")
        version = chance.choice(("HTTP/1.1",) * 6 + ("HTTP/1.0", "HTTP/2.0", "HTTP/0.9", ""))
        head = f"{chance.choice(VERBS)} {path} {version}".encode("latin-1")
        lines = [head] if chance.random() < 0.1 else [head, b"host: localhost"]
        lines += chance.choices(LINES, k=chance.choice((0, 0, 1, 1, 2, 3)))
        if chance.random() < 0.02:
            lines += [b"a: b"] * 300
        ending = chance.choice((b"\r\n",) * 9 + (b"\n",))
        body = chance.choice((b"", b"", b"hello", b"{}", *CHUNKS))
        return ending.join(lines) + ending * 2 + body

"""One request as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

HEADERS = (("content-type", "application/json"), ("accept", "application/json, text/event-stream"))


class Request(msgspec.Struct, frozen=True):
    """What is sent over one connection, in these pieces; ``kind`` is who drew it."""

    kind: str
    pieces: tuple[bytes, ...]

    @property
    def raw(self) -> bytes:
        return b"".join(self.pieces)

    @classmethod
    def of(
        cls,
        kind: str,
        method: str,
        target: str,
        body: Any = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> Request:
        """A well-formed request; a body that is not bytes is sent as JSON."""
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {target} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
        lines += [f"{name}: {value}" for name, value in {**dict(HEADERS), **dict(headers)}.items()]
        lines.append(f"content-length: {len(body)}")
        head = "\r\n".join(lines).encode("latin-1", "replace")
        return cls(kind, (head + b"\r\n\r\n" + body,))

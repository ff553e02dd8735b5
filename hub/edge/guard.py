"""What is refused before a request is understood: a foreign Host or Origin, more than one Host, a
body too large or nested too deeply."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from starlette.types import Receive

from environments.keepable import nested_beyond
from hub.errors import (
    BodyTooLarge,
    ForeignHost,
    ForeignOrigin,
    MalformedRequest,
    NestedTooDeeply,
)

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_JSON_DEPTH: Final = 500
"""More than any record holds: a policy whose arguments are beyond that has made a mistake, which is
a step, and not a request that is refused."""
REMEMBERED: Final = 256
"""Host and Origin values whose verdict is kept; a client sends the same one every time."""
LONGEST_LENGTH: Final = 18
"""Digits of a length that can still be meant."""


class Disconnected(Exception):
    """The client left before it had sent its request."""


class Guard:
    """Which hosts this hub answers to, and how much it reads.

    ``hosts`` are names without ports (any port is theirs); loopback is always among them, and
    ``*`` lets every host and origin in.
    """

    def __init__(
        self,
        hosts: Iterable[str] = (),
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_json_depth: int = MAX_JSON_DEPTH,
    ) -> None:
        self.max_body_bytes = max_body_bytes
        self._max_json_depth = max_json_depth
        self._hosts = frozenset((*LOOPBACK, *hosts))
        self._verdicts: dict[bytes, bool] = {}

    def admit(self, raw: Collection[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        """The headers by name, before anything is read. Raises ``MalformedRequest``,
        ``ForeignHost``, ``ForeignOrigin`` and ``BodyTooLarge``."""
        headers = dict(raw)
        if len(headers) < len(raw) and sum(name == b"host" for name, _ in raw) > 1:
            raise MalformedRequest(
                "the request has more than one Host", hint="a proxy may have added its own"
            )
        if not self._known(headers.get(b"host", b"")):
            raise ForeignHost(
                "this hub does not answer to the name in Host",
                hint="ENVHUB_ALLOWED_HOSTS names the hosts it answers to",
            )
        origin = headers.get(b"origin")
        if origin and not self._known(origin):
            raise ForeignOrigin(
                "this hub does not answer to pages of this Origin",
                hint="ENVHUB_ALLOWED_HOSTS names the hosts whose pages it answers to",
            )
        length = headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > LONGEST_LENGTH or int(length) > self.max_body_bytes):
            raise self._too_large()
        return headers

    async def read(self, receive: Receive) -> bytes:
        """The whole body. Raises ``BodyTooLarge``, ``NestedTooDeeply`` and ``Disconnected``."""
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Disconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                break
            chunks.append(chunk)
        body: bytes = chunk if not chunks else b"".join((*chunks, chunk))
        if nested_beyond(body, self._max_json_depth):
            raise NestedTooDeeply(
                f"the body is nested more than {self._max_json_depth} levels deep",
                hint="ENVHUB_MAX_JSON_DEPTH raises the limit",
            )
        return body

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body is larger than {self.max_body_bytes} bytes",
            hint="ENVHUB_MAX_BODY_BYTES raises the limit",
        )

    def _known(self, value: bytes) -> bool:
        """Whether a ``Host`` or an ``Origin`` names one of our hosts."""
        verdict = self._verdicts.get(value)
        if verdict is None:
            verdict = "*" in self._hosts or _host_of(value.decode("latin-1")) in self._hosts
            if len(self._verdicts) >= REMEMBERED:
                self._verdicts.clear()
            self._verdicts[value] = verdict
        return verdict


def _host_of(value: str) -> str:
    """``localhost`` of ``localhost:8765``, ``http://localhost`` and ``https://localhost:1``."""
    scheme, _, rest = value.rpartition("://")
    if scheme not in ("", "http", "https"):
        return ""
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        return rest.lower()
    return host.lower() if port.isdigit() else ""

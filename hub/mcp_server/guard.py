"""What is refused before a request is understood: a foreign Host or Origin, a body too large.

Answers as the SDK does: 421, 403, 413, and 400 for a POST that is not JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from starlette.types import Receive

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
REMEMBERED: Final = 256
"""Host and Origin values whose verdict is kept; a client sends the same one every time."""


class BodyTooLarge(Exception):
    """The client sent more than the limit."""


class Disconnected(Exception):
    """The client left before it had sent its request."""


class Guard:
    """Which hosts this hub answers to, and how much it reads.

    ``hosts`` are names without ports (any port is theirs); loopback is always among them, and
    ``*`` lets every host and origin in.
    """

    def __init__(self, hosts: Iterable[str] = (), *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.max_body_bytes = max_body_bytes
        self._hosts = frozenset((*LOOPBACK, *hosts))
        self._verdicts: dict[bytes, bool] = {}

    def refusal(self, method: str, headers: Mapping[bytes, bytes]) -> tuple[int, bytes] | None:
        """Status and text of the answer to a request that must not be served, else ``None``."""
        if method == "POST" and not headers.get(b"content-type", b"").lower().startswith(
            b"application/json"
        ):
            return 400, b"Invalid Content-Type header"
        if not self._known(headers.get(b"host", b"")):
            return 421, b"Invalid Host header"
        origin = headers.get(b"origin")
        if origin and not self._known(origin):
            return 403, b"Invalid Origin header"
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self.max_body_bytes:
            return 413, b"Request body too large"
        return None

    async def read(self, receive: Receive) -> bytes:
        """The whole body. Raises ``BodyTooLarge`` and ``Disconnected``."""
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Disconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_body_bytes:
                raise BodyTooLarge
            if not message.get("more_body", False):
                return chunk if not chunks else b"".join((*chunks, chunk))
            chunks.append(chunk)

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

"""Sessions of the handshake era: signed, so that they outlive the hub that opened them.

A session id names its protocol version and carries a MAC over the URL and the principal it was
opened for. Nothing has to be stored for it to be good after a restart, and it is worth nothing at
another URL. What is kept in memory (log level, subscriptions, calls in flight) may be forgotten.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections import OrderedDict
from typing import Final

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from hub.mcp_server.jsonrpc import RequestId
from hub.mcp_server.streams import EventStream, Exchange
from hub.mcp_server.surface import LogLevel

NONCE_BYTES: Final = 12
MAC_BYTES: Final = 16
CONTEXT: Final = b"envhub mcp session 1\0"


class Session:
    """What is remembered of one session between its requests."""

    __slots__ = ("binding", "id", "in_flight", "log_from", "stream", "subscriptions", "version")

    def __init__(self, id: str, version: str, binding: bytes) -> None:
        self.id = id
        self.version = version
        self.binding = binding
        self.log_from: LogLevel = "debug"
        self.subscriptions: set[str] = set()
        self.stream: EventStream | None = None
        self.in_flight: dict[RequestId, Exchange] = {}


class Sessions:
    """Opens sessions and finds them again. ``secret`` (32 bytes or more) signs their ids."""

    def __init__(self, secret: bytes, *, remember: int = 10_000, remember_ended: int = 100_000):
        if len(secret) < MAC_BYTES:
            raise ValueError(f"a secret of {len(secret)} bytes signs nothing")
        self._secret = secret
        self._remember = remember
        self._remember_ended = remember_ended
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def open(self, binding: bytes, version: str) -> Session:
        """A new session at the URL and for the principal that ``binding`` stands for."""
        index = HANDSHAKE_PROTOCOL_VERSIONS.index(version)
        payload = bytes((index,)) + secrets.token_bytes(NONCE_BYTES)
        signed = urlsafe_b64encode(payload + self._mac(payload, binding)).rstrip(b"=")
        return self._keep(Session(signed.decode(), version, binding))

    def find(self, id: str, binding: bytes) -> Session | None:
        """The session, or ``None``: it was ended, is not of ours, or belongs elsewhere."""
        known = self._known.get(id)
        if known is not None:
            return known if known.binding == binding else None
        if id in self._ended or (version := self._verify(id, binding)) is None:
            return None
        return self._keep(Session(id, version, binding))

    def end(self, session: Session) -> None:
        """Its id is refused from now on, its stream ends and its calls in flight are cancelled."""
        self._known.pop(session.id, None)
        self._ended[session.id] = None
        if len(self._ended) > self._remember_ended:
            self._ended.popitem(last=False)
        if session.stream is not None:
            session.stream.end()
        for exchange in list(session.in_flight.values()):
            exchange.cancel()

    def _keep(self, session: Session) -> Session:
        self._known[session.id] = session
        if len(self._known) > self._remember:
            for other in self._known.values():
                if other.stream is None and not other.in_flight:
                    del self._known[other.id]
                    break
        return session

    def _verify(self, id: str, binding: bytes) -> str | None:
        try:
            raw = urlsafe_b64decode(id + "=" * (-len(id) % 4))
        except (ValueError, Base64Error):
            return None
        payload, mac = raw[: 1 + NONCE_BYTES], raw[1 + NONCE_BYTES :]
        if not hmac.compare_digest(mac, self._mac(payload, binding)):
            return None
        return HANDSHAKE_PROTOCOL_VERSIONS[payload[0]]

    def _mac(self, payload: bytes, binding: bytes) -> bytes:
        return hmac.digest(self._secret, CONTEXT + payload + binding, "sha256")[:MAC_BYTES]

"""Where requests come in: whose they are, whether they may, and what they weigh."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from starlette.types import Message, Receive, Scope, Send

from hub.auth.principal import Principal
from hub.auth.tokens import PREFIX, Tokens
from hub.errors import TokenMissing, Unauthenticated

if TYPE_CHECKING:
    from hub.auth.issuer import Issuer  # its libraries take a while, and most hubs have none

LOOK_SECONDS: Final = 1.0
"""How long a revoked token may still be taken, and how long a hub that asked for none goes on."""
BEARER: Final = b"bearer "
_OWN: Final = PREFIX.encode()


class Gate:
    """Knows the bearer of every token, those of the hub and those of ``issuer``."""

    def __init__(
        self,
        tokens: Tokens,
        issuer: Issuer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = tokens
        self.issuer = issuer
        self._clock = clock

    @property
    def open(self) -> bool:
        """Whether nobody is asked for a token."""
        return self.issuer is None and not self._tokens.configured

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Tokens that come and go are noticed while the body runs."""

        async def look() -> None:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                self._tokens.refresh()

        task = asyncio.create_task(look(), name="tokens")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def bearer(self, scope: Scope) -> Principal:
        """Who sends a request, one call taken from what it may make.

        Raises ``Unauthenticated``, ``IssuerUnreachable`` and ``QuotaExceeded``.
        """
        secret = _secret(scope)
        if self.issuer is not None and not secret.startswith(_OWN):
            principal = await self.issuer.find(secret)
        else:
            found = self._tokens.find(secret)
            if found is None:
                raise Unauthenticated(
                    "this token is unknown, revoked or has expired",
                    hint="`envhub token create NAME` on the hub's machine makes one",
                )
            principal = found
        if not principal.reaches(scope["path"]):
            raise Unauthenticated(
                "this token is for another part of this hub", hint="ask the issuer for another"
            )
        principal.quota.call()
        return principal

    def receiving(self, principal: Principal, receive: Receive) -> Receive:
        """``receive`` that ends what is held open once the token does, and weighs what comes."""
        waits = False

        async def receive_while_good() -> Message:
            nonlocal waits
            message = await (self._while_good(principal, receive) if waits else receive())
            waits = True  # whoever asks again has read the body, or reads a long one
            principal.quota.weigh(len(message.get("body", b"")))
            return message

        return receive_while_good

    @staticmethod
    def sending(principal: Principal, send: Send) -> Send:
        """``send`` that weighs what goes."""

        async def send_weighed(message: Message) -> None:
            principal.quota.weigh(len(message.get("body", b"")))
            await send(message)

        return send_weighed

    async def _while_good(self, principal: Principal, receive: Receive) -> Message:
        coming = asyncio.ensure_future(receive())
        ending = asyncio.ensure_future(principal.ended.wait())
        left = None if principal.expires == math.inf else principal.expires - self._clock()
        try:
            await asyncio.wait({coming, ending}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else {"type": "http.disconnect"}
        finally:
            coming.cancel()
            ending.cancel()


def _secret(scope: Scope) -> bytes:
    """What the request shows. Raises ``Unauthenticated``."""
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(shown) == 1 and shown[0][: len(BEARER)].lower() == BEARER:
        secret: bytes = shown[0][len(BEARER) :].strip()
        return secret
    raise TokenMissing(
        "this hub asks for a token",
        hint="send the header `Authorization: Bearer TOKEN`; envhub's commands take ENVHUB_TOKEN",
    )

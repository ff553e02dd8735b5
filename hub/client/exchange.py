"""Asking a hub: what is sent, what an answer means, and when to ask again."""

from __future__ import annotations

import functools
import random
import time
from typing import Any, TypeVar, cast

import httpx2
import msgspec

from hub.client.asks import Ask
from hub.client.errors import HubError, HubUnreachable
from hub.wire import ErrorBody, ErrorResponse

Answer = TypeVar("Answer")

AGAIN = frozenset((429, 502, 503, 504))
"""The hub did nothing and says so, or a proxy could not reach it."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.05, 2.0
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Where the hub is, and how patient we are."""

    url: str
    token: str | None = None
    timeout_seconds: float = 60.0
    """For one answer."""
    patience_seconds: float = 60.0
    """For how long a request that may be repeated is; 0 asks once."""

    def __repr__(self) -> str:
        return f"<connection to {self.url}>"  # the token is shown to nobody

    @property
    def headers(self) -> dict[str, str]:
        given = {"accept": "application/json", "content-type": "application/json"}
        return given if self.token is None else {**given, "authorization": f"Bearer {self.token}"}


class Attempts:
    """One request's attempts: ``next_wait_seconds`` after a failed one, or it raises."""

    def __init__(self, ask: Ask[Any], connection: Connection) -> None:
        self._ask = ask
        self._url = connection.url
        self._until = time.monotonic() + connection.patience_seconds
        self._wait_seconds = FIRST_WAIT_SECONDS

    def next_wait_seconds(self, failed: httpx2.TransportError | HubError) -> float:
        """How long to wait before asking again. Raises ``HubError`` where that would be wrong."""
        error = failed if isinstance(failed, HubError) else self._unreachable(failed)
        if isinstance(failed, HubError):
            may = failed.status in AGAIN
        else:
            may = self._ask.safe or isinstance(failed, NEVER_SENT)
        wait_seconds = self._wait_seconds * random.uniform(0.5, 1.0)
        self._wait_seconds = min(2 * self._wait_seconds, LONGEST_WAIT_SECONDS)
        if isinstance(failed, HubError) and failed.status == 429:
            wait_seconds = max(wait_seconds, _seconds(error.details.get("retry_after_seconds")))
        if not may or time.monotonic() + wait_seconds > self._until:
            raise error from None
        return wait_seconds

    def _unreachable(self, failed: httpx2.TransportError) -> HubUnreachable:
        said = str(failed) or type(failed).__name__
        return HubUnreachable(f"{self._ask.method} {self._url}{self._ask.path}: {said}")


def _seconds(asked: object) -> float:
    return float(asked) if isinstance(asked, int | float) else 1.0


def decoded(ask: Ask[Answer], response: httpx2.Response) -> Answer:
    """The answer. Raises ``HubError`` if it is none."""
    raise_for(response)
    answer: Answer = _decoder(cast("Any", ask.answer)).decode(response.content)
    return answer


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def raise_for(response: httpx2.Response) -> None:
    """Raise ``HubError`` unless the hub did what it was asked."""
    if response.is_success:
        return
    try:
        error = msgspec.json.decode(response.content, type=ErrorResponse).error
    except msgspec.MsgspecError:
        error = ErrorBody(
            kind="infrastructure",
            code="NOT_A_HUB",
            message=f"{response.request.url} answered {response.status_code}",
            hint="is this the address of a hub, or of a proxy that does not know it?",
        )
    raise HubError(error, response.status_code)

"""What a client may be told instead of an answer."""

from __future__ import annotations

from typing import Any

from environments.errors import FaultKind
from hub.wire import ErrorBody


class HubError(Exception):
    """The hub refused, or failed. ``kind`` says whose fault it was, ``code`` is stable."""

    def __init__(self, error: ErrorBody, status: int) -> None:
        super().__init__(f"{error.message} ({error.hint})" if error.hint else error.message)
        self.kind: FaultKind = error.kind
        self.code = error.code
        self.message = error.message
        self.hint = error.hint
        self.details: dict[str, Any] = error.details
        self.status = status
        """The HTTP status; 0 where there was no answer."""


class HubUnreachable(HubError):
    """No answer came, however often it was asked."""

    def __init__(self, message: str) -> None:
        super().__init__(
            ErrorBody(
                kind="infrastructure",
                code="HUB_UNREACHABLE",
                message=message,
                hint="is the hub running? `envhub serve` starts one",
            ),
            status=0,
        )

"""What a client may be told instead of an answer."""

from __future__ import annotations

from environments.errors import EnvhubError
from hub.wire import ErrorBody


class HubError(EnvhubError):
    """The hub refused, or failed; ``kind``, ``code`` and ``hint`` are the hub's."""

    code = "HUB_ERROR"

    def __init__(self, error: ErrorBody, status: int) -> None:
        super().__init__(error.message, hint=error.hint, **error.details)
        self.kind = error.kind
        self.code = error.code
        self.status = status
        """The HTTP status; 0 where there was no answer."""


class HubUnreachable(HubError):
    """No answer came from a hub, however often it was asked."""

    code = "HUB_UNREACHABLE"

    def __init__(self, message: str) -> None:
        super().__init__(
            ErrorBody(
                kind="infrastructure",
                code=self.code,
                message=message,
                hint="the certificate's authority must be trusted: SSL_CERT_FILE names its PEM file"
                if "CERTIFICATE_VERIFY_FAILED" in message
                else "is the hub running? `envhub serve` starts one",
            ),
            status=0,
        )

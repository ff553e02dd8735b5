"""The hub's own errors, and the one table that turns every error into an HTTP answer.

Whose fault it was travels as ``kind``; a client never sees a traceback.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
import secrets
from collections.abc import Reversible
from pathlib import Path
from typing import Any

import msgspec

from environments.errors import (
    AgentError,
    CallKeyReused,
    EnvhubError,
    EnvironmentChanged,
    EpisodeClosed,
    HorizonReached,
    InfrastructureFault,
    InvalidArguments,
    UnknownEnvironment,
    UnknownMark,
    UnknownTask,
    UnknownTool,
)
from environments.sampling import NothingToSample
from hub.wire import ErrorBody
from snapshots.errors import SnapshotsError

SEARCHED_FOR_MATCHES = 500


class UnknownEpisode(AgentError):
    """No episode has this id, and none had."""

    code = "UNKNOWN_EPISODE"


class EpisodeGone(AgentError):
    """The episode was closed and nothing of it was kept."""

    code = "EPISODE_GONE"


class KeyReused(AgentError):
    """An idempotency key came again with another request."""

    code = "KEY_REUSED"


class UnknownGroup(AgentError):
    code = "UNKNOWN_GROUP"


class UnknownSchedule(AgentError):
    code = "UNKNOWN_SCHEDULE"


class UnknownSampler(AgentError):
    code = "UNKNOWN_SAMPLER"


class TooManyKept(AgentError):
    """A tenant keeps as many horizon schedules, or as many task samplers, as it may."""

    code = "TOO_MANY_KEPT"


class MalformedBody(AgentError):
    """The body is not JSON; the message names the byte."""

    code = "MALFORMED_JSON"


class InvalidRequest(AgentError):
    """The body or the query does not fit the route; the message names the field."""

    code = "INVALID_REQUEST"


class BodyTooLarge(AgentError):
    code = "BODY_TOO_LARGE"


class UnknownRoute(AgentError):
    code = "UNKNOWN_ROUTE"


class MethodNotAllowed(AgentError):
    code = "METHOD_NOT_ALLOWED"


class NestedTooDeeply(MalformedBody):
    """The body's arrays and objects stand too deep in one another."""

    code = "NESTED_TOO_DEEPLY"


class MalformedRequest(AgentError):
    """What came over the connection is not HTTP, or names its host twice."""

    code = "MALFORMED_HTTP"


class UrlTooLong(AgentError):
    code = "URL_TOO_LONG"


class HeadTooLarge(AgentError):
    """The request has too many headers, or they are too large."""

    code = "HEAD_TOO_LARGE"


class RequestTimedOut(AgentError):
    """The request's head and body did not arrive in time."""

    code = "REQUEST_TIMED_OUT"


class ForeignHost(AgentError):
    """The request's ``Host`` is not one this hub answers to."""

    code = "FOREIGN_HOST"


class ForeignOrigin(AgentError):
    """The request comes from a page of a host this hub does not answer to."""

    code = "FOREIGN_ORIGIN"


class TooManyUnanswered(AgentError):
    """More requests of one connection wait for their answers than it may have at work."""

    code = "TOO_MANY_UNANSWERED"


class AtCapacity(InfrastructureFault):
    """The hub holds as many episodes as it may. ``details.retry_after_seconds`` is a good guess."""

    code = "AT_CAPACITY"


class TooManyConnections(InfrastructureFault):
    """The hub has as many connections as it takes, over all or from one address."""

    code = "TOO_MANY_CONNECTIONS"


class QuotaExceeded(AtCapacity):
    """A token has used up what it may take; ``details.limit`` names the limit."""

    code = "QUOTA_EXCEEDED"


class Unauthenticated(AgentError):
    """The request shows no token, or none that is good here."""

    code = "UNAUTHENTICATED"


class TokenMissing(Unauthenticated):
    code = "TOKEN_MISSING"


class ScopeMissing(AgentError):
    """The token may not do this; ``details.scope`` is what it lacks."""

    code = "SCOPE_MISSING"


class UnknownToken(AgentError):
    code = "UNKNOWN_TOKEN"


class TokenExists(AgentError):
    code = "TOKEN_EXISTS"


class TokenInvalid(AgentError):
    """A token cannot be made like this."""

    code = "TOKEN_INVALID"


class IssuerUnreachable(InfrastructureFault):
    """The issuer of access tokens does not answer, so that none can be checked."""

    code = "ISSUER_UNREACHABLE"


class HubExposed(InfrastructureFault):
    """Others could reach the hub, and nobody would be asked for a token."""

    code = "HUB_EXPOSED"


class AddressInUse(InfrastructureFault):
    """The hub cannot listen where it was told to."""

    code = "ADDRESS_IN_USE"


class TlsUnusable(InfrastructureFault):
    """The hub cannot speak TLS with the certificate and the key it was given."""

    code = "TLS_UNUSABLE"


class SandboxIncomplete(InfrastructureFault):
    """Workers would run without a layer of their confinement, and the hub was told not to."""

    code = "SANDBOX_INCOMPLETE"


class LedgerFailed(InfrastructureFault):
    """A record could not be made durable; what it would have recorded did not happen."""

    code = "LEDGER_FAILED"


class LedgerDamaged(InfrastructureFault):
    """A stored record cannot be read."""

    code = "LEDGER_DAMAGED"


class DataDirUnusable(InfrastructureFault):
    """The data directory cannot be made, read or written."""

    code = "DATA_DIR_UNUSABLE"


class DataDirLocked(InfrastructureFault):
    """Another hub works on this data directory."""

    code = "DATA_DIR_LOCKED"


STATUS: dict[type[Exception], int] = {
    MalformedBody: 400,
    Unauthenticated: 401,
    ScopeMissing: 403,
    ForeignOrigin: 403,
    UnknownEpisode: 404,
    UnknownGroup: 404,
    UnknownSchedule: 404,
    UnknownSampler: 404,
    UnknownEnvironment: 404,
    UnknownTask: 404,
    UnknownTool: 404,
    UnknownMark: 404,
    UnknownRoute: 404,
    MethodNotAllowed: 405,
    HorizonReached: 409,
    EpisodeClosed: 409,
    CallKeyReused: 409,
    KeyReused: 409,
    TooManyKept: 409,
    EnvironmentChanged: 409,
    RequestTimedOut: 408,
    EpisodeGone: 410,
    BodyTooLarge: 413,
    UrlTooLong: 414,
    ForeignHost: 421,
    InvalidRequest: 422,
    InvalidArguments: 422,
    NothingToSample: 422,
    HeadTooLarge: 431,
    AtCapacity: 429,
    TooManyUnanswered: 429,
    AgentError: 400,
    InfrastructureFault: 503,
    EnvhubError: 500,
}
"""The status of an error is that of its nearest ancestor in this table."""


def status_of(error: Exception) -> int:
    """The HTTP status an error is answered with."""
    for ancestor in type(error).__mro__:
        if ancestor in STATUS:
            return STATUS[ancestor]
    return 500


def body_of(error: Exception) -> ErrorBody:
    """What a client is told: never a traceback, never where something lies on this machine.

    An error that is none of ours says no more than its code and a new ``details.error_id``, by
    which whoever logs it lets the operator find it.
    """
    if isinstance(error, AgentError):
        message, hint = error.message, error.hint
    elif isinstance(error, EnvhubError):
        message, hint = without_paths(error.message), without_paths(error.hint)
    elif isinstance(error, SnapshotsError):
        return ErrorBody(
            kind="infrastructure", code="SNAPSHOT_FAULT", message=without_paths(str(error))
        )
    else:
        return ErrorBody(
            kind="infrastructure",
            code="INTERNAL_ERROR",
            message="the hub failed to answer",
            hint="the hub's log has more under this error_id",
            details={"error_id": f"err-{secrets.token_hex(6)}"},
        )
    return ErrorBody(
        kind=error.kind,
        code=error.code,
        message=message,
        hint=hint,
        details={key: plain(value) for key, value in error.details.items()},
    )


@functools.cache
def _paths() -> re.Pattern[str]:
    """Absolute paths that begin as one of this machine does."""
    roots = "|".join(re.escape(entry.name) for entry in Path("/").iterdir())
    return re.compile(rf"(?<![\w/.:-])/(?:{roots})(?:/[^\s/:'\"()<>,;]*)+")


def without_paths(text: str) -> str:
    """``text`` with every path of this machine cut down to its last name."""
    return _paths().sub(lambda found: found[0].rstrip("/").rpartition("/")[2], text)


def plain(value: object) -> Any:
    """A JSON value for a detail of any type."""
    return msgspec.to_builtins(value, builtin_types=(), enc_hook=str, str_keys=True)


def unknown_episode(episode_id: str, known: Reversible[str] = ()) -> UnknownEpisode:
    """The answer to an id that names none, with what it may have been meant for of ``known``."""
    # a typo in a random id is rare: searching the newest few keeps a flood of them cheap
    recent = list(itertools.islice(reversed(known), SEARCHED_FOR_MATCHES))
    close = difflib.get_close_matches(episode_id, recent, n=3, cutoff=0.8)
    hint = f"did you mean {', '.join(close)}?" if close else "GET /v1/episodes lists them"
    return UnknownEpisode(f"there is no episode {episode_id!r}", hint=hint)

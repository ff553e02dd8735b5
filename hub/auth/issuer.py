"""Access tokens that somebody else issued: JWTs of one OAuth 2.1 authorization server.

Keys come from the issuer and are kept; a key id nobody knows is asked for once in a while, not for
each request that names it. An issuer that does not answer is a fault of ours, not of the token.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx2
import jwt
import msgspec

from hub.auth.principal import SCOPES, Principal, TokenScope, is_name
from hub.auth.quota import Quota
from hub.auth.resource import Resource
from hub.auth.tokens import digest_of
from hub.errors import IssuerUnreachable, Unauthenticated
from hub.telemetry import logger

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Asymmetric ones: whoever can check a token cannot make one."""
LEEWAY_SECONDS: Final = 30
LATEST: Final = 1 << 53
"""What expires later does so then: beyond it a clock of ours cannot tell the seconds apart."""
KEYS_FRESH_SECONDS: Final = 600.0
"""How long keys are used before they are asked for again."""
ASK_AGAIN_SECONDS: Final = 15.0
"""An issuer is not asked more often, whatever is shown to the hub."""
BELIEVED_SECONDS: Final = 60.0
"""How long a token that was checked is not checked again."""
REMEMBERED: Final = 10_000
TIMEOUT_SECONDS: Final = 5.0
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_TOKEN_BYTES: Final = 16_384

log = logger("hub.auth")
Answer = TypeVar("Answer")


class Issuer:
    """Checks tokens of one issuer. ``clock`` is in seconds since 1970."""

    def __init__(
        self,
        resource: Resource,
        *,
        clock: Callable[[], float] = time.time,
        http: Callable[[], httpx2.AsyncClient] = lambda: httpx2.AsyncClient(
            timeout=TIMEOUT_SECONDS
        ),
    ) -> None:
        self.resource = resource
        self._clock = clock
        self._believed: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._quotas: OrderedDict[str, Quota] = OrderedDict()
        self._keys = _Keys(resource, clock, http)

    async def find(self, token: bytes) -> Principal:
        """Who a token says its bearer is. Raises ``Unauthenticated`` and ``IssuerUnreachable``."""
        if len(token) > MAX_TOKEN_BYTES:
            raise _refused("it is too long")
        digest = digest_of(token)
        known = self._believed.get(digest)
        now = self._clock()
        if known is not None and now < known[1]:
            return known[0]
        principal = self._principal(await self._claims(token.decode("latin-1")))
        until = min(now + BELIEVED_SECONDS, principal.expires)
        _remember(self._believed, digest, (principal, until))
        return principal

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise _refused("its algorithm is none that is taken here")
            key = await self._keys.find(header.get("kid"), algorithm)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=[_bare(self.resource.issuer), f"{_bare(self.resource.issuer)}/"],
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"], "verify_aud": False},
            )
            return claims
        except jwt.ExpiredSignatureError:
            raise _refused("it has expired") from None
        except jwt.InvalidIssuerError:
            raise _refused("it is from another issuer") from None
        except (jwt.PyJWTError, ValueError, OverflowError) as error:
            raise _refused(f"{type(error).__name__}") from None

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        named = claims.get(self.resource.tenant_claim)
        if not isinstance(named, str) or not is_name(named):
            raise _refused(f"its claim {self.resource.tenant_claim!r} names no tenant")
        # so that nobody's subject can be mistaken for the owner, or for the tenant of a token here
        tenant = f"oauth:{named}"
        subject = claims.get("sub")
        quota = self._quotas.get(tenant) or Quota(self.resource.limits)
        _remember(self._quotas, tenant, quota)
        return Principal(
            subject if isinstance(subject, str) and is_name(subject) else named,
            tenant,
            _scopes(claims),
            quota=quota,
            expires=min(int(claims["exp"]), LATEST) + LEEWAY_SECONDS,
            paths=self._paths(claims["aud"]),
        )

    def _paths(self, audience: Any) -> tuple[str, ...]:
        named = _words(audience, str)
        paths = []
        for own in self.resource.audiences:
            base = own.rstrip("/")
            for each in named:
                if each.rstrip("/") == base:
                    return ("",)
                if each.startswith(f"{base}/"):
                    paths.append(each.removeprefix(base))
        if not paths:
            raise _refused("it is for another audience")
        return tuple(paths)


class _Keys:
    """The issuer's keys, asked for when they are old or when one is not among them."""

    def __init__(
        self,
        resource: Resource,
        clock: Callable[[], float],
        http: Callable[[], httpx2.AsyncClient],
    ) -> None:
        self._resource = resource
        self._clock = clock
        self._http = http
        self._keys: dict[str | None, dict[str, Any]] = {}
        self._asked = self._answered = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """The key with that id, the only one where there is no id.

        Raises ``Unauthenticated`` where there is none, ``IssuerUnreachable``, and
        ``jwt.PyJWTError`` where it is not for that algorithm.
        """
        if not self._knows(kid):
            async with self._lock:  # one asks, the others wait for what it hears
                if not self._knows(kid):
                    await self._ask()
        elif self._clock() - self._answered > KEYS_FRESH_SECONDS and not self._lock.locked():
            self._asking = asyncio.create_task(self._freshen())  # nobody waits for that
        found = self._keys.get(kid)
        if found is None and kid is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            raise _refused("its key is none of the issuer's")
        if found.get("use", "sig") != "sig" or found.get("alg", algorithm) != algorithm:
            raise _refused("its key is for something else")
        return jwt.PyJWK(found, algorithm=algorithm)

    def _knows(self, kid: str | None) -> bool:
        return kid in self._keys or (kid is None and len(self._keys) == 1)

    async def _freshen(self) -> None:
        async with self._lock:
            with suppress(IssuerUnreachable):  # the old ones are good until it answers
                await self._ask()

    async def _ask(self) -> None:
        """Ask the issuer, unless that was lately. Raises ``IssuerUnreachable``."""
        now = self._clock()
        if now - self._asked < ASK_AGAIN_SECONDS:
            if self._asked > self._answered:
                raise _unreachable(self._resource.issuer)
            return
        self._asked = now
        try:
            async with self._http() as http:
                where = self._resource.jwks_url or await self._discover(http)
                answer = await _json(http, where, _JwkSet)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, msgspec.MsgspecError) as error:
            log.warning("issuer unreachable", issuer=self._resource.issuer, error=repr(error))
            raise _unreachable(self._resource.issuer) from None
        self._keys = {key.get("kid"): key for key in answer.keys}
        self._answered = now

    async def _discover(self, http: httpx2.AsyncClient) -> str:
        """Where the keys are, by RFC 8414 or by OpenID."""
        issuer = self._resource.issuer
        parts = urlsplit(issuer)
        path = parts.path.rstrip("/")
        places = (
            urlunsplit(parts._replace(path=f"/.well-known/oauth-authorization-server{path}")),
            f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        )
        failed: Exception = ValueError("no metadata")
        for place in places:
            try:
                metadata = await _json(http, place, _Metadata)
            except (httpx2.HTTPStatusError, msgspec.MsgspecError) as error:
                failed = error
                continue
            if _bare(metadata.issuer) != _bare(issuer):
                raise ValueError(f"{place} is the metadata of {metadata.issuer!r}")
            return metadata.jwks_uri
        raise failed


class _Metadata(msgspec.Struct, frozen=True):
    issuer: str
    jwks_uri: str


class _JwkSet(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


async def _json(http: httpx2.AsyncClient, url: str, kind: type[Answer]) -> Answer:
    async with http.stream("GET", url) as response:
        response.raise_for_status()
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"{url} answers more than {MAX_ANSWER_BYTES} bytes")
    return msgspec.json.decode(body, type=kind)


def _scopes(claims: Mapping[str, Any]) -> list[TokenScope]:
    words = _words(claims.get("scope", claims.get("scp")), str.split)
    return [scope for scope in SCOPES if scope in words]


def _words(claim: Any, parse: Callable[[str], str | list[str]]) -> list[str]:
    """A claim that is one text or a list of them."""
    if isinstance(claim, str):
        parsed = parse(claim)
        return [parsed] if isinstance(parsed, str) else parsed
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, list) else []


def _remember(kept: OrderedDict[Any, Any], key: object, value: object) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)


def _bare(url: str) -> str:
    return url.rstrip("/")  # some issuers have a slash there, and some who name them do not


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the token is not taken: {why}", hint="ask the issuer for another")


def _unreachable(issuer: str) -> IssuerUnreachable:
    return IssuerUnreachable(
        f"the keys of {issuer} cannot be had, so no token of its can be checked",
        hint="is ENVHUB_OAUTH_ISSUER right, and can the hub reach it?",
    )

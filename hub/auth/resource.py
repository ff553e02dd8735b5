"""What this hub is to whoever issues access tokens for it (RFC 9728)."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from hub.auth.principal import SCOPES
from hub.auth.quota import NO_LIMITS, Limits
from hub.settings import Settings, SettingsInvalid

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A protected resource, and everything below it."""

    issuer: str
    url: str
    """Where clients reach the hub, without a slash at the end."""
    audiences: tuple[str, ...]
    """Names of this hub; an URL below one of them is that part of it."""
    tenant_claim: str
    jwks_url: str
    """Empty: where the issuer's metadata says."""
    limits: Limits = NO_LIMITS
    """Of each tenant."""

    @classmethod
    def of(cls, settings: Settings) -> Resource | None:
        """``None`` where no issuer is set. Raises ``SettingsInvalid``."""
        if not settings.oauth_issuer:
            return None
        url = settings.public_url.rstrip("/")
        if urlsplit(url).scheme not in ("http", "https"):
            raise SettingsInvalid(
                "ENVHUB_OAUTH_ISSUER needs ENVHUB_PUBLIC_URL: the address clients reach this hub at"
            )
        return cls(
            issuer=settings.oauth_issuer,
            url=url,
            audiences=settings.oauth_audience or (url,),
            tenant_claim=settings.oauth_tenant_claim,
            jwks_url=settings.oauth_jwks_url,
            limits=limits_of(settings),
        )

    def metadata(self, below: str) -> dict[str, Any]:
        """What a client is told of the resource whose path was put behind ``WELL_KNOWN``."""
        path = below.removeprefix(urlsplit(self.url).path)
        return {
            "resource": self.url + path,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "envhub",
        }

    def metadata_url(self, path: str) -> str:
        """Where that is, for a path of the hub."""
        parts = urlsplit(self.url)
        return parts._replace(path=f"{WELL_KNOWN}{parts.path}{quote(path)}").geturl()


def limits_of(settings: Settings) -> Limits:
    """What a token may take that says nothing else."""
    return Limits(
        episodes=settings.token_episodes,
        calls_per_second=settings.token_calls_per_second,
        bytes_per_day=settings.token_bytes_per_day,
    )

"""Who sends a request: attached once at the edge, and passed down from there."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import Any, Final, Literal, get_args

import msgspec

from environments.errors import EnvhubError
from hub.auth.quota import Quota
from hub.errors import ScopeMissing

TokenScope = Literal["play", "rollout", "train", "admin"]
"""``play``: MCP at environments and at own episodes. ``rollout``: episodes and groups over REST.
``train``: what training reads and decides. ``admin``: everything, of every tenant."""
Demand = Literal["public", "any", TokenScope]
"""What a route asks for. ``public``: nothing; ``any``: a good token, whatever its scopes."""
SCOPES: Final[tuple[TokenScope, ...]] = get_args(TokenScope)

LOCAL_TENANT: Final = "local"
"""Whose everything is while nobody need show a token."""
NOBODYS: Final = " "
"""A tenant that nobody can be of: it has a blank for a name."""
KEY: Final = "envhub.principal"


class Principal:
    """A name, whose things it sees, and what it may do. It holds no secret."""

    __slots__ = (
        "binding",
        "ended",
        "expires",
        "name",
        "paths",
        "quota",
        "scopes",
        "sees_all",
        "tenant",
    )

    def __init__(
        self,
        name: str,
        tenant: str,
        scopes: Collection[TokenScope],
        *,
        quota: Quota | None = None,
        expires: float = math.inf,
        paths: tuple[str, ...] = ("",),
    ) -> None:
        self.name = name
        self.tenant = tenant
        self.sees_all = "admin" in scopes
        self.scopes: frozenset[Demand] = frozenset(
            ("public", "any", *(SCOPES if self.sees_all else scopes))
        )
        self.binding = tenant.encode()
        """What an MCP session is bound to beside its URL."""
        self.quota = quota or Quota()
        self.expires = expires
        """In seconds since 1970."""
        self.paths = paths
        """Where on this hub it is good, and below."""
        self.ended = asyncio.Event()
        """Set once it is revoked: what it holds open is closed."""

    def sees(self, tenant: str) -> bool:
        """Whether what is of this tenant is there for it."""
        return self.sees_all or tenant == self.tenant

    def require(self, scope: Demand) -> None:
        """Raise ``ScopeMissing`` unless it has this one."""
        if scope not in self.scopes:
            raise ScopeMissing(
                f"this needs a token with the scope {scope}",
                hint=f"`envhub token create NAME --scopes {scope}` makes one",
                scope=scope,
            )

    def reaches(self, path: str) -> bool:
        """Whether it is good at this path."""
        return any(
            not own or path == own or path.startswith(own.rstrip("/") + "/") for own in self.paths
        )

    def __repr__(self) -> str:
        return f"<{self.name} of {self.tenant}: {', '.join(sorted(self.scopes))}>"


LOCAL: Final = Principal("local", LOCAL_TENANT, SCOPES)
"""The owner of a hub that asks for no tokens."""


class Nobody(Principal):
    """Whoever showed no good token; ``because`` is what is raised where one is needed."""

    __slots__ = ("_because",)

    def __init__(self, because: EnvhubError) -> None:
        super().__init__("nobody", NOBODYS, ())
        self._because = because

    def require(self, scope: Demand) -> None:
        if scope != "public":
            raise self._because


class Access(msgspec.Struct, frozen=True, array_like=True):
    """One way in, and what it asks for."""

    method: str
    path: str
    scope: Demand


def principal_of(scope: Any) -> Principal:
    """Who sends the request of this ASGI scope. An edge that attached nobody is a bug."""
    principal: Principal = scope[KEY]
    return principal


def admitted(scope: Any, demand: Demand, count: Callable[[str, str], None]) -> Principal:
    """Who sends the request of this ASGI scope. Raises what ``require`` does; ``count`` is told the
    kind and the code of that."""
    principal = principal_of(scope)
    try:
        principal.require(demand)
    except EnvhubError as error:
        count(error.kind, error.code)
        raise
    return principal


def is_name(text: str, longest: int = 200) -> bool:
    """Whether a tenant may be called so: something that prints, without blanks."""
    return 0 < len(text) <= longest and text.isprintable() and " " not in text

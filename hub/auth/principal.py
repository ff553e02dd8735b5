"""Who sends a request: attached once at the edge, and passed down from there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, get_args

TokenScope = Literal["play", "rollout", "train", "admin"]
"""``play``: MCP at environments and at own episodes. ``rollout``: episodes and groups over REST.
``train``: what training reads and decides. ``admin``: everything, of every tenant."""
Scope = TokenScope | Literal["any"]
"""What a route asks for; ``any``: whatever a principal may do, it may do this."""
SCOPES: Final[tuple[TokenScope, ...]] = get_args(TokenScope)

LOCAL_TENANT: Final = "local"
"""Whose everything is while nobody need show a token."""
KEY: Final = "envhub.principal"


class Principal:
    """A name, whose things it sees, and what it may do. It holds no secret."""

    __slots__ = ("binding", "name", "scopes", "sees_all", "tenant")

    def __init__(self, name: str, tenant: str, scopes: Collection[TokenScope]) -> None:
        self.name = name
        self.tenant = tenant
        self.sees_all = "admin" in scopes
        self.scopes: frozenset[Scope] = frozenset(
            ("any", *SCOPES) if self.sees_all else ("any", *scopes)
        )
        self.binding = tenant.encode()
        """What an MCP session is bound to beside its URL."""

    def sees(self, tenant: str) -> bool:
        """Whether what is of this tenant is there for it."""
        return self.sees_all or tenant == self.tenant

    def __repr__(self) -> str:
        return f"<{self.name} of {self.tenant}: {', '.join(sorted(self.scopes))}>"


LOCAL: Final = Principal("local", LOCAL_TENANT, SCOPES)
"""The owner of a hub that asks for no tokens."""


def principal_of(scope: Any) -> Principal:
    """Who sends the request of this ASGI scope. An edge that attached nobody is a bug."""
    principal: Principal = scope[KEY]
    return principal

"""Ids of episodes and groups."""

from __future__ import annotations

import hashlib
import secrets


def new_id(prefix: str, key: str | tuple[str, int] | None = None, tenant: str = "") -> str:
    """A random id; with a key always the same one for a tenant. A text, which clients choose, never
    gives the id of a text with a number."""
    if key is None:
        return f"{prefix}-{secrets.token_hex(10)}"
    named = repr((prefix, tenant, key)).encode()  # no two of these read alike
    return f"{prefix}-{hashlib.sha256(named).hexdigest()[:20]}"

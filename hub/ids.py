"""Ids of episodes and groups."""

from __future__ import annotations

import hashlib
import secrets


def new_id(prefix: str, key: str | None = None) -> str:
    """A random id; with a key always the same one, as hard to guess as the key is."""
    if key is None:
        return f"{prefix}-{secrets.token_hex(10)}"
    return f"{prefix}-{hashlib.sha256(f'{prefix}/{key}'.encode()).hexdigest()[:20]}"

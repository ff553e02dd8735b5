"""Names of classes and functions as names that packs and tools may have."""

from __future__ import annotations

import re

from environments.names import shortened


def pack_name(text: str) -> str:
    """``CryptoPrice`` is ``crypto-price``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", text)
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return shortened(name if name[:1].isalpha() else f"env-{name}".strip("-"))


def tool_name(text: str) -> str:
    """The name as it is, if clients take it."""
    return shortened(re.sub(r"[^A-Za-z0-9_-]", "_", text), text)

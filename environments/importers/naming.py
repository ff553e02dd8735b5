"""Names of classes and files as names that packs may have."""

from __future__ import annotations

import re

from environments.names import shortened


def pack_name(text: str) -> str:
    """``CryptoPrice`` is ``crypto-price``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", text)
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return shortened(name if name[:1].isalpha() else f"env-{name}".strip("-"))

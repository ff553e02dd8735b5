"""How deep JSON is nested, told from its bytes: before any decoder recurses into it."""

from __future__ import annotations

import itertools
import re
from typing import Final

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A string, or the rest of the body where it does not end: so it never looks back."""
_OPENING, _CLOSING = b"[{", b"]}"
_OTHER: Final = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)
_STEP: Final = bytes(1 if byte in _OPENING else 0xFF for byte in range(256))


def nested_beyond(body: bytes, levels: int) -> bool:
    """Whether arrays and objects stand in one another more than ``levels`` deep.

    Of what is no JSON it tells something, in time that grows with the body's length alone.
    """
    if body.count(b"[") + body.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", body).translate(_STEP, _OTHER)
    return max(itertools.accumulate(memoryview(brackets).cast("b")), default=0) > levels

"""JSON that decodes, but that no record can hold and few clients can read."""

from __future__ import annotations

import itertools
import re
from typing import Final

import msgspec
import orjson

MAX_DEPTH: Final = 200
_DEEPEST: Final = 254  # orjson's own limit
_LONG_NUMBER: Final = b"0" * 19
_DIGITS: Final = bytes(ord("0") if chr(byte) in "0123456789" else byte % 32 for byte in range(256))
"""Turns every digit into 0, and everything else into what is none."""
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A string, or the rest of the body where it does not end: so it never looks back."""
_OPENING, _CLOSING = b"[{", b"]}"
_OTHER: Final = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)
_STEP: Final = bytes(1 if byte in _OPENING else 0xFF for byte in range(256))


def require_keepable(encoded: bytes) -> None:
    """Refuse valid JSON with numbers beyond 64 bits, or nested beyond ``MAX_DEPTH``.

    Costs a look at the bytes unless there is something suspicious. Raises ``ValueError``.
    """
    containers = encoded.count(b"[") + encoded.count(b"{")
    nested = containers > MAX_DEPTH
    # to decode is slow where there are many of these, to count them where there is much text
    if nested and containers > encoded.count(b'"') + encoded.count(b"\\"):
        if nested_beyond(encoded, MAX_DEPTH):
            raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
        nested = False
    if not nested and _LONG_NUMBER not in encoded.translate(_DIGITS):
        return
    value = msgspec.json.decode(encoded)
    for _ in range(_DEEPEST - MAX_DEPTH):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"{error} (at most 64-bit numbers, {MAX_DEPTH} levels)") from None


def nested_beyond(body: bytes, levels: int) -> bool:
    """Whether arrays and objects stand in one another more than ``levels`` deep, told before any
    decoder recurses into them.

    Of what is no JSON it tells something, in time that grows with the body's length alone.
    """
    if body.count(b"[") + body.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", body).translate(_STEP, _OTHER)
    return max(itertools.accumulate(memoryview(brackets).cast("b")), default=0) > levels

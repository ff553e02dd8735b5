"""JSON that decodes, but that no record can hold and few clients can read."""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

MAX_DEPTH: Final = 200
_DEEPEST: Final = 254  # orjson's own limit
_LONG_NUMBER: Final = b"0" * 19
_DIGITS: Final = bytes(ord("0") if chr(byte) in "0123456789" else byte % 32 for byte in range(256))
"""Turns every digit into 0, and everything else into what is none."""


def require_keepable(encoded: bytes) -> None:
    """Refuse valid JSON with numbers beyond 64 bits, or nested beyond ``MAX_DEPTH``.

    Costs a look at the bytes unless there is something suspicious. Raises ``ValueError``.
    """
    nested = encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH
    if not nested and _LONG_NUMBER not in encoded.translate(_DIGITS):
        return
    value = msgspec.json.decode(encoded)
    for _ in range(_DEEPEST - MAX_DEPTH):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"{error} (at most 64-bit numbers, {MAX_DEPTH} levels)") from None

"""JSON values: when two are equal, and how a person reads one."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any, Final


class _Absent:
    """The value of a column nobody recorded; equal to nothing, not even null."""

    def __repr__(self) -> str:
        return "not recorded"


ABSENT: Final = _Absent()


def equal(value: Any, expected: Any) -> bool:
    """Equality of a cell with a JSON value: numbers by size, not by type; lists in any order;
    lists and objects also with the JSON text of a cell."""
    if is_number(value) and is_number(expected):
        if isinstance(value, float) or isinstance(expected, float):
            return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
        return bool(value == expected)
    if isinstance(expected, (list, dict)):
        return bool(canonical(decoded(value)) == canonical(expected))
    return bool(type(value) is type(expected) and value == expected)


def norm(text: str) -> str:
    """Text without case, with single spaces, in one of Unicode's ways to write it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def canonical(value: Any, *, ordered: bool = False) -> Any:
    """A hashable form in which equal JSON values are equal; lists that differ only in their order
    too, unless ``ordered``."""
    if is_number(value):
        return int(value) if float(value).is_integer() else round(value, 9)
    if isinstance(value, list):
        items = [canonical(item, ordered=ordered) for item in value]
        return ("list", *(items if ordered else sorted(items, key=repr)))
    if isinstance(value, dict):
        pairs = ((key, canonical(item, ordered=ordered)) for key, item in value.items())
        return ("object", *sorted(pairs, key=repr))
    return value


def decoded(value: Any) -> Any:
    """The JSON that a text cell holds (``ABSENT`` if none); any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return ABSENT


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def show(value: Any) -> str:
    """A value as a person reads it; long text is cut."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = repr(value) if isinstance(value, str) or value is ABSENT else str(value)
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1] if text[-1] in chr(39) else ''}"

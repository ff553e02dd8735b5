"""Values of a document as text: JSON, and marked objects for what JSON has no word for.

    {1: "a"}        {"$pairs": [[1, "a"]]}
    ("a", "b")      {"$tuple": ["a", "b"]}
    {"a", "b"}      {"$set": ["a", "b"]}

An object with a key that begins with ``$`` is written as pairs, so no document is mistaken.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

_MARK: Final = "$"


class NotADocument(ValueError):
    """A value that cannot be kept and brought back as it was; names its type."""


def to_text(value: Any) -> str:
    """JSON of a value, from which ``from_text`` makes an equal one of the same types.

    Raises ``NotADocument``.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise NotADocument("a value that contains itself, or is nested too deep") from None
    return text if storable_text(text) else json.dumps(json.loads(text), separators=(",", ":"))


def from_text(text: str) -> Any:
    """The value of a text that ``to_text`` made."""
    return _restored(json.loads(text))


def storable_text(text: str) -> bool:
    """Whether SQLite can hold it: a lone surrogate has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_number(value: float) -> bool:
    """Whether SQLite gives this float back: it has no NaN, no infinity in JSON, no minus nought."""
    return math.isfinite(value) and (value != 0.0 or math.copysign(1.0, value) > 0)


def _plain(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (str, bool, int, float):
        return value
    if kind is list:
        return [_plain(item) for item in value]
    if kind is dict:
        if all(type(key) is str and not key.startswith(_MARK) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"$pairs": [[_plain(key), _plain(item)] for key, item in value.items()]}
    writer = _WRITERS.get(kind)
    if writer is None:
        raise NotADocument(f"a {kind.__name__} has no place in a document")
    return writer(value)


def _restored(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_restored(item) for item in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        (mark, content), *_ = value.items()
        reader = _READERS.get(mark)
        if reader is not None:
            return reader(content)
    return {key: _restored(item) for key, item in value.items()}


def _members(values: Any) -> list[Any]:
    """In an order that does not depend on how the set came to be."""
    return sorted((_plain(value) for value in values), key=json.dumps)


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    tuple: lambda value: {"$tuple": [_plain(item) for item in value]},
    set: lambda value: {"$set": _members(value)},
    frozenset: lambda value: {"$frozenset": _members(value)},
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    datetime: lambda value: {"$datetime": value.isoformat()},
    date: lambda value: {"$date": value.isoformat()},
}
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "$pairs": lambda pairs: {_restored(key): _restored(item) for key, item in pairs},
    "$tuple": lambda items: tuple(_restored(items)),
    "$set": lambda items: set(_restored(items)),
    "$frozenset": lambda items: frozenset(_restored(items)),
    "$bytes": base64.b64decode,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
}

"""What code could tell of values: whether two are the same, and what they share."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any


def alike(one: Any, other: Any, seen: set[tuple[int, int]] | None = None) -> bool:
    """Deeply, without asking the values' own ``__eq__``, which may be lax or missing."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, str | bytes | int | float | type(None)):
        return repr(one) == repr(other)  # 0.0 and -0.0 are two
    seen = seen if seen is not None else set()
    if (id(one), id(other)) in seen:
        return True
    seen.add((id(one), id(other)))
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            alike(key, name, seen) and alike(one[key], other[name], seen)
            for key, name in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(
            alike(a, b, seen) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, random.Random):
        return bool(one.getstate() == other.getstate())
    if "__eq__" not in vars(type(one)) or hasattr(type(one), "model_fields"):
        return hasattr(one, "__dict__") and alike(vars(one), vars(other), seen)
    return bool(one == other)


def shared(value: Any) -> int:
    """How often an object that can be changed is met again within ``value``: what one name changes
    in it another one sees."""
    met: set[int] = set()
    again = 0
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if held is None or isinstance(held, str | bytes | int | float | type | ModuleType):
            continue
        if id(held) in met:
            again += not isinstance(held, tuple | frozenset)
            continue
        met.add(id(held))
        if isinstance(held, dict):
            waiting += held.values()
        elif isinstance(held, list | tuple | set | frozenset):
            waiting += held
        elif hasattr(held, "__dict__") and not callable(held):
            waiting += vars(held).values()
    return again

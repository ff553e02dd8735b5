"""Components of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from environments.trajectory import Component

GATE_WEIGHT: Final = 0.0
"""The weight of a component that earns nothing when it holds and costs all when it does not."""


def component(name: str, reason: str, weight: float) -> Component:
    """Passed if there is no ``reason`` why not."""
    return Component(name=name, passed=not reason, weight=weight, reason=reason)


def listed(items: Sequence[str], separator: str = "; ") -> str:
    """The first five, and how many more there are."""
    more = f"{separator}and {len(items) - 5} more" if len(items) > 5 else ""
    return separator.join(items[:5]) + more

"""Whether texts say the same: by a model's embeddings where there is one, else by their words."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

Vectors = Sequence[Sequence[float]]
Embed = Callable[[Sequence[str]], Awaitable[Vectors]]
T = TypeVar("T")

ALIKE_VECTORS: Final = 0.9
"""The cosine from which two texts say the same."""
ALIKE_WORDS: Final = 0.6
"""The share of common words from which they do."""
_WORD: Final = re.compile(r"[^\W_]{3,}")
_COMMON: Final = frozenset({"and", "for", "from", "its", "that", "the", "their", "who", "with"})


async def alike(texts: Sequence[str], embed: Embed | None = None) -> list[tuple[int, int]]:
    """The texts that say the same as an earlier one, each with the first that it is like."""
    if embed is not None and len(texts) > 1:
        vectors = await embed(texts)
        return _pairs(vectors, cosine, ALIKE_VECTORS)
    return _pairs([_words(text) for text in texts], _shared, ALIKE_WORDS)


def _pairs(
    items: Sequence[T], closeness: Callable[[T, T], float], least: float
) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for index, item in enumerate(items):
        near = (n for n, other in enumerate(items[:index]) if closeness(other, item) >= least)
        if (first := next(near, None)) is not None:
            found.append((index, first))
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _COMMON


def _shared(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right) if left and right else 0.0


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """How alike two vectors are: 1 where they point the same way."""
    lengths = math.hypot(*left) * math.hypot(*right)
    product = sum(one * other for one, other in zip(left, right, strict=True))
    return product / lengths if lengths else 0.0

"""How different environments are once their names are forgotten."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from environments.synthesis.erased import fingerprint
from environments.synthesis.makeup import Makeup

ALIKE: Final = 0.9
"""From this Jaccard similarity of tables and tools on, an environment is a duplicate."""
_WORDS: Final = 3
_DIGITS: Final = 4


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """An environment that is nearly the same as an earlier one."""

    one: str
    other: str
    """The later one."""
    similarity: float
    """From 0 to 1."""


class Diversity(msgspec.Struct, frozen=True, kw_only=True):
    """How different environments are, and the tasks in each."""

    environments: int
    schemas: int
    """Distinct schemas, all names erased."""
    duplicates: tuple[Alike, ...]
    nearest: tuple[float, ...]
    """How similar each environment is to the one it is most like."""
    tasks: int
    same_shape: int
    """Tasks whose oracle has the shape of an earlier one's in its environment."""
    instructions: int
    """Different ones."""
    openings: int
    """Different first words of instructions."""


def diversity(made: Sequence[tuple[str, Makeup]]) -> Diversity:
    """Of environments, each with its name. A duplicate is one that is ``ALIKE`` to any before it,
    and told with the one of those that it is most like."""
    nearest = [0.0] * len(made)
    duplicates = []
    holders: defaultdict[str, list[int]] = defaultdict(list)
    sizes = []
    for late, (name, makeup) in enumerate(made):
        parts = {*makeup.schema, *makeup.signatures}
        sizes.append(len(parts))
        shared = Counter(early for part in parts for early in holders[part])
        closest, first = 0.0, -1
        for early in sorted(shared):
            close = shared[early] / (sizes[early] + len(parts) - shared[early])
            nearest[early] = max(nearest[early], close)
            if close > closest:
                closest, first = close, early
        nearest[late] = closest
        if closest >= ALIKE:
            alike = Alike(one=made[first][0], other=name, similarity=round(closest, _DIGITS))
            duplicates.append(alike)
        for part in parts:
            holders[part].append(late)
    makeups = [makeup for _, makeup in made]
    texts = {text for makeup in makeups for text in makeup.instructions}
    return Diversity(
        environments=len(made),
        schemas=len({fingerprint(makeup.schema) for makeup in makeups}),
        duplicates=tuple(duplicates),
        nearest=tuple(round(one, _DIGITS) for one in nearest) if len(made) > 1 else (),
        tasks=sum(len(makeup.shapes) for makeup in makeups),
        same_shape=sum(len(makeup.shapes) - len({*makeup.shapes}) for makeup in makeups),
        instructions=len(texts),
        openings=len({" ".join(text.split()[:_WORDS]) for text in texts}),
    )

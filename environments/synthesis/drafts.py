"""What a family of tasks has to say before it is one: words, and how hard it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from environments.spec import Difficulty, OracleCall
from environments.synthesis.walk import Walk

LEVELS: Final[tuple[Difficulty, ...]] = ("easy", "medium", "hard", "expert")
INTENTS: Final = ("explicit", "described", "compared")
"""How implicit an instruction is: things by their ids, by a name, or by what they are to others."""
_BOUNDS: Final = (3.0, 5.0, 7.5)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a family of tasks has to say; the calls are in the walk."""

    instruction: str
    implicit: int = 0
    traps: int = 0
    decided: tuple[int, ...] = ()
    """Calls that tell which of two things is to be done."""
    texts: tuple[str, ...] = ()
    gate: dict[str, Any] | None = None
    answer: str | None = None


def difficulty_of(oracle: Sequence[OracleCall], walk: Walk, draft: Draft) -> Difficulty:
    """By writes, lookups, how implicit the rows are, conditions and rules in the way."""
    tools = walk.episode.tools
    reads = sum(tools[call.tool].read_only for call in oracle)
    writes = len(oracle) - reads
    points = writes + 0.5 * reads + draft.implicit + 2 * draft.traps + 2 * bool(draft.decided)
    for level, bound in zip(LEVELS, _BOUNDS, strict=False):
        if points <= bound:
            return level
    return LEVELS[-1]


def slug_of(oracle: Sequence[OracleCall], walk: Walk) -> str:
    """A name for the task: its last call's tool."""
    tools = walk.episode.tools
    writes = [call.tool for call in oracle if not tools[call.tool].read_only]
    return (writes or [oracle[-1].tool])[-1].replace("_", "-")


def tags_of(draft: Draft) -> set[str]:
    tags = {INTENTS[draft.implicit]}
    if draft.gate is not None:
        tags.add("question")
    if draft.traps:
        tags.add("rule-in-the-way")
    if draft.decided:
        tags.add("conditional")
    return tags

"""What a group of episodes teaches: GRPO's advantages, and how often the task was solved."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

EPSILON = 1e-4


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one group. Members without a reward are masked: they count nowhere."""

    scored: int
    mean: float | None
    std: float | None
    """Sample standard deviation (divided by n - 1); 0 for a single reward."""
    advantages: tuple[float | None, ...]
    """``(reward - mean) / (std + 1e-4)`` in the members' order; ``None`` for a masked one."""
    passed: int
    pass_at: dict[int, float]
    """The chance that at least one of k tries passes, for k = 1, 2, 4, … and the number scored."""
    degenerate: bool
    """Whether all rewards are equal, so that the group gives no gradient."""


def lesson_of(rewards: Sequence[float | None], passed: Sequence[bool]) -> Lesson:
    """The figures of members with these rewards; ``passed`` says which solved the task."""
    known = [reward for reward in rewards if reward is not None]
    successes = sum(won for won, reward in zip(passed, rewards, strict=True) if reward is not None)
    if not known:
        return Lesson(
            scored=0,
            mean=None,
            std=None,
            advantages=(None,) * len(rewards),
            passed=0,
            pass_at={},
            degenerate=True,
        )
    count = len(known)
    mean = math.fsum(known) / count
    equal = min(known) == max(known)
    squares = math.fsum((reward - mean) ** 2 for reward in known)
    std = 0.0 if equal else math.sqrt(squares / (count - 1))
    return Lesson(
        scored=count,
        mean=mean,
        std=std,
        advantages=tuple(
            None if reward is None else 0.0 if equal else (reward - mean) / (std + EPSILON)
            for reward in rewards
        ),
        passed=successes,
        pass_at={k: pass_at(k, count, successes) for k in powers_of_two(count)},
        degenerate=equal,
    )


def pass_at(k: int, tries: int, successes: int) -> float:
    """The unbiased estimate that one of ``k`` tries passes, from ``tries`` of which some did."""
    return 1.0 - math.comb(tries - successes, k) / math.comb(tries, k)


def powers_of_two(count: int) -> list[int]:
    powers = [2**power for power in range(count.bit_length()) if 2**power <= count]
    return powers if powers[-1] == count else [*powers, count]

"""Rewards from components: pure arithmetic, the same wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from environments.assertions import GATE_WEIGHT
from environments.errors import EnvhubError
from environments.trajectory import Component, Outcome, Reward

RewardMode = Literal["binary", "fraction"]


def reward_of(components: Sequence[Component], mode: RewardMode = "binary") -> Reward:
    """The reward the components earn.

    ``binary``: 1 if every component holds, else 0. ``fraction``: the weighted share of those that
    hold, 0 if a gate (weight 0: the frame, a forbidden change) is broken.
    """
    failed = [component for component in components if not component.passed]
    total = sum(component.weight for component in components)
    if not failed:
        value = 1.0
    elif mode == "binary" or any(component.weight == GATE_WEIGHT for component in failed):
        value = 0.0
    else:
        value = 1.0 - sum(component.weight for component in failed) / total
    outcome: Outcome = "complete" if value == 1.0 else "partial" if value > 0.0 else "none"
    return Reward(
        value=value,
        outcome=outcome,
        mode=mode,
        components=tuple(components),
        reason="; ".join(f"{component.name}: {component.reason}" for component in failed),
    )


def unset(error: EnvhubError, mode: RewardMode = "binary") -> Reward:
    """The reward of a run nobody could judge: no number, and whose fault that was."""
    return Reward(
        value=None,
        outcome="unset",
        mode=mode,
        reason=f"not scored: {error}",
        failure_kind=error.kind,
    )

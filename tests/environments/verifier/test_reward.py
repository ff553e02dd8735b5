"""From components to rewards."""

from __future__ import annotations

import pytest

from environments.assertions import GATE_WEIGHT
from environments.errors import PackInvalid, WorkerLost
from environments.trajectory import Component
from environments.verifier import RewardMode, reward_of, unset


def component(name: str, passed: bool, weight: float = 1.0) -> Component:
    return Component(name=name, passed=passed, weight=weight, reason="" if passed else f"no {name}")


@pytest.mark.parametrize(
    ("passed", "mode", "value", "outcome"),
    [
        ((True, True, True), "binary", 1.0, "complete"),
        ((True, True, True), "fraction", 1.0, "complete"),
        ((True, False, True), "binary", 0.0, "none"),
        ((True, False, True), "fraction", 0.25, "partial"),
        ((False, True, True), "fraction", 0.75, "partial"),
        ((False, False, True), "fraction", 0.0, "none"),
        ((True, True, False), "binary", 0.0, "none"),
        ((True, True, False), "fraction", 0.0, "none"),
    ],
)
def test_weights_earn_and_gates_cost(
    passed: tuple[bool, bool, bool], mode: RewardMode, value: float, outcome: str
) -> None:
    light, heavy, frame = passed
    parts = [
        component("light", light, 1.0),
        component("heavy", heavy, 3.0),
        component("frame", frame, GATE_WEIGHT),
    ]
    reward = reward_of(parts, mode)
    assert (reward.value, reward.outcome, reward.mode) == (value, outcome, mode)
    assert reward.components == tuple(parts)
    assert reward.reason == "; ".join(f"{p.name}: {p.reason}" for p in parts if not p.passed)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PackInvalid("the verifier does not parse"), "environment"),
        (WorkerLost("killed from outside"), "infrastructure"),
    ],
)
def test_what_nobody_could_score_has_no_value(error: PackInvalid | WorkerLost, kind: str) -> None:
    reward = unset(error, "fraction")
    assert (reward.value, reward.outcome, reward.failure_kind) == (None, "unset", kind)
    assert reward.reason == f"not scored: {error.message}"

"""From components to rewards."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import fields

from environments.assertions import GATE_WEIGHT
from environments.errors import PackInvalid, WorkerLost
from environments.spec import CodeKind, CodeVerifier, OracleCall, Task
from environments.trajectory import Component, Step, StepError, Term
from environments.verifier import (
    FORMAT_REWARD,
    Conduct,
    MalformedPolicy,
    Mixture,
    RewardMode,
    read_plan,
    reward_of,
    unset,
)
from environments.verifier.plan import Part, Penalty
from environments.verifier.reward import kind_of


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


# --- presets and mixtures -------------------------------------------------------------------------


def step(tool: str = "look", error: str = "", kind: str = "agent", **arguments: object) -> Step:
    failed = StepError(kind=kind, code=error, message="no") if error else None  # type: ignore[arg-type]
    return Step(index=0, tool=tool, arguments=dict(arguments), error=failed, clock_ms=0)


MALFORMED = step("nowhere", error="UNKNOWN_TOOL"), step(error="INVALID_ARGUMENTS", id=7)
HELD = [component("expect[0] orders added", True), component("frame", True, GATE_WEIGHT)]
HALF = [*HELD, component("answer", False)]
BROKEN = [*HELD[:1], component("frame", False, GATE_WEIGHT)]


@pytest.mark.parametrize(
    ("components", "value", "outcome"),
    [(HELD, 1.0, "complete"), (HALF, 0.1, "partial"), (BROKEN, 0.0, "none")],
)
def test_awm(components: list[Component], value: float, outcome: str) -> None:
    reward = reward_of(components, "awm")
    assert (reward.value, reward.outcome, reward.mode) == (value, outcome, "awm")
    assert reward.terms == (Term(name="outcome", weight=1.0, value=value, reason=outcome),)


@pytest.mark.parametrize("mode", ["binary", "fraction", "awm", "envfactory"])
@pytest.mark.parametrize("components", [HELD, HALF, BROKEN])
def test_a_run_that_ended_malformed_earns_minus_one(
    mode: RewardMode, components: list[Component]
) -> None:
    reward = reward_of(components, mode, Conduct(MALFORMED[:1], policy="end"))
    assert reward.value == -1.0
    assert reward.terms == (Term(name="format", weight=-1.0, value=1.0, reason="1 malformed call"),)


def test_malformed_calls_are_observed_or_penalised() -> None:
    seen = reward_of(HELD, "binary", Conduct(MALFORMED))
    assert (seen.value, len(seen.terms)) == (1.0, 1)
    taken = reward_of(HELD, "binary", Conduct(MALFORMED, policy="penalise"))
    assert taken.value == pytest.approx(0.8)
    assert taken.terms[1] == Term(name="format", weight=-0.1, value=2.0, reason="2 malformed calls")
    assert reward_of(HELD, "awm", Conduct(MALFORMED, policy="penalise")).value == -1.0
    assert reward_of(HELD, "envfactory", Conduct(MALFORMED, policy="penalise")).value == 0.8


ORACLE = (
    OracleCall(tool="find", arguments={"name": "Ann"}),
    OracleCall(tool="cancel", arguments={"id": "${0.id}"}),
)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((), 0.0),
        ((step("find", name="Ann"),), 0.5),
        ((step("find", name="Ann"), step("cancel", id="o-7")), 1.0),
        ((step("cancel", id="anything"), step("find", name="Ann")), 1.0),
        ((step("find", name="Bo"), step("cancel")), 0.0),
        ((step("find", name="Ann"), step("find", name="Ann")), 0.5),
        ((step("find", error="INVALID_ARGUMENTS", name="Ann"),), 0.0),
    ],
)
def test_calls_of_the_oracle_are_found_each_once(steps: tuple[Step, ...], found: float) -> None:
    assert Conduct(steps, ORACLE).found == found


def test_envfactory_blends_trace_and_state_with_penalties() -> None:
    good = (step("find", name="Ann"), step("cancel", id="o-7"))
    assert reward_of(HELD, "envfactory", Conduct(good, ORACLE)).value == 1.0
    idle = reward_of([component("expect[0] x", False)], "envfactory", Conduct((), ORACLE))
    assert (idle.value, idle.outcome) == (0.0, "none")
    clumsy = (*good, step("find", error="NO_SUCH", name="Bo"), MALFORMED[0])
    reward = reward_of(HALF, "envfactory", Conduct(clumsy, ORACLE))
    assert [(term.name, term.weight, term.value) for term in reward.terms] == [
        ("oracle", 0.5, 1.0),
        ("outcome", 0.5, 0.5),
        ("malformed", -0.1, 1.0),
        ("failed_call", -0.05, 1.0),
        ("extra_call", -0.02, 1.0),
    ]
    assert reward.value == pytest.approx(0.75 - 0.17)


def test_a_broken_gate_takes_what_a_mixture_earns() -> None:
    good = (step("find", name="Ann"), step("cancel", id="o-7"))
    reward = reward_of(BROKEN, "envfactory", Conduct(good, ORACLE))
    assert reward.value == 0.0
    assert {term.reason for term in reward.terms} == {"frame is broken"}


def test_a_declared_mixture() -> None:
    mixture = Mixture(
        parts={"changes": 2, "answer": 1, "trace": 1}, penalties={"malformed": 0.5}, most=4.0
    )
    parts = [
        component("expect[0] orders added", True, 3.0),
        component("any_of[1].expect[0] stock changed", False, 1.0),
        component("answer", True),
        component("frame", True, GATE_WEIGHT),
    ]
    reward = reward_of(parts, mixture, Conduct(MALFORMED[:1]))
    # Nothing is said of the trace: its weight goes to the others, 2:1.
    assert [(term.name, round(term.weight, 3), term.value) for term in reward.terms] == [
        ("changes", 2.667, 0.75), ("answer", 1.333, 1.0), ("malformed", -0.5, 1.0),
    ]  # fmt: skip
    assert reward.value == pytest.approx(2 + 4 / 3 - 0.5)
    assert reward.mode == "mixture"


def test_a_mixture_is_held_within_its_bounds() -> None:
    mixture = Mixture(parts={"outcome": 1}, penalties={"malformed": 5}, least=-0.25)
    assert reward_of(HELD, mixture, Conduct(MALFORMED)).value == -0.25


def test_scores_between_are_counted_by_share() -> None:
    parts = [Component(name="judge", passed=False, weight=1.0, reason="", score=0.5)]
    assert reward_of(parts, "fraction").value == 0.5
    assert reward_of(parts, "awm").value == 0.1
    assert reward_of(parts, "binary").value == 0.0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("expect[0] orders added", "expect"),
        ("any_of[1].all_of[0].state[2] orders", "state"),
        ("answer", "answer"),
        ("any_of[0].answer", "answer"),
        ("code.a.b", "code"),
        ("code verify", "code"),
        ("judge", "judge"),
        ("trace[0] any tool", "trace"),
    ],
)
def test_components_are_of_a_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ("fractions", "fraction"),
        ({"parts": {"chnges": 1}}, "chnges"),
        ({"part": {"changes": 1}}, "did you mean parts"),
        ({"parts": {}}, "weights above 0"),
        ({"parts": {"changes": -1}}, "weights above 0"),
        ({"parts": {"changes": 1}, "penalties": {"malformed": -1}}, "not below 0"),
        ({"parts": {"changes": 1}, "least": 0.5}, "least and most"),
    ],
)
def test_a_reward_with_a_typo_is_refused(reward: object, said: str) -> None:
    task = Task(id="t", instruction="Do it.", verifier={"answer": {"exact": "x"}, "reward": reward})
    with pytest.raises(PackInvalid) as caught:
        read_plan(task)
    assert said in str(caught.value)


def test_the_page_names_every_word() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verifiers.md").read_text()
    words = [get_args(word) for word in (RewardMode, Part, Penalty, MalformedPolicy, CodeKind)]
    for name in (*itertools.chain(*words), *(f.name for f in fields(CodeVerifier))):
        assert f"`{name}`" in page or f'"{name}"' in page, name
    for mode, reward in FORMAT_REWARD.items():
        assert mode == "observe" or f"\N{MINUS SIGN}{-reward:g}" in page

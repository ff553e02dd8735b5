"""Horizon schedules: which steps take which horizon, what is refused, AgentGym-RL's settings."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from environments.horizons import HorizonSchedule, Phase


def test_an_episode_gets_the_horizon_of_its_training_step() -> None:
    schedule = HorizonSchedule((Phase(0, 5), Phase(100, 10), Phase(250, 10), Phase(300, 20)))
    wanted = {0: 5, 99: 5, 100: 10, 249: 10, 250: 10, 299: 10, 300: 20, 1_000_000: 20}
    assert {step: schedule.at(step) for step in wanted} == wanted
    assert {HorizonSchedule.fixed(15).at(step) for step in (0, 1, 10_000)} == {15}


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([], "begins at training step 0"),
        ([[1, 5]], "begins at training step 0"),
        ([[0, 5], [100, 10], [100, 20]], "100 does not come after the one from 100"),
        ([[0, 5], [200, 10], [100, 20]], "100 does not come after the one from 200"),
        ([[0, 10], [100, 5]], "shrinks from 10 to 5 at training step 100"),
        ([[0, 0]], ">= 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(phases: list[list[int]], message: str) -> None:
    given = {"phases": [{"from_training_step": at, "horizon": steps} for at, steps in phases]}
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(given, HorizonSchedule)


class StepRounds:
    """What AgentGym-RL's trainer does: one ``step()`` after each training step, from step 1 on."""

    def __init__(self, rounds: list[int], every: int) -> None:
        self.rounds, self.every, self.stage, self.steps = rounds, every, 0, 1

    def step(self) -> None:
        if self.stage + 1 < len(self.rounds) and self.steps % self.every == 0:
            self.stage += 1
        self.steps += 1


def test_rounds_ctrl_means_what_it_means_to_its_own_trainer() -> None:
    rounds, every = [6, 13, 20], 100
    settings = {"type": "scaling_inter_stepwise", "rounds": rounds, "steps_scaling_inter": every}
    schedule = HorizonSchedule.from_rounds_ctrl(settings)
    theirs = StepRounds(rounds, every)
    for training_step in range(1, 450):
        assert schedule.at(training_step) == rounds[theirs.stage], training_step
        theirs.step()
    fixed = HorizonSchedule.from_rounds_ctrl({"type": "fixed", "rounds": 15})
    assert fixed == HorizonSchedule.fixed(15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "linear", "rounds": 5}, "type is 'linear'"),
        ({"type": "fixed", "rounds": [5]}, "rounds is \\[5\\]"),
        ({"type": "scaling_inter_stepwise", "rounds": [5]}, "steps_scaling_inter is None"),
        (
            {"type": "scaling_inter_stepwise", "rounds": 5, "steps_scaling_inter": 10},
            "not a list",
        ),
        (
            {"type": "scaling_inter_stepwise", "rounds": [9, 5], "steps_scaling_inter": 10},
            "shrinks",
        ),
        ({"type": "fixed", "rounds": 5, "round": 6}, "has no round"),
    ],
)
def test_rounds_ctrl_that_is_none(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HorizonSchedule.from_rounds_ctrl(settings)

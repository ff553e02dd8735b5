"""How many steps an episode may take at a point of training: ScalingInter-RL's curriculum.

A short horizon teaches the basics, a longer one what takes many turns. Reaching it *truncates* an
episode, which is not the same as ending it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

Step = Annotated[int, msgspec.Meta(ge=0)]
Horizon = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class Phase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From this training step on, this many steps an episode."""

    from_training_step: Step
    horizon: Horizon


class HorizonSchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phases in the order of training. The first begins at training step 0; steps count up and
    horizons never shrink, else ``ValueError`` says which phase is at fault."""

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases or self.phases[0].from_training_step != 0:
            raise ValueError("the first phase of a schedule begins at training step 0")
        for before, after in itertools.pairwise(self.phases):
            if after.from_training_step <= before.from_training_step:
                raise ValueError(
                    f"the phase from training step {after.from_training_step} does not come after "
                    f"the one from {before.from_training_step}"
                )
            if after.horizon < before.horizon:
                raise ValueError(
                    f"the horizon shrinks from {before.horizon} to {after.horizon} at training "
                    f"step {after.from_training_step}"
                )

    def at(self, training_step: int) -> int:
        """The horizon of episodes begun at ``training_step``."""
        reached = [
            phase.horizon for phase in self.phases if phase.from_training_step <= training_step
        ]
        return reached[-1] if reached else self.phases[0].horizon

    @classmethod
    def fixed(cls, horizon: int) -> HorizonSchedule:
        """The same horizon for the whole training."""
        return cls((Phase(0, horizon),))

    @classmethod
    def from_rounds_ctrl(cls, settings: Mapping[str, Any]) -> HorizonSchedule:
        """AgentGym-RL's ``algorithm.rounds_ctrl`` as it stands.

        ``{"type": "fixed", "rounds": 15}``, or ``{"type": "scaling_inter_stepwise", "rounds":
        [10, 20, 30], "steps_scaling_inter": 100}``: training steps 1 to 100 take 10 rounds, 101 to
        200 take 20, from 201 on 30. Raises ``ValueError`` for anything else.
        """
        kind, rounds = settings.get("type"), settings.get("rounds")
        known = {"type", "rounds", "steps_scaling_inter"}
        if unknown := set(settings) - known:
            raise ValueError(f"rounds_ctrl has no {', '.join(sorted(unknown))}")
        if kind == "fixed":
            return cls.fixed(_whole(rounds, "rounds"))
        if kind != "scaling_inter_stepwise":
            raise ValueError(f"rounds_ctrl.type is {kind!r}, not fixed or scaling_inter_stepwise")
        every = _whole(settings.get("steps_scaling_inter"), "steps_scaling_inter")
        if isinstance(rounds, str) or not isinstance(rounds, Sequence) or not rounds:
            raise ValueError(f"rounds_ctrl.rounds is {rounds!r}, not a list of numbers of rounds")
        # its trainer counts from 1 and moves on after each `every` steps, so a stage begins at
        # n * every + 1
        return cls(
            tuple(
                Phase(stage * every + 1 if stage else 0, _whole(horizon, "rounds"))
                for stage, horizon in enumerate(rounds)
            )
        )


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"rounds_ctrl.{name} is {value!r}, not a whole number from 1")
    return value

"""Rewards from components: pure arithmetic, the same wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from environments.assertions import GATE_WEIGHT
from environments.errors import EnvhubError
from environments.spec import OracleCall
from environments.trajectory import Component, Outcome, Reward, Step, Term
from environments.verifier.plan import PRESETS, Mixture, Part, RewardMode

MalformedPolicy = Literal["observe", "penalise", "end"]
"""What a call of an unknown tool, or with arguments that break its schema, comes to: only an
observation, a penalty as well, or the end of the episode."""

MALFORMED: Final = frozenset({"UNKNOWN_TOOL", "INVALID_ARGUMENTS"})
FORMAT_REWARD: Final[Mapping[MalformedPolicy, float]] = {
    "observe": 0.0,
    "penalise": -0.1,
    "end": -1.0,
}
"""What a malformed call earns under each policy."""

_AWM: Final[Mapping[Outcome, float]] = {"complete": 1.0, "partial": 0.1, "none": 0.0}


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a run went, as far as rewards look at that."""

    steps: Sequence[Step] = ()
    oracle: Sequence[OracleCall] = ()
    policy: MalformedPolicy = "observe"

    @property
    def malformed(self) -> int:
        return sum(is_malformed(step) for step in self.steps)

    @property
    def failed(self) -> int:
        """Well-formed calls that ended with an error of the agent's."""
        return sum(
            step.error is not None and step.error.kind == "agent" and not is_malformed(step)
            for step in self.steps
        )

    @property
    def extra(self) -> int:
        """Well-formed calls beyond as many as the oracle makes."""
        made = len(self.steps) - self.malformed
        return max(0, made - len(self.oracle)) if self.oracle else 0

    @property
    def found(self) -> float | None:
        """The share of the oracle's calls that the run made, each counted once; values that the
        oracle takes from earlier results may be any. None where there is no oracle."""
        if not self.oracle:
            return None
        left = [step for step in self.steps if not is_malformed(step)]
        hits = 0
        for call in self.oracle:
            hit = next((step for step in left if _alike(call, step)), None)
            if hit is not None:
                left.remove(hit)
                hits += 1
        return hits / len(self.oracle)


def is_malformed(step: Step) -> bool:
    return step.error is not None and step.error.code in MALFORMED


def _alike(call: OracleCall, step: Step) -> bool:
    if call.tool != step.tool or call.arguments.keys() != step.arguments.keys():
        return False
    return all(_fits(value, step.arguments[name]) for name, value in call.arguments.items())


def _fits(value: Any, given: Any) -> bool:
    referred = isinstance(value, str) and value.startswith("${") and value.endswith("}")
    return referred or bool(value == given)


def reward_of(
    components: Sequence[Component],
    mode: RewardMode | Mixture = "binary",
    conduct: Conduct | None = None,
) -> Reward:
    """The reward that the components earn.

    ``binary``: 1 if every component holds, else 0. ``fraction``: their weighted share, 0 if a gate
    (weight 0: the frame, a forbidden change) is broken. ``awm``: 1.0 complete, 0.1 partial, 0.0
    none, and -1.0 for all of it where a malformed call counts. ``envfactory`` and other mixtures:
    the sum that they declare. A mixture says itself what malformed calls cost; from other rewards
    goes what the episode's policy takes; one that a malformed call ended earns -1.0.
    """
    conduct = conduct or Conduct()
    share = _share(components)
    complete = all(component.passed for component in components)
    partly = share > 0.0 and mode != "binary"
    outcome: Outcome = "complete" if complete else "partial" if partly else "none"
    mixture = mode if isinstance(mode, Mixture) else PRESETS[mode]
    least, most = (mixture.least, mixture.most) if mixture else (-1.0, 1.0)
    if _forfeited(mode, conduct):
        least = min(least, FORMAT_REWARD["end"])
        terms = [Term(name="format", weight=FORMAT_REWARD["end"], value=1.0, reason=_said(conduct))]
    elif mixture is not None:
        terms = _mixed(components, mixture, conduct, share)
    else:
        worth = {"binary": float(complete), "fraction": share, "awm": _AWM[outcome]}
        terms = [Term(name="outcome", weight=1.0, value=worth[str(mode)], reason=outcome)]
        terms += _format_terms(conduct)
    value = sum(term.weight * term.value for term in terms)
    return Reward(
        value=round(min(most, max(least, value)), 9),
        outcome=outcome,
        mode="mixture" if isinstance(mode, Mixture) else mode,
        components=tuple(components),
        terms=tuple(terms),
        reason="; ".join(f"{part.name}: {part.reason}" for part in components if not part.passed),
    )


def _share(components: Sequence[Component]) -> float:
    """The weighted share that holds; 0 where a gate is broken, 1 where there is nothing else."""
    if any(part.weight == GATE_WEIGHT and not part.passed for part in components):
        return 0.0
    total = sum(part.weight for part in components)
    earned = sum(part.weight * part.earned for part in components)
    return earned / total if total else float(bool(components))


def _forfeited(mode: RewardMode | Mixture, conduct: Conduct) -> bool:
    """Whether a malformed call has cost the whole reward."""
    strict = conduct.policy == "end" or (mode == "awm" and conduct.policy == "penalise")
    return strict and conduct.malformed > 0


def _format_terms(conduct: Conduct) -> list[Term]:
    each = FORMAT_REWARD[conduct.policy]
    if not each or not conduct.malformed:
        return []
    value = float(conduct.malformed)
    return [Term(name="format", weight=each, value=value, reason=_said(conduct))]


def _said(conduct: Conduct) -> str:
    return f"{conduct.malformed} malformed call{'s' if conduct.malformed > 1 else ''}"


# --- mixtures -------------------------------------------------------------------------------------


def _mixed(
    components: Sequence[Component], mixture: Mixture, conduct: Conduct, share: float
) -> list[Term]:
    broken = [part.name for part in components if part.weight == GATE_WEIGHT and not part.passed]
    values = {name: _value(name, components, conduct, share) for name in mixture.parts}
    spoken = {name: mixture.parts[name] for name, value in values.items() if value is not None}
    total = sum(mixture.parts.values())
    scale = total / sum(spoken.values()) if spoken else 0.0
    terms = []
    for name, weight in spoken.items():
        value = 0.0 if broken else values[name] or 0.0
        reason = f"{broken[0]} is broken" if broken else ""
        terms.append(Term(name=name, weight=weight * scale, value=value, reason=reason))
    counts = {
        "malformed": conduct.malformed, "failed_call": conduct.failed, "extra_call": conduct.extra
    }  # fmt: skip
    for penalty, taken in mixture.penalties.items():
        if counts[penalty]:
            terms.append(Term(name=penalty, weight=-taken, value=float(counts[penalty])))
    return terms


def _value(
    part: Part, components: Sequence[Component], conduct: Conduct, share: float
) -> float | None:
    """A part of a mixture, from 0 to 1; None if the task says nothing of it."""
    if part in _WHOLE:
        return _WHOLE[part](components, conduct, share)
    own = [item for item in components if item.weight > 0 and kind_of(item.name) in _KINDS[part]]
    return _share(own) if own else None


_WHOLE: Final[Mapping[str, Callable[[Sequence[Component], Conduct, float], float | None]]] = {
    "outcome": lambda _, __, share: share,
    "complete": lambda components, _, __: float(all(part.passed for part in components)),
    "oracle": lambda _, conduct, __: conduct.found,
}
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "changes": ("expect",),
    **{kind: (kind,) for kind in ("state", "probe", "trace", "answer", "code", "judge")},
}


def kind_of(name: str) -> str:
    """The word of the verifier that a component comes from: ``any_of[0].expect[1] orders added``
    is of kind ``expect``."""
    place = name.partition(" ")[0]
    if place.startswith("code"):
        return "code"
    return place.rpartition(".")[2].partition("[")[0]


def unset(error: EnvhubError, mode: RewardMode | Mixture = "binary") -> Reward:
    """The reward of a run nobody could judge: no number, and whose fault that was."""
    return Reward(
        value=None,
        outcome="unset",
        mode="mixture" if isinstance(mode, Mixture) else mode,
        reason=f"not scored: {error}",
        failure_kind=error.kind,
    )

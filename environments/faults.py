"""Injected faults: the plans everybody knows, and when a fault strikes.

A strike follows from the plan, the episode's seed, the tool and how often it was called before, so
equal runs meet equal faults, an extra read with another tool shifts none, and an episode that is
forked, rewound or replayed needs no memory beside its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import msgspec

from environments.errors import AgentError, PackInvalid
from environments.spec import (
    Count,
    FaultName,
    FaultPlan,
    FaultRule,
    PackFaults,
    Spec,
    ToolSpec,
)
from environments.trajectory import Fault, Step

READS_ONLY: Final = frozenset({"truncated_page", "stale_read"})
LASTING: Final = frozenset(
    {"timeout_before", "rate_limited", "server_error", "auth_expired", "renamed_parameter"}
)
"""Faults that a first repetition may meet again; the others are over at once."""


class UnknownFaultPlan(AgentError):
    code = "UNKNOWN_FAULT_PLAN"


def _rule(kind: FaultName, rate: float, **more: Any) -> FaultRule:
    return FaultRule(kind=kind, rate=rate, **more)


NONE: Final = FaultPlan()
NO_FAULTS: Final = PackFaults()
PRESETS: Final[Mapping[str, FaultPlan]] = MappingProxyType(
    {
        "none": NONE,
        "flaky": FaultPlan(
            budget=5,
            rules=(
                _rule("timeout_before", 0.10, longest=2, seconds=10.0),
                _rule("timeout_after", 0.06, on="writes", seconds=10.0),
                _rule("rate_limited", 0.08, longest=2, seconds=15.0),
                _rule("server_error", 0.14, longest=2),
                _rule("latency", 0.04, seconds=10.0),
                _rule("truncated_page", 0.05),
                _rule("malformed_payload", 0.03, on="reads"),
            ),
        ),
        "hostile": FaultPlan(
            budget=10,
            rules=(
                _rule("timeout_before", 0.07, longest=3, seconds=20.0),
                _rule("timeout_after", 0.10, on="writes", seconds=20.0),
                _rule("rate_limited", 0.07, longest=3, seconds=30.0),
                _rule("server_error", 0.08, longest=3),
                _rule("auth_expired", 0.04, longest=2),
                _rule("renamed_parameter", 0.05, longest=2),
                _rule("concurrent_mutation", 0.10),
                _rule("latency", 0.05, seconds=20.0),
                _rule("stale_read", 0.10),
                _rule("truncated_page", 0.08),
                _rule("malformed_payload", 0.06),
            ),
        ),
    }
)


def plan_named(plan: str | FaultPlan | None, pack: PackFaults) -> FaultPlan:
    """The plan of this name: the pack's own, else a preset. Raises ``UnknownFaultPlan``."""
    if plan is None:
        return NONE
    if isinstance(plan, FaultPlan):
        return plan
    found = pack.plans.get(plan) or PRESETS.get(plan)
    if found is None:
        known = ", ".join(sorted({*pack.plans, *PRESETS}))
        raise UnknownFaultPlan(f"there is no fault plan {plan!r}", hint=f"plans: {known}")
    return found


def check_faults(faults: PackFaults) -> None:
    """Raise ``PackInvalid`` for two mutations of one id, or a rule that names none of them."""
    known = [mutation.id for mutation in faults.mutations]
    for one in known:
        if known.count(one) > 1:
            raise PackInvalid(f"faults.toml: mutation {one!r} is there twice")
    for name, plan in faults.plans.items():
        for rule in plan.rules:
            for one in rule.mutations:
                if one not in known:
                    raise PackInvalid(
                        f"faults.toml: plan {name} names mutation {one!r}",
                        hint=f"known: {', '.join(known) or 'none'}",
                    )


class FaultPhase(Spec, frozen=True, kw_only=True):
    """From a training step on: this plan."""

    from_training_step: Count
    plan: str | FaultPlan


class FaultCurriculum(Spec, frozen=True, kw_only=True):
    """Plans by training step, e.g. ``none``, then ``flaky``, then ``hostile``."""

    phases: tuple[FaultPhase, ...]

    def __post_init__(self) -> None:
        steps = [phase.from_training_step for phase in self.phases]
        if not steps or steps[0] != 0 or any(a >= b for a, b in pairwise(steps)):
            raise ValueError("phases begin at training step 0 and each later than the one before")

    def at(self, training_step: int) -> str | FaultPlan:
        """The plan of the last phase that has begun."""
        begun = [phase for phase in self.phases if phase.from_training_step <= training_step]
        return begun[-1].plan if begun else self.phases[0].plan


# --- when one strikes --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Occasion:
    """A call about to be made, and the episode it is made in."""

    seed: int
    tool: ToolSpec
    arguments: Mapping[str, Any]
    """As the agent sent them."""
    steps: Sequence[Step]
    clock_ms: int
    start_ms: int

    @property
    def call_index(self) -> int:
        """How often the tool was called before."""
        return sum(step.tool == self.tool.name for step in self.steps)

    def draw(self, purpose: str) -> float:
        """A number in [0, 1) that depends on seed, tool, call index and what it is for."""
        key = f"{self.seed}/{self.tool.name}/{self.call_index}/{purpose}"
        digest = blake2b(key.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def pick(self, purpose: str, options: Sequence[Any]) -> Any:
        return options[int(self.draw(purpose) * len(options))]


def strike(plan: FaultPlan, pack: PackFaults, occasion: Occasion) -> Fault | None:
    """The fault that this call meets, if any: one that goes on, or the first rule that draws it."""
    if not plan.rules:
        return None
    going_on = _going_on(occasion)
    if going_on is not None:
        return msgspec.structs.replace(
            going_on, attempt=going_on.attempt + 1, ran=False, result=None, error=None
        )
    incidents = sum(step.fault is not None and step.fault.attempt == 1 for step in occasion.steps)
    if incidents >= plan.budget:
        return None
    for number, rule in enumerate(plan.rules):
        if _in_reach(rule, occasion) and occasion.draw(f"{number}:{rule.kind}") < rule.rate:
            fault = _begun(rule, pack, occasion)
            if fault is not None:
                return fault
    return None


def _going_on(occasion: Occasion) -> Fault | None:
    """The unfinished incident of this tool, or of all tools (a token that has expired)."""
    latest = occasion.steps[-1].fault if occasion.steps else None
    if latest is not None and latest.kind == "auth_expired" and latest.attempt < latest.lasts:
        return latest
    for step in reversed(occasion.steps):
        if step.tool == occasion.tool.name:
            fault = step.fault
            if fault is None or fault.attempt >= fault.lasts:
                return None
            over = fault.until_ms is not None and occasion.clock_ms >= fault.until_ms
            if fault.kind == "renamed_parameter" and fault.about["old"] not in occasion.arguments:
                over = True
            return None if over else fault
    return None


def _in_reach(rule: FaultRule, occasion: Occasion) -> bool:
    tool, index = occasion.tool, len(occasion.steps)
    seconds = (occasion.clock_ms - occasion.start_ms) / 1000
    return (
        (not rule.tools or any(fnmatchcase(tool.name, pattern) for pattern in rule.tools))
        and (rule.on == "all" or (rule.on == "reads") == tool.read_only)
        and (tool.read_only or rule.kind not in READS_ONLY)
        and rule.from_step <= index
        and (rule.until_step is None or index < rule.until_step)
        and rule.from_seconds <= seconds
        and (rule.until_seconds is None or seconds < rule.until_seconds)
    )


def _begun(rule: FaultRule, pack: PackFaults, occasion: Occasion) -> Fault | None:
    """The incident that the rule begins; ``None`` where there is nothing it could strike."""
    about: dict[str, Any] = {}
    until_ms = None
    match rule.kind:
        case "timeout_before" | "timeout_after" | "latency":
            about["seconds"] = rule.seconds
        case "rate_limited":
            until_ms = occasion.clock_ms + round(rule.seconds * 1000)
        case "server_error":
            about["status"] = occasion.pick("status", (500, 502, 503, 504))
        case "stale_read":
            if not any(step.changes for step in occasion.steps):
                return None
        case "malformed_payload" | "truncated_page":
            about["share"] = round(0.3 + occasion.draw("share") * 0.5, 3)
        case "renamed_parameter":
            known = occasion.tool.input_schema.get("properties", {})
            given = sorted(name for name in occasion.arguments if name in known)
            if not given:
                return None
            about["old"] = occasion.pick("parameter", given)
            about["new"] = _new_name(about["old"], occasion)
        case "concurrent_mutation":
            happened = {step.fault.about.get("mutation") for step in occasion.steps if step.fault}
            wanted = rule.mutations or [mutation.id for mutation in pack.mutations]
            left = [one for one in wanted if one not in happened]
            if not left:
                return None
            about["mutation"] = occasion.pick("mutation", left)
        case "auth_expired":
            pass
    longest = rule.longest if rule.kind in LASTING else 1
    lasts = 1 + int(occasion.draw("lasts") * longest)
    return Fault(kind=rule.kind, attempt=1, lasts=lasts, until_ms=until_ms, about=about)


def _new_name(old: str, occasion: Occasion) -> str:
    taken = occasion.tool.input_schema.get("properties", {})
    names = [f"{old}_value", f"{old}_v2", f"new_{old}", f"{old}_ref"]
    free = [name for name in names if name not in taken]
    return str(occasion.pick("name", free)) if free else f"{old}_renamed"


def understood(tool: str, arguments: dict[str, Any], steps: Sequence[Step]) -> dict[str, Any]:
    """The arguments as the tool knows them: names that a fault has announced are put back."""
    for step in steps:
        fault = step.fault
        if step.tool == tool and fault is not None and fault.kind == "renamed_parameter":
            old, new = fault.about["old"], fault.about["new"]
            if new in arguments and old not in arguments:
                arguments = {old if name == new else name: arguments[name] for name in arguments}
    return arguments

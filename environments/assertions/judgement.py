"""The verifier of one task: what must have changed, what may have, and what the answer must be.

Expected values come from the initial state, never from what the agent made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from environments.assertions.evidence import Evidence, ProbeCall
from environments.assertions.expectations import (
    find,
    judge_expectation,
    judge_forbidden,
    judge_frame,
)
from environments.assertions.parts import Plan, check_variables, parse_plans
from environments.assertions.queries import QueryCheck, run_once
from environments.assertions.rows import RowChange, row_changes
from environments.assertions.verdicts import GATE_WEIGHT, component
from environments.assertions.words import Scope, TableInfo
from environments.errors import PackInvalid
from environments.spec import ToolSpec
from environments.trajectory import Component


@dataclass(frozen=True, slots=True)
class Assertions:
    """One parsed task verifier. Immutable; may judge any number of episodes.

    ``probes`` are the calls whose results ``Evidence.probes`` must hold, in this order.
    """

    verifier: Mapping[str, Any]
    tables: Mapping[str, TableInfo]
    plans: tuple[Plan, ...]
    probes: tuple[ProbeCall, ...]
    asks: bool
    """Whether values are queries, to be asked of the initial state of each run."""

    @classmethod
    def parse(
        cls,
        verifier: Mapping[str, Any],
        tables: Mapping[str, TableInfo],
        tools: Mapping[str, ToolSpec] | None = None,
    ) -> Assertions:
        """Compile a verifier against the tables and tools it speaks of; without ``tools`` their
        names are taken on trust. ``code``, ``judge`` and ``reward`` are not looked into.

        Raises ``PackInvalid`` for a typo in a section, table, column, tool, argument, kind of
        change, matcher, query or variable (with close matches), and for a verifier that would pay
        for doing nothing.
        """
        check = QueryCheck(tables)
        plans = _plans(verifier, Scope(tables, tools, check.value_of))
        calls: list[ProbeCall] = []
        for probe in (probe for plan in plans for part in plan for probe in part.probes):
            if probe.call not in calls:
                calls.append(probe.call)
        return cls(verifier, tables, plans, tuple(calls), bool(check.count))

    def evaluate(self, evidence: Evidence) -> list[Component]:
        """Judge a run.

        The components are the entries with their weights, and gates with weight 0: the ``frame``,
        each ``forbid``, and whatever a run that does nothing fulfils. Reasons speak of rows. Where
        the verifier leaves a choice, they are those of the best alternative.

        Raises ``PackInvalid`` for a query that does not give one value of the kind its place
        takes, and ``InfrastructureFault`` for a probe that was not made.
        """
        plans = self.plans
        if self.asks:
            plans = _plans(self.verifier, Scope(self.tables, None, run_once(evidence.initial)))
        rows = list(row_changes(evidence.changes, evidence.found, self.tables, evidence.initial))
        best: list[Component] = []
        for plan in plans:
            components = self._judge(plan, evidence, rows)
            if not best or _worth(components) > _worth(best):
                best = components
            if all(part.passed for part in best):
                break
        return best

    def _judge(self, plan: Plan, evidence: Evidence, rows: Sequence[RowChange]) -> list[Component]:
        found = find([expectation for part in plan for expectation in part.expect], rows)
        bindings = found[-1].bindings if found else {}
        components = [
            judge_expectation(item, rows, self.tables, evidence.initial) for item in found
        ]
        if self._has_frame(plan):
            allowed = [pattern for part in plan for pattern in part.allow]
            components.append(judge_frame(rows, found, allowed, bindings))
        for part in plan:
            components += [
                judge_forbidden(name, pattern, rows, bindings) for name, pattern in part.forbid
            ]
            components += [state.judge(evidence, bindings) for state in part.states]
            components += [
                probe.judge(self.probes, evidence.probes, bindings) for probe in part.probes
            ]
            components += [calls.judge(evidence.trace, bindings) for calls in part.traces]
            if part.answer is not None:
                reason = part.answer.failure(evidence.answer)
                components.append(component(part.answer.name, reason, part.answer.weight))
        return _shared_out(components, plan)

    def _has_frame(self, plan: Plan) -> bool:
        """Changes that the assertions do not speak of at all are left to ``code`` or ``judge``."""
        elsewhere = {"code", "judge"} & self.verifier.keys()
        return not elsewhere or any(part.speaks_of_changes for part in plan)


def _plans(verifier: Mapping[str, Any], scope: Scope) -> tuple[Plan, ...]:
    plans = parse_plans(verifier, "", scope)
    elsewhere = {"code", "judge"} & verifier.keys()
    for plan in plans:
        check_variables(plan)
        if not elsewhere and not any(part.demands for part in plan):
            where = next((part.prefix.rstrip(".") for part in plan[1:]), "")
            raise PackInvalid(
                f"the verifier pays for doing nothing{where and f' by {where}'}: no expect entry "
                "asks for a change",
                hint="expect a change the task is about, or gate the answer",
            )
    return tuple(plans)


def _worth(components: Sequence[Component]) -> tuple[bool, bool, float]:
    """To compare alternatives: one that holds, then one that breaks no gate, then by weight."""
    failed = [part for part in components if not part.passed]
    total = sum(part.weight for part in components)
    lost = sum(part.weight for part in failed)
    gates = all(part.weight != GATE_WEIGHT for part in failed)
    return not failed, gates, 1.0 - lost / total if total else 0.0


def _shared_out(components: list[Component], plan: Plan) -> list[Component]:
    """The components with the weight of each group shared among its parts, innermost first."""
    for part in sorted(plan, key=lambda part: -len(part.prefix)):
        if part.weight is None:
            continue
        total = sum(item.weight for item in components if item.name.startswith(part.prefix))
        if total:
            factor = part.weight / total
            components = [
                msgspec.structs.replace(item, weight=item.weight * factor)
                if item.name.startswith(part.prefix)
                else item
                for item in components
            ]
    return components

"""Scoring a run, in workers that never loaded the pack's tools.

What a run changed is told from the pages of its two states, not from what the tools' workers said.
Verifiers that the pack wrote itself, and probes, see the final state rebuilt from its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from environments.assertions import ProbeCall
from environments.catalogue import Pack
from environments.errors import (
    EnvhubError,
    EnvironmentFault,
    ForgedChanges,
    InfrastructureFault,
)
from environments.sandbox.host import Case, Moment, Sandbox, Trial
from environments.spec import ChangePolicy, Task
from environments.trajectory import Actor, Component, Reward, Step
from environments.verifier.judge import Case as Hearing
from environments.verifier.judge import Judge, Verdict
from environments.verifier.plan import JudgeSpec, Plan, RewardMode, read_plan
from environments.verifier.reward import Conduct, MalformedPolicy, reward_of, unset
from snapshots import Branch, Changeset
from snapshots.errors import ChangesetInvalid

_VERDICTS: Final[Mapping[str, float]] = {"complete": 1.0, "partial": 0.5, "none": 0.0}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run, as a verdict rests on it: the states in which it began and ended, the moment of its
    end, its steps with what each actor changed in them, and the agent's final answer."""

    start: Branch
    end: Branch
    moment: Moment
    steps: Sequence[Step]
    answer: str | None = None
    malformed: MalformedPolicy = "observe"
    probes: Sequence[ProbeCall] = ()
    """The calls that the task's assertions want made on the final state."""


async def score_episode(
    sandbox: Sandbox,
    pack: Pack,
    task: Task,
    attempt: Attempt,
    mode: RewardMode | None = None,
    judge: Judge | None = None,
) -> Reward:
    """Judge a run by its task's verifier; tables and columns the pack ignores are aside.

    ``mode`` overrides the reward that the task declares. Never raises for a verifier or a worker
    that fails: the reward is then *unset* and says whose fault that was, since a 0 would teach the
    policy something that is not so.
    """
    try:
        plan = read_plan(task)
    except EnvhubError as error:
        return unset(error, mode or "binary")
    chosen = mode or plan.reward
    try:
        components = await _components(sandbox, pack, task, attempt, plan)
        if plan.judge is not None:
            components.append(await _judged(pack, task, attempt, (components, plan.judge), judge))
    except EnvhubError as error:
        return unset(error, chosen)
    conduct = Conduct(attempt.steps, task.oracle, attempt.malformed)
    return reward_of(components, chosen, conduct)


async def _components(
    sandbox: Sandbox, pack: Pack, task: Task, attempt: Attempt, plan: Plan
) -> list[Component]:
    """What assertions and code say."""
    what = f"scoring {pack.spec.name}"
    trial = Trial(what, attempt.start, attempt.end, attempt.moment.clock_ms)
    case = Case(
        steps=tuple(
            msgspec.structs.replace(step, result=None, output="") for step in attempt.steps
        ),
        ignored=pack.spec.changes,
        answer=attempt.answer,
    )
    if attempt.probes:
        # On the rows alone: what the workers made of the pages besides is not to be looked into.
        first = await sandbox.score(pack, trial, None, case, rebuild=True)
        rebuilt = first.rebuilt or attempt.end
        results = await sandbox.probe(pack, rebuilt, attempt.moment, attempt.probes)
        case = msgspec.structs.replace(case, probes=results)
    judged = await sandbox.score(pack, trial, task.verifier, case, rebuild=plan.code is not None)
    components = list(judged.components)
    if plan.code is not None:
        assert judged.rebuilt is not None
        trial = Trial(f"the verifier of task {task.id}", attempt.start, judged.rebuilt, trial[3])
        found = await sandbox.examine(pack, trial, plan.code, attempt.steps, attempt.answer)
        components += found.components
    return components


async def _judged(
    pack: Pack,
    task: Task,
    attempt: Attempt,
    given: tuple[Sequence[Component], JudgeSpec],
    judge: Judge | None,
) -> Component:
    """The judge's verdict as a component. Raises for one that is none."""
    signals, spec = given
    if judge is None:
        raise InfrastructureFault(
            f"task {task.id} wants a judge and none is configured",
            hint="give an OpenAI-compatible endpoint and a model",
        )
    verdict: Verdict = await judge.verdict(
        Hearing(
            instruction=task.instruction,
            policy=pack.policy,
            rubric=spec.rubric,
            steps=tuple(attempt.steps),
            changes=_net(attempt.steps, "agent", pack.spec.changes),
            others=_net(attempt.steps, "environment", pack.spec.changes),
            answer=attempt.answer,
            signals=tuple(signals) if spec.signals else None,
        )
    )
    if verdict.verdict == "environment_fault":
        raise EnvironmentFault(f"the judge finds the environment at fault: {verdict.reason}")
    component = verdict.component(spec.weight)
    return msgspec.structs.replace(component, score=_VERDICTS[verdict.verdict])


def _net(steps: Iterable[Step], actor: Actor, ignored: ChangePolicy) -> dict[str, Any]:
    net = changes_of(steps, actor)
    return net.filter(tables=ignored.ignore_tables, columns=ignored.ignore_columns).to_json()


def changes_of(steps: Iterable[Step], actor: Actor | None = None) -> Changeset:
    """The net changes of one actor, or of all, over some steps.

    Raises ``ForgedChanges`` where what the workers reported does not follow one from the other.
    """
    net = Changeset()
    try:
        for step in steps:
            for change in step.changes:
                if actor is None or change.actor == actor:
                    net = net.concat(Changeset.from_json(change.changes), gaps=actor is not None)
    except ChangesetInvalid as error:
        raise ForgedChanges(f"the reported changes contradict one another: {error}") from error
    return net

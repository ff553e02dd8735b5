"""Oracles with calls added and left out, and what that must do to the reward."""

from __future__ import annotations

from collections.abc import Sequence

from environments.check.report import Finding, finding
from environments.check.runs import Plan, Run, oracle_plan, play, require_scored, side_by_side
from environments.environment import Environment
from environments.spec import OracleCall


async def extra_reads(
    environment: Environment, runs: Sequence[Run], broken: frozenset[str] = frozenset()
) -> Finding:
    """Each reading call twice, and every reading tool that needs no argument first: still 1.
    Tools known to be ``broken`` are not called."""
    bare = [
        OracleCall(tool=tool.name)
        for tool in environment.tools.values()
        if tool.read_only and not tool.input_schema.get("required") and tool.name not in broken
    ]

    async def problem(run: Run) -> str:
        plan: list[tuple[int | None, OracleCall]] = [(None, call) for call in bare]
        for number, call in oracle_plan(run.task):
            plan.append((number, call))
            tool = environment.tools.get(call.tool)
            if tool is not None and tool.read_only and call.expect_error is None:
                plan.append((None, call))
        again = await play(environment, run.task, plan, run.task.answer)
        require_scored(again.reward)
        if again.value == 1.0:
            return ""
        why = again.problem or again.reward.reason
        return f"task {run.task.id}: with further reads the oracle fails: {why}"

    problems = await side_by_side(runs, problem)
    return finding("further reads cost nothing", [found for found in problems if found])


async def dropped_writes(environment: Environment, runs: Sequence[Run]) -> Finding:
    """The oracle without one of its writes must fail, unless the task says that one is optional."""
    every = [(run, number) for run in runs for number in run.writes()]
    needed = [(run, number) for run, number in every if not run.task.oracle[number].optional]

    async def problem(item: tuple[Run, int]) -> str:
        run, left_out = item
        plan: Plan = [
            (number, call) for number, call in oracle_plan(run.task) if number != left_out
        ]
        without = await play(environment, run.task, plan, run.task.answer)
        require_scored(without.reward)
        call = f"without oracle call {left_out} ({run.steps[left_out].tool})"
        if without.value is None:
            return f"task {run.task.id}: cannot be scored {call}: {without.reward.reason}"
        return f"task {run.task.id}: scores 1 {call}" if without.value == 1.0 else ""

    problems = [found for found in await side_by_side(needed, problem) if found]
    optional = len(every) - len(needed)
    note = f"{len(needed)} writes" + (f", {optional} optional" if optional else "")
    return finding("every write matters", problems, note=note)

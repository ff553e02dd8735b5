"""Stage ``oracle``: the calls that solve each task, played on an episode in the guest.

A task for which none can be found is dropped; the environment is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from environments.check.runs import Run, oracle_plan, play
from environments.environment import Environment
from environments.errors import EnvironmentFault, PackInvalid
from environments.spec import OracleCall, Spec, Task
from environments.synthesis.construct import UNJUDGED
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.mending import Job, NotMade, pretty
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.describe import as_json, tools_and_rows
from environments.synthesis.stages.shapes import Solved, WantedTask
from environments.synthesis.stages.stage import Bench, Product, Stage, each
from environments.synthesis.stages.tasks import Requirements

FILE: Final = "oracle.json"
MOST_CALLS: Final = 24
_SHOWN: Final = 300


class Oracle(Spec, frozen=True, kw_only=True):
    """How a task is solved."""

    calls: tuple[OracleCall, ...]
    answer: str | None = None
    """What the agent answers in the end, where the task asks for something."""
    instruction: str = ""
    """The instruction put right, where the data or the tools make it impossible or leave open what
    is meant; else empty."""


class Solutions(Spec, frozen=True, kw_only=True):
    """``oracle.json``."""

    tasks: tuple[Solved, ...]


async def make(bench: Bench) -> Product:
    wanted = bench.read("tasks.json", Requirements).tasks
    repairs: list[Repair] = []
    rejected: list[Rejection] = []
    environment = await bench.workshop.opened(bench.draft, bench.members)
    described = tools_and_rows(environment)

    async def solve(task: WantedTask) -> Solved | None:
        try:
            solved, mended = await _solved(bench, environment, described, task)
        except NotMade as error:
            repairs.extend(error.repairs)
            rejected.append(Rejection(what=task.id, reason=error.message))
            return None
        repairs.extend(mended)
        return solved

    found = await each(wanted, solve)
    solved = tuple(one for one in found if one is not None)
    if not solved:
        raise NotMade(["no task could be solved", *(one.reason for one in rejected)], repairs)
    body = pretty(Solutions(tasks=solved)).encode()
    repairs.sort(key=lambda repair: repair.of)
    rejected.sort(key=lambda rejection: rejection.what)
    return Product(body, repairs, rejected, len(wanted), len(solved))


async def _solved(
    bench: Bench, environment: Environment, described: str, task: WantedTask
) -> tuple[Solved, list[Repair]]:
    question = prompt(
        "oracle",
        task=task.id,
        instruction=task.instruction,
        kind="only asks, and changes nothing" if task.question else "changes something",
        policy=bench.draft.policy,
        environment=described,
    )

    async def prove(made: Oracle) -> Sequence[str]:
        return await _problems(environment, _task(task, made), task.question)

    made, repairs = await bench.make(Job(Oracle, question, prove, pretty, task.id))
    solved = Solved(
        id=task.id,
        instruction=made.instruction or task.instruction,
        difficulty=task.difficulty,
        question=task.question,
        calls=made.calls,
        answer=made.answer,
    )
    return solved, repairs


def _task(wanted: WantedTask, made: Oracle) -> Task:
    return Task(
        id=wanted.id,
        instruction=wanted.instruction,
        verifier=UNJUDGED,
        oracle=made.calls,
        answer=made.answer,
        difficulty=wanted.difficulty,
    )


async def _problems(environment: Environment, task: Task, question: bool) -> Sequence[str]:
    if not task.oracle:
        return ["there is no call"]
    if len(task.oracle) > MOST_CALLS:
        return [f"there are {len(task.oracle)} calls; at most {MOST_CALLS}"]
    try:
        place = environment.with_tasks([task])
        run = await play(place, task, oracle_plan(task), task.answer)
    except (PackInvalid, EnvironmentFault) as error:
        return [str(error)]
    problems = list(_failed(task, run))
    if problems:
        return [*problems, *_answers(run)]
    if question:
        if run.changes:
            problems.append(f"the task only asks, and the calls changed {_tables(run)}")
        if not (task.answer or "").strip():
            problems.append("the task asks for something, and there is no answer")
    elif not run.changes:
        problems.append("the calls change nothing")
    return [*problems, *_answers(run)] if problems else []


def _failed(task: Task, run: Run) -> Iterator[str]:
    for number, (call, step) in enumerate(zip(task.oracle, run.steps, strict=False)):
        code = step.error.code if step.error else None
        if code != call.expect_error:
            answered = f"{code}: {step.error.message}" if step.error else "without an error"
            wanted = f", not with {call.expect_error}" if call.expect_error else ""
            called = f"{call.tool} {as_json(step.arguments)}"
            yield f"call {number}, {called}, answered {answered}{wanted}"
            return  # what comes after one that failed says little
    if run.problem:
        yield f"call {len(run.steps)}: {run.problem}"


def _answers(run: Run) -> Iterator[str]:
    """What the calls before it answered, for who has to mend it."""
    for step in run.steps:
        if step.error is None:
            text = as_json(step.result)
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            yield f"(call {step.index}, {step.tool} {as_json(step.arguments)}, answered {shown})"


def _tables(run: Run) -> str:
    return ", ".join(run.changes.tables)


STAGE: Final = Stage("oracle", FILE, make)

"""Stage ``verifier``: from what each oracle changed to what its task means.

The assertions come by construction from the oracle's changes; the model says which of them the task
pins, which it leaves open, and what else it allows. Code judges only what assertions cannot say.
Each verifier is held against the gate's own alterations of its oracle before it is taken.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from environments.environment import Environment
from environments.errors import EnvironmentFault, PackInvalid
from environments.spec import Spec, Task
from environments.synthesis.construct import (
    UNJUDGED,
    Construction,
    construct,
)
from environments.synthesis.holding import held
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.mending import Job, NotMade, pretty
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.oracle import Solutions
from environments.synthesis.stages.shapes import Judged, Solved, Text
from environments.synthesis.stages.stage import Bench, Product, Stage, each
from environments.synthesis.workshop import Draft

FILE: Final = "verifier.json"


class CodeWanted(Spec, frozen=True, kw_only=True):
    """A function that judges what assertions cannot say."""

    source: Text
    """``def verify_<task>(initial, final, answer, trajectory)``, with - as _ ."""
    instead_of: tuple[int, ...] = ()
    """The entries that it judges; their rows are then allowed to change as it sees fit."""
    because: Text
    """What it is that assertions cannot say."""


class Intent(Spec, frozen=True, kw_only=True):
    """What a task means, said of the cells of the constructed verifier. What is not named stays
    pinned or bound."""

    free: tuple[str, ...] = ()
    """Cells that may have any value: wording, choices the task leaves open."""
    matchers: dict[str, Any] = msgspec.field(default_factory=dict)
    """Cells that must fit a matcher: {"0.where.note": {"contains": "PO-17"}}."""
    allow: tuple[dict[str, Any], ...] = ()
    """Entries of ``allow``: further changes that a good solution may make."""
    optional_calls: tuple[int, ...] = ()
    """Calls of the oracle whose changes the task does not ask for; their entries are allowed."""
    answer: dict[str, Any] | None = None
    """How the final answer is judged, where the task asks for one."""
    code: CodeWanted | None = None


async def make(bench: Bench) -> Product:
    solved = bench.read("oracle.json", Solutions).tasks
    repairs: list[Repair] = []
    rejected: list[Rejection] = []
    codes: dict[str, CodeWanted] = {}
    environment = await bench.workshop.opened(bench.draft, bench.members)

    async def judge(one: Solved) -> Task | None:
        try:
            task, intent, mended = await _judged(bench, environment, one)
        except NotMade as error:
            repairs.extend(error.repairs)
            rejected.append(Rejection(what=one.id, reason=error.message))
            return None
        repairs.extend(mended)
        if intent.code is not None:
            codes[one.id] = intent.code
        return task

    found = await each(solved, judge)
    tasks = tuple(task for task in found if task is not None)
    if not tasks:
        raise NotMade(["no task has a verifier", *(one.reason for one in rejected)], repairs)
    judged = Judged(
        tasks=tasks,
        functions={task.id: codes[task.id].source for task in tasks if task.id in codes},
        unsaid={task.id: codes[task.id].because for task in tasks if task.id in codes},
    )
    repairs.sort(key=lambda repair: repair.of)
    rejected.sort(key=lambda rejection: rejection.what)
    return Product(pretty(judged).encode(), repairs, rejected, len(solved), len(tasks))


def with_judged(draft: Draft, judged: Judged) -> Draft:
    """A pack with the tasks that have a verifier."""
    return draft.with_tasks(judged.tasks, _verifiers_py(judged.functions))


def _verifiers_py(functions: Mapping[str, str]) -> str:
    """The pack's ``verifiers.py``; empty where no task needs one."""
    if not functions:
        return ""
    head = (
        '"""What assertions cannot say of these tasks."""\n\nfrom __future__ import annotations\n'
    )
    return "\n\n".join([head, *(source.strip() + "\n" for source in functions.values())])


async def _judged(
    bench: Bench, environment: Environment, solved: Solved
) -> tuple[Task, Intent, list[Repair]]:
    bare = Task(
        id=solved.id,
        instruction=solved.instruction,
        verifier=UNJUDGED,
        oracle=solved.calls,
        answer=solved.answer,
        difficulty=solved.difficulty,
    )
    try:
        built = await construct(environment.with_tasks([bare]), bare)
    except PackInvalid as error:  # what an answer refers to may be elsewhere under another seed
        raise NotMade([f"with other ids and a later clock: {error}"]) from error
    question = prompt(
        "verifier",
        task=solved.id,
        instruction=solved.instruction,
        calls=pretty(solved.calls),
        answer=solved.answer or "(none)",
        entries="\n".join(_entries(built)) or "(the oracle changes nothing)",
        policy=bench.draft.policy,
    )

    async def prove(intent: Intent) -> Sequence[str]:
        return await _problems(bench, environment, bare, built, intent)

    intent, repairs = await bench.make(Job(Intent, question, prove, pretty, solved.id))
    return _task(bare, built, intent), intent, repairs


def _entries(built: Construction) -> list[str]:
    """Each entry with its cells, as the model is shown them."""
    lines: list[str] = []
    for number, entry in enumerate(built.entries):
        lines.append(f"entry {number}: {msgspec.json.encode(entry).decode()}")
        for cell in (cell for cell in built.cells if cell.entry == number):
            state = "made up on the way, bound or free" if cell.made_up else "pinned"
            lines.append(f"  {cell.name} = {msgspec.json.encode(cell.value).decode()}  ({state})")
    return lines


def _task(bare: Task, built: Construction, intent: Intent) -> Task:
    chosen = {**dict.fromkeys(intent.free), **intent.matchers}
    judged = {*(intent.code.instead_of if intent.code is not None else ())}
    courtesies = built.courtesies(intent.optional_calls) - judged
    allow = [*intent.allow, *built.allow(chosen, courtesies)]
    allow += [{"table": built.entries[number]["table"]} for number in sorted(judged)]
    verifier: dict[str, Any] = {}
    if expect := built.expect(chosen, judged | courtesies):
        verifier["expect"] = expect
    if allow:
        verifier["allow"] = allow
    if intent.answer is not None:
        verifier["answer"] = intent.answer
    if intent.code is not None:
        verifier["code"] = {"kind": "native", "function": _function(bare)}
    oracle = tuple(
        msgspec.structs.replace(call, optional=number in intent.optional_calls)
        for number, call in enumerate(bare.oracle)
    )
    answer = bare.answer if intent.answer is not None or intent.code is not None else None
    return msgspec.structs.replace(bare, verifier=verifier, oracle=oracle, answer=answer)


def _function(task: Task) -> str:
    return f"verify_{task.id.replace('-', '_')}"


async def _problems(
    bench: Bench, environment: Environment, bare: Task, built: Construction, intent: Intent
) -> Sequence[str]:
    if problems := _misnamed(bare, built, intent):
        return problems
    task = _task(bare, built, intent)
    try:
        if intent.code is None:
            return await held(environment.with_tasks([task]), task)
        draft = _with_code(bench.draft, task, intent.code)
        other = await bench.workshop.opened(draft, bench.members)
        return await held(other, task)
    except (PackInvalid, EnvironmentFault) as error:
        return [str(error)]


def _with_code(draft: Draft, task: Task, code: CodeWanted) -> Draft:
    return draft.with_tasks([task], _verifiers_py({task.id: code.source}))


def _misnamed(bare: Task, built: Construction, intent: Intent) -> list[str]:
    known = {cell.name for cell in built.cells}
    named = [*intent.free, *intent.matchers]
    problems = [f"there is no cell {name!r}" for name in named if name not in known]
    calls = [*intent.optional_calls]
    problems += [f"there is no call {n}" for n in calls if not 0 <= n < len(bare.oracle)]
    if intent.code is None:
        return problems
    entries = intent.code.instead_of
    problems += [f"there is no entry {n}" for n in entries if not 0 <= n < len(built.entries)]
    try:
        tree = ast.parse(intent.code.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [*problems, f"the code is no Python: {error}"]
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if _function(bare) not in names:
        problems.append(f"the code has no function {_function(bare)}")
    return problems


STAGE: Final = Stage("verifier", FILE, make)

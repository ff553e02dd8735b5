"""Stage ``tasks``: what the users of the environment want done. They are its requirements: what
comes after has to make them possible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from environments.spec import Spec
from environments.synthesis.alike import alike
from environments.synthesis.mending import Job, pretty
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.describe import tools_and_rows
from environments.synthesis.stages.shapes import WantedTask
from environments.synthesis.stages.stage import Bench, Product, Stage

_ID: Final = re.compile(r"[a-z][a-z0-9-]{2,39}")


class Requirements(Spec, frozen=True, kw_only=True):
    """``tasks.json``."""

    tasks: Annotated[tuple[WantedTask, ...], msgspec.Meta(min_length=1)]


async def make(bench: Bench) -> Product:
    job = Job(Requirements, await _question(bench), lambda made: _problems(bench, made), pretty)
    made, repairs = await bench.make(job)
    count = len(made.tasks)
    return Product(pretty(made).encode(), repairs, (), count, count)


async def _question(bench: Bench) -> str:
    about = bench.scenario
    values = {"title": about.title, "summary": about.summary, "count": bench.wanted.tasks}
    if about.environments:
        world = await bench.workshop.opened(bench.draft, bench.members)
        return prompt("tasks_of_world", **values, world=tools_and_rows(world))
    listed = {"entities": ", ".join(about.entities), "operations": ", ".join(about.operations)}
    return prompt("tasks", **values, **listed)


async def _problems(bench: Bench, made: Requirements) -> Sequence[str]:
    tasks = made.tasks
    ids = [task.id for task in tasks]
    problems = [f"{one!r} is no id: a-z, then a-z 0-9 -" for one in ids if not _ID.fullmatch(one)]
    problems += [f"two tasks have the id {one!r}" for one in sorted({*ids}) if ids.count(one) > 1]
    if len(tasks) < bench.wanted.tasks:
        problems.append(f"there are {len(tasks)} tasks, {bench.wanted.tasks} are wanted")
    if all(task.question for task in tasks):
        problems.append("no task changes anything")
    for late, early in await alike([task.instruction for task in tasks]):
        problems.append(f"{ids[late]} asks for nearly the same as {ids[early]}")
    return problems


STAGE: Final = Stage("tasks", "tasks.json", make)

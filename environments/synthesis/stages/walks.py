"""Stage ``walks``: more tasks, by walks through the graph of the tools that were made.

They come with their oracle and their verifier; the model only words them. One that it cannot word
is said as templates say it.
"""

from __future__ import annotations

from typing import Final

from environments.spec import Spec, Task
from environments.synthesis.construct import UNJUDGED
from environments.synthesis.journal import Repair
from environments.synthesis.mending import NotMade, pretty
from environments.synthesis.sampling.sampler import SampledTask, Sampler
from environments.synthesis.sampling.worded import STAGE as NAME
from environments.synthesis.sampling.worded import worded
from environments.synthesis.stages.oracle import Solutions
from environments.synthesis.stages.stage import Bench, Product, Stage, each

FILE: Final = "walks.json"


class Walks(Spec, frozen=True, kw_only=True):
    """``walks.json``."""

    tasks: tuple[Task, ...]
    walked: int
    """How many walks were gone."""
    reasons: dict[str, int]
    """Why a walk made no task, and how often."""


async def make(bench: Bench) -> Product:
    solved = bench.read("oracle.json", Solutions).tasks
    known = [
        Task(
            id=one.id,
            instruction=one.instruction,
            verifier=UNJUDGED,
            oracle=one.calls,
            answer=one.answer,
        )
        for one in solved
    ]
    opened = await bench.workshop.opened(bench.draft, bench.members)
    environment = opened.with_tasks(known)
    sampler = await Sampler.open(environment, bench.wanted.seed)
    made = await sampler.sample(bench.wanted.walks, bench.wanted.walk_calls)
    repairs: list[Repair] = []

    async def word(sampled: SampledTask) -> Task:
        try:
            task, mended = await worded(bench.desk, environment, sampled)
        except NotMade as error:
            repairs.extend(error.repairs)
            return sampled.task
        repairs.extend(mended)
        return task

    tasks = await each(made.tasks, word)
    repairs.sort(key=lambda repair: repair.of)
    walks = Walks(tasks=tuple(tasks), walked=made.walks, reasons=made.reasons)
    count = bench.wanted.walks
    return Product(pretty(walks).encode(), repairs, (), count, len(tasks))


STAGE: Final = Stage(NAME, FILE, make)

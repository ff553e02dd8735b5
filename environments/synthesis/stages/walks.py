"""Stage ``walks``: more tasks, by walks through the graph of the tools that were made.

They come with their oracle and their verifier; the model only words them. One that it cannot word
is said as templates say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from environments.spec import Spec, Task
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.mending import NotMade, pretty
from environments.synthesis.sampling.sampler import SampledTask, Sampler, Sampling
from environments.synthesis.sampling.worded import STAGE as NAME
from environments.synthesis.sampling.worded import worded
from environments.synthesis.stages.shapes import Judged
from environments.synthesis.stages.stage import Bench, Product, Stage, each
from environments.synthesis.stages.verifier import with_judged

FILE: Final = "walks.json"
_REASONS: Final = 4


class Walks(Spec, frozen=True, kw_only=True):
    """``walks.json``."""

    tasks: tuple[Task, ...] = ()


async def make(bench: Bench) -> Product:
    wanted = bench.wanted.walks
    if not wanted:
        return Product(pretty(Walks()).encode(), into=0, out_of=0)
    judged = bench.read("verifier.json", Judged)
    environment = await bench.workshop.opened(with_judged(bench.draft, judged), bench.members)
    sampler = await Sampler.open(environment, bench.wanted.seed)
    made = await sampler.sample(wanted, bench.wanted.walk_calls)
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
    body = pretty(Walks(tasks=tuple(tasks))).encode()
    return Product(body, repairs, list(_missing(made, wanted)), wanted, len(tasks))


def _missing(made: Sampling, wanted: int) -> Iterator[Rejection]:
    """Why there are fewer tasks than were wanted."""
    if len(made.tasks) < wanted:
        reasons = "; ".join(f"{count} {why}" for why, count in made.reasons.most_common(_REASONS))
        reason = f"{len(made.tasks)} of {wanted} tasks came of {made.walks} walks: {reasons}"
        yield Rejection(what=NAME, reason=reason)


STAGE: Final = Stage(NAME, FILE, make)

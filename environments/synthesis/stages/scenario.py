"""Stage ``scenario``: from a sentence, or from domains, to the environments that are to be made.

What only shows content is no environment: one needs things it keeps records of, and operations that
change them (AWM's filter). One that says the same as another is asked for again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from environments.catalogue import PACK_NAME
from environments.spec import Spec
from environments.synthesis.alike import Embed, alike
from environments.synthesis.folder import RUNS
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.mending import Job, NotMade, pretty
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.shapes import Scenario
from environments.synthesis.stages.stage import Bench, Product

FILE: Final = "scenario.json"
LEAST_ENTITIES: Final = 4
LEAST_OPERATIONS: Final = 4
MEMBER_CHARACTERS: Final = 16
"""The longest name of an environment that a world mounts: tools have 40 with their prefix."""
_DOMAINS: Final = 12


class Proposal(Spec, frozen=True, kw_only=True):
    """One answer to the sentence: an environment, or several and the world that they make."""

    environments: tuple[Scenario, ...]
    world: Scenario | None = None

    @property
    def every(self) -> tuple[Scenario, ...]:
        return self.environments if self.world is None else (*self.environments, self.world)


class Scenarios(Spec, frozen=True, kw_only=True):
    """``scenario.json``."""

    proposals: tuple[Proposal, ...]


async def scenarios(bench: Bench, embed: Embed | None, taken: Sequence[str]) -> Product:
    """As many proposals as are wanted, each other than those before. ``taken`` names are not free.

    One that cannot be had is rejected; raises ``NotMade`` where none can.
    """
    proposals: list[Proposal] = []
    repairs: list[Repair] = []
    rejected: list[Rejection] = []
    last: NotMade | None = None
    for number in range(1, bench.wanted.count + 1):
        known = tuple(proposals)
        prove = partial(_problems, known=known, embed=embed, taken=taken)
        job = Job(Proposal, _question(bench, number, known), prove, pretty, f"proposal {number}")
        try:
            proposal, mended = await bench.make(job)
        except NotMade as error:
            repairs += error.repairs
            rejected.append(Rejection(what=job.of, reason=error.message))
            last = error
        else:
            proposals.append(proposal)
            first = proposal.every[0].name
            repairs += [msgspec.structs.replace(repair, of=first) for repair in mended]
    if last is not None and not proposals:
        raise last
    body = pretty(Scenarios(proposals=tuple(proposals))).encode()
    return Product(body, repairs, rejected, bench.wanted.count, len(proposals))


def _question(bench: Bench, number: int, known: Sequence[Proposal]) -> str:
    wanted = bench.wanted
    there = [f"- {one.title}: {one.summary}" for proposal in known for one in proposal.environments]
    return prompt(
        "scenario",
        subject=wanted.sentence or _domains(wanted.seed + number),
        number=number,
        count=wanted.count,
        known="\n".join(there) or "None yet.",
        entities=LEAST_ENTITIES,
        operations=LEAST_OPERATIONS,
    )


def _domains(seed: int) -> str:
    """Some of the domains that come with us, for want of a sentence."""
    lines = [line for line in prompt("domains").splitlines() if line]
    chosen = random.Random(seed).sample(lines, _DOMAINS)
    return "a system of your choice from one of these domains: " + "; ".join(chosen)


async def _problems(
    proposal: Proposal, known: Sequence[Proposal], embed: Embed | None, taken: Sequence[str]
) -> list[str]:
    names = [one.name for one in proposal.every]
    occupied = {*taken, *(one.name for other in known for one in other.every), RUNS}
    problems = [f"{name}: this name is taken" for name in names if name in occupied]
    problems += [f"{name}: two have this name" for name in {*names} if names.count(name) > 1]
    longest = MEMBER_CHARACTERS if proposal.world else 40
    for one in proposal.every:
        limit = 40 if one is proposal.world else longest
        if not PACK_NAME.fullmatch(one.name) or "_" in one.name or len(one.name) > limit:
            problems.append(f"{one.name!r} is no name: a-z, then a-z 0-9 -, at most {limit}")
    for one in proposal.environments:
        problems += _no_system(one)
        if one.environments:
            problems.append(f"{one.name} names environments, which only a world mounts")
    if not proposal.environments:
        problems.append("there is no environment")
    if proposal.world is None and len(proposal.environments) > 1:
        problems.append("several environments need a world that mounts them")
    if proposal.world is not None and len(proposal.environments) < 2:
        problems.append("a world mounts at least two environments")
    if problems:
        return problems
    before = [one for other in known for one in other.environments]
    every = [*before, *proposal.environments]
    for late, early in await alike([_told(one) for one in every], embed):
        if late >= len(before):
            problems.append(f"{every[late].name} is too much like {every[early].name}")
    return problems


def _no_system(one: Scenario) -> list[str]:
    """Why it is nothing that keeps records and changes them."""
    problems = []
    if len(set(one.entities)) < LEAST_ENTITIES:
        problems.append(f"{one.name} keeps records of fewer than {LEAST_ENTITIES} things")
    if len(set(one.operations)) < LEAST_OPERATIONS:
        problems.append(
            f"{one.name} has fewer than {LEAST_OPERATIONS} operations that change records: it must "
            "be a system that people work in, not one they only read"
        )
    return problems


def _told(one: Scenario) -> str:
    return f"{one.title}. {one.summary} {', '.join((*one.entities, *one.operations))}"

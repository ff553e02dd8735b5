"""What training is told to do next: named horizon schedules and task samplers, kept in the ledger.

Both go on where they were after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import anyio.to_thread
import msgspec

from environments.catalogue import Catalogue
from environments.errors import PackInvalid
from environments.horizons import HorizonSchedule
from environments.sampling import (
    Candidate,
    Sampler,
    SamplerSpec,
    SamplerState,
    candidates_of,
)
from hub.errors import TooManyKept, UnknownSampler, UnknownSchedule
from hub.ledger import Records
from hub.wire import Terms

SCHEDULES, SAMPLERS, STATES = "schedule", "sampler", "sampler-state"
MAX_KEPT = 1000
"""Schedules a tenant may keep, and samplers."""

T = TypeVar("T")


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, and how far training has come with it."""

    schedule: HorizonSchedule
    training_step: int = 0

    @property
    def horizon(self) -> int:
        return self.schedule.at(self.training_step)


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A sampler, how far it has come, and its tasks."""

    spec: SamplerSpec
    state: SamplerState
    candidates: tuple[Candidate, ...]
    pass_rates: dict[str, float]
    """By ``environment/task``, of those that were tried."""


class Curricula:
    """What all tenants' schedules and samplers are made from, and the samplers in use."""

    def __init__(self, catalogue: Catalogue, ledger: Records) -> None:
        self.ledger = ledger
        self.samplers: dict[tuple[str, str], Sampler] = {}
        self.lock = asyncio.Lock()
        self._catalogue = catalogue
        self._candidates: list[Candidate] | None = None

    def of(self, tenant: str) -> Curriculum:
        """The schedules and samplers of one tenant."""
        return Curriculum(self, tenant)

    async def tasks(self) -> list[Candidate]:
        """Every task there is."""
        if self._candidates is None:
            self._candidates = await anyio.to_thread.run_sync(self._read)
        return self._candidates

    def _read(self) -> list[Candidate]:
        packs = []
        for name in self._catalogue.names():
            try:
                packs.append(self._catalogue.get(name))
            except PackInvalid:
                continue  # the catalogue keeps it in ``invalid``, where the API shows it
        return candidates_of(packs)


class Curriculum:
    """One tenant's schedules and samplers by name."""

    __slots__ = ("_all", "_tenant")

    def __init__(self, all_of_them: Curricula, tenant: str) -> None:
        self._all = all_of_them
        self._tenant = tenant

    # Horizons --------------------------------------------------------------------------------

    async def keep_schedule(self, name: str, schedule: HorizonSchedule) -> Course:
        """Make or replace a schedule; how far training has come stays. Raises ``TooManyKept``."""
        async with self._all.lock:
            known = await self._kept(SCHEDULES, name, Course)
            if known is None:
                await self._require_room(SCHEDULES)
            course = Course(schedule=schedule, training_step=known.training_step if known else 0)
            await self._keep(SCHEDULES, name, course)
            return course

    async def schedule(self, name: str) -> Course:
        """Raises ``UnknownSchedule``."""
        course = await self._kept(SCHEDULES, name, Course)
        if course is None:
            raise UnknownSchedule(
                f"there is no schedule {name!r}", hint="GET /v1/schedules lists them"
            )
        return course

    async def schedules(self) -> list[tuple[str, Course]]:
        return await self._list(SCHEDULES, Course)

    async def advance(self, name: str, training_step: int) -> Course:
        """Say which training step comes now. Raises ``UnknownSchedule``."""
        course = await self.schedule(name)
        if course.training_step != training_step:
            async with self._all.lock:  # nobody replaces or forgets it meanwhile
                course = await self.schedule(name)
                course = msgspec.structs.replace(course, training_step=training_step)
                await self._keep(SCHEDULES, name, course)
        return course

    async def forget_schedule(self, name: str) -> None:
        async with self._all.lock:
            await self._all.ledger.forget(SCHEDULES, name, self._tenant)

    async def settled(self, terms: Terms) -> tuple[int | None, int | None]:
        """The horizon these terms ask for, if any, and the training step they are of.

        A step that is given is where training has come to. Raises ``UnknownSchedule``.
        """
        if terms.schedule is None:
            return terms.horizon, terms.training_step
        if terms.training_step is None:
            course = await self.schedule(terms.schedule)
        else:
            course = await self.advance(terms.schedule, terms.training_step)
        return terms.horizon or course.horizon, course.training_step

    # Samplers --------------------------------------------------------------------------------

    async def keep_sampler(self, name: str, spec: SamplerSpec) -> Drawn:
        """Make or replace a sampler. Its outcomes stay; its order begins anew if it has changed.

        Raises ``NothingToSample`` and ``TooManyKept``.
        """
        async with self._all.lock:
            known = await self._kept(SAMPLERS, name, SamplerSpec)
            if known is None:
                await self._require_room(SAMPLERS)
            state = await self._kept(STATES, name, SamplerState)
            if state is not None and known != spec:
                state = SamplerState(outcomes=state.outcomes)
            sampler = Sampler(spec, await self._all.tasks(), state)
            await self._keep(SAMPLERS, name, spec)
            await self._keep(STATES, name, sampler.state)
            self._all.samplers[self._tenant, name] = sampler
            return _drawn(sampler)

    async def sampler(self, name: str) -> Drawn:
        """Raises ``UnknownSampler``."""
        async with self._all.lock:
            return _drawn(await self._sampler(name))

    async def samplers(self) -> list[tuple[str, SamplerSpec]]:
        return await self._list(SAMPLERS, SamplerSpec)

    async def draw(self, name: str, count: int = 1) -> list[Candidate]:
        """The next tasks. Raises ``UnknownSampler``."""
        async with self._all.lock:
            sampler = await self._sampler(name)
            tasks = [sampler.draw() for _ in range(count)]
            await self._keep(STATES, name, sampler.state)
            return tasks

    async def draw_once(self, spec: SamplerSpec) -> Candidate:
        """The first task of a sampler nobody keeps."""
        return Sampler(spec, await self._all.tasks()).draw()

    async def record(self, name: str, task: tuple[str, str], passed: Sequence[bool]) -> None:
        """Tell a sampler how tries at a task (environment, id) ended. Raises ``UnknownSampler``."""
        async with self._all.lock:
            sampler = await self._sampler(name)
            for each in passed:
                sampler.record(*task, each)
            await self._keep(STATES, name, sampler.state)

    async def forget_sampler(self, name: str) -> None:
        async with self._all.lock:
            self._all.samplers.pop((self._tenant, name), None)
            await self._all.ledger.forget(SAMPLERS, name, self._tenant)
            await self._all.ledger.forget(STATES, name, self._tenant)

    async def _sampler(self, name: str) -> Sampler:
        if (self._tenant, name) not in self._all.samplers:
            spec = await self._kept(SAMPLERS, name, SamplerSpec)
            if spec is None:
                raise UnknownSampler(
                    f"there is no sampler {name!r}", hint="GET /v1/samplers lists them"
                )
            state = await self._kept(STATES, name, SamplerState)
            self._all.samplers[self._tenant, name] = Sampler(spec, await self._all.tasks(), state)
        return self._all.samplers[self._tenant, name]

    # The ledger ------------------------------------------------------------------------------

    async def _require_room(self, kind: str) -> None:
        kept = await self._all.ledger.documents(kind, self._tenant, limit=MAX_KEPT)
        if len(kept) >= MAX_KEPT:
            raise TooManyKept(
                f"there are {len(kept)} {kind}s, as many as one tenant may keep",
                hint=f"DELETE /v1/{kind}s/{{name}} forgets one",
            )

    async def _keep(self, kind: str, name: str, value: object) -> None:
        await self._all.ledger.keep(kind, name, msgspec.json.encode(value), self._tenant)

    async def _kept(self, kind: str, name: str, of: type[T]) -> T | None:
        body = await self._all.ledger.document(kind, name, self._tenant)
        return None if body is None else msgspec.json.decode(body, type=of)

    async def _list(self, kind: str, of: type[T]) -> list[tuple[str, T]]:
        found = await self._all.ledger.documents(kind, self._tenant, limit=MAX_KEPT)
        return [(name, msgspec.json.decode(body, type=of)) for name, body in found]


def _drawn(sampler: Sampler) -> Drawn:
    rates = {task.name: sampler.pass_rate(task) for task in sampler.candidates}
    return Drawn(
        spec=sampler.spec,
        state=sampler.state,
        candidates=tuple(sampler.candidates),
        pass_rates={name: rate for name, rate in rates.items() if rate is not None},
    )

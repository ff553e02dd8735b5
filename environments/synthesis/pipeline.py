"""The run: every environment through its stages, several side by side; worlds after their members.

It ends when all is done, or stops (out of reach, out of budget, interrupted) with every finished
stage on disk, to be gone on with. Either way the record and the report say what there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import msgspec
from msgspec.structs import replace

from environments.catalogue import MANIFEST
from environments.synthesis.alike import Embed
from environments.synthesis.author import Author
from environments.synthesis.folder import RunFolder
from environments.synthesis.journal import (
    EnvironmentRecord,
    Rejection,
    StageOutcome,
    write_record,
)
from environments.synthesis.mending import NotMade
from environments.synthesis.stages import (
    check,
    data,
    oracle,
    schema,
    tasks,
    tools,
    verifier,
    walks,
)
from environments.synthesis.stages.scenario import FILE as SCENARIO
from environments.synthesis.stages.scenario import Proposal, Scenarios, scenarios
from environments.synthesis.stages.shapes import Checked, Scenario
from environments.synthesis.stages.stage import Bench, Product, Stage, each, read_json
from environments.synthesis.workshop import Workshop

AT_ONCE: Final = 4
"""Environments in the making."""
STAGES: Final = (
    tasks.STAGE,
    schema.STAGE,
    data.STAGE,
    tools.SPECIFICATION,
    tools.TOOLS,
    oracle.STAGE,
    verifier.STAGE,
    walks.STAGE,
    check.STAGE,
)
WORLD_STAGES: Final = (tasks.STAGE, oracle.STAGE, verifier.STAGE, walks.STAGE, check.STAGE)
NAMES: Final = ("scenario", *(stage.name for stage in STAGES))


class Told(NamedTuple):
    """One stage of one environment is begun, or done."""

    environment: str
    stage: str
    outcome: StageOutcome | None = None
    known: bool = False
    """Whether it was done before."""
    total: int = 0
    """How many stages the whole run has, as far as it is known."""


class Pipeline:
    """A run, and what it works with."""

    def __init__(
        self,
        folder: RunFolder,
        packs: Path,
        author: Author,
        workshop: Workshop,
        embed: Embed | None = None,
        told: Callable[[Told], None] = lambda told: None,
    ) -> None:
        """Packs that pass go into ``packs``. ``told`` hears of every stage."""
        self._folder = folder
        self._packs = packs
        self._author = author
        self._workshop = workshop
        self._embed = embed
        self._told = told
        self._limiter = anyio.Semaphore(AT_ONCE)
        self._records: dict[str, EnvironmentRecord] = {}
        self._total = 1

    async def run(self) -> list[EnvironmentRecord]:
        """Go through all that is not done yet; what became of every environment.

        The record is written in any case. Raises ``NotMade`` where no environment could be thought
        of, and what stops a run: ``LlmUnavailable``, ``BudgetSpent``, ``RunInvalid``,
        ``InfrastructureFault``.
        """
        try:
            proposals = await self._proposals()
            await each(proposals, self._proposal)
        finally:
            write_record(self._folder.path, self._records.values())
        return list(self._records.values())

    # What there is to be -------------------------------------------------------------------------

    async def _proposals(self) -> Sequence[Proposal]:
        taken = self._taken()

        async def make(bench: Bench) -> Product:
            return await scenarios(bench, self._embed, taken)

        stage = Stage("scenario", SCENARIO, make)
        wanted = self._folder.wanted
        asked = msgspec.json.encode((wanted.sentence, wanted.count, wanted.seed))
        nobody = Scenario(name="", title="-", summary="-", domain="-")
        try:
            body, outcome = await self._stage(stage, nobody, {}, [asked])
        except NotMade as error:
            self._records["scenario"] = _failed(
                EnvironmentRecord(name="scenario", outcome="rejected"), "scenario", error
            )
            raise
        proposals = read_json(body, Scenarios, SCENARIO).proposals
        for proposal in proposals:
            self._total += len(STAGES) * len(proposal.environments)
            self._total += 0 if proposal.world is None else len(WORLD_STAGES)
            for one in proposal.every:
                begun = replace(
                    outcome,
                    into=1,
                    out_of=1,
                    rejected=(),
                    repairs=tuple(r for r in outcome.repairs if r.of == one.name),
                )
                self._records[one.name] = EnvironmentRecord(
                    name=one.name,
                    title=one.title,
                    domain=one.domain,
                    outcome="unfinished",
                    stages=(begun,),
                )
        for lost in outcome.rejected:
            repairs = tuple(one for one in outcome.repairs if one.of == lost.what)
            failed = replace(
                outcome, passed=False, into=1, out_of=0, rejected=(lost,), repairs=repairs
            )
            self._records[lost.what] = EnvironmentRecord(
                name=lost.what, outcome="rejected", reason=lost.reason, stages=(failed,)
            )
        return proposals

    def _taken(self) -> list[str]:
        """Names of packs that are there and not of this run."""
        ours = {path.name for path in (self._folder.path / "environments").glob("*")}
        return [
            path.parent.name
            for path in self._packs.glob(f"*/{MANIFEST}")
            if path.parent.name not in ours
        ]

    # What becomes of it --------------------------------------------------------------------------

    async def _proposal(self, proposal: Proposal) -> None:
        await each(proposal.environments, self._environment)
        if proposal.world is None:
            return
        names = tuple(one.name for one in proposal.environments)
        world = replace(proposal.world, environments=names)
        missing = [name for name in names if self._records[name].outcome != "passed"]
        if missing:
            reason = f"{', '.join(missing)} did not pass"
            self._records[world.name] = _rejected(self._records[world.name], reason)
        else:
            await self._environment(world)

    async def _environment(self, scenario: Scenario) -> None:
        async with self._limiter:
            made: dict[str, bytes] = {}
            about = msgspec.json.encode(scenario)
            others = [self._records[name].digest.encode() for name in scenario.environments]
            for stage in _stages(scenario):
                try:
                    body, outcome = await self._stage(
                        stage, scenario, made, [about, *others, *made.values()]
                    )
                except NotMade as error:
                    self._records[scenario.name] = _failed(
                        self._records[scenario.name], stage.name, error
                    )
                    return
                made[stage.file] = body
                record = self._records[scenario.name]
                self._records[scenario.name] = replace(record, stages=(*record.stages, outcome))
            self._records[scenario.name] = _passed(
                self._records[scenario.name], read_json(made[check.FILE], Checked, check.FILE)
            )

    async def _stage(
        self, stage: Stage, scenario: Scenario, made: dict[str, bytes], parts: Sequence[bytes]
    ) -> tuple[bytes, StageOutcome]:
        """What a stage made: as it is kept, or made now."""
        digest = self._folder.digest(stage.name, parts)
        try:
            body, outcome = self._folder.kept(stage.file, digest, scenario.name)
            if stage is check.STAGE and not (self._packs / scenario.name).is_dir():
                raise KeyError(scenario.name)
        except KeyError:
            self._told(Told(scenario.name, stage.name, total=self._total))
            body, outcome = await self._made(stage, scenario, made)
            self._folder.keep(stage.file, body, digest, outcome, scenario.name)
            known = False
        else:
            known = True
        self._told(Told(scenario.name, stage.name, outcome, known=known, total=self._total))
        return body, outcome

    async def _made(
        self, stage: Stage, scenario: Scenario, made: dict[str, bytes]
    ) -> tuple[bytes, StageOutcome]:
        bench = Bench(
            stage=stage.name,
            scenario=scenario,
            wanted=self._folder.wanted,
            author=self._author,
            workshop=self._workshop,
            run=self._folder.path,
            packs=self._packs,
            made=made,
        )
        started = time.perf_counter()
        product = await stage.make(bench)
        return product.body, StageOutcome(
            stage=stage.name,
            into=product.into,
            out_of=product.out_of,
            seconds=round(time.perf_counter() - started, 3),
            repairs=tuple(product.repairs),
            rejected=tuple(product.rejected),
        )


def _stages(scenario: Scenario) -> Sequence[Stage]:
    return WORLD_STAGES if scenario.environments else STAGES


def _passed(record: EnvironmentRecord, checked: Checked) -> EnvironmentRecord:
    return replace(
        record,
        outcome="passed",
        digest=checked.digest,
        makeup=checked.makeup,
    )


def _failed(record: EnvironmentRecord, stage: str, error: NotMade) -> EnvironmentRecord:
    lost = Rejection(what=record.name, reason=error.message)
    outcome = StageOutcome(
        stage=stage, passed=False, into=1, repairs=error.repairs, rejected=(lost,)
    )
    return _rejected(replace(record, stages=(*record.stages, outcome)), error.message)


def _rejected(record: EnvironmentRecord, reason: str) -> EnvironmentRecord:
    return replace(record, outcome="rejected", reason=reason)

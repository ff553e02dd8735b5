"""The sandbox: run a pack's code on a branch, in processes that may die at any moment.

The gateway owns the state. An operation is sent to some worker with what that worker lacks of the
branch; what comes back is checked and returned as a ``Transition``, which the caller commits.
Nothing of an operation that failed counts, so one that was lost through no fault of the pack is
simply run again on another worker.
"""

from __future__ import annotations

import asyncio
import logging
import math
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from environments.assertions import OK, ProbeCall, ProbeResult
from environments.catalogue import Pack
from environments.errors import EnvironmentFault, FrameRejected, InvalidArguments, WorkerLost
from environments.sandbox import jobs, judging, wire
from environments.sandbox.confine.layers import Layers
from environments.sandbox.crew import Crew
from environments.sandbox.jobs import milliseconds
from environments.sandbox.judging import Judged, Trial
from environments.sandbox.limits import OnEvent, SandboxLimits
from environments.sandbox.pool import Pool
from environments.sandbox.questions import (
    Agenda,
    Told,
    read_description,
    read_nothing,
    read_report,
    require_actor,
)
from environments.sandbox.shares import TENANT
from environments.sandbox.statistics import PoolStatistics, Statistics, statistics_of
from environments.sandbox.transition import Transition, followed, transition_of
from environments.sandbox.wire import Case, Description, Findings, Moment
from environments.sandbox.worker import Overtaken, Question
from environments.spec import CodeVerifier
from environments.trajectory import Step
from snapshots.branch import Branch
from snapshots.pages import Snapshot
from snapshots.store import Recipe

__all__ = [
    "Case",
    "Description",
    "Findings",
    "Judged",
    "Layers",
    "Moment",
    "PoolStatistics",
    "Sandbox",
    "SandboxLimits",
    "Statistics",
    "Transition",
    "Trial",
]

log = logging.getLogger(__name__)


def _warn(kind: str, environment: str, **fields: object) -> None:
    """The default of ``on_event``: says no more than that workers are not held as they should."""
    if kind == "layers" and fields["missing"]:
        log.warning("workers run without these layers of confinement: %s", fields["missing"])


class Sandbox:
    """Workers for any number of packs: ``async with Sandbox(SandboxLimits()) as sandbox``."""

    def __init__(self, limits: SandboxLimits | None = None, on_event: OnEvent = _warn) -> None:
        self.limits = limits or SandboxLimits()
        self._on_event = on_event
        self._crew_now: Crew | None = None
        self._agendas: dict[str, Agenda] = {}
        self._files: tempfile.TemporaryDirectory[str] | None = None

    async def __aenter__(self) -> Self:
        """Start the zygote. Raises ``InfrastructureFault`` if it does not come up."""
        self._crew_now = Crew(self.limits, self._on_event)
        await self._crew_now.nursery()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every process. Calls in flight raise ``InfrastructureFault``. Idempotent."""
        if self._crew_now is not None:
            closing = asyncio.ensure_future(self._crew_now.close())
            await asyncio.shield(closing)
        if self._files is not None:
            self._files.cleanup()
            self._files = None

    async def layers(self) -> Layers:
        """What a worker is held by here; one is started to find out.

        Raises ``InfrastructureFault``.
        """
        loaded = await self._crew.try_out(jobs.probes(self.limits))
        return Layers(loaded.active, loaded.missing)

    # --- preparing ------------------------------------------------------------------------------

    async def build(self, pack: Pack, recipe: Recipe, path: Path) -> None:
        """Write the database of a pack's recipe to ``path``; what a lost worker left there is
        replaced.

        Raises ``PackInvalid`` (which script, statement or row, and why), ``WorkerExited``,
        ``ToolTimedOut`` and ``InfrastructureFault``.
        """

        def request(id: int, view: wire.View | None) -> wire.Request:
            path.unlink(missing_ok=True)
            return wire.Build(id=id, recipe=recipe, path=str(path.absolute()))

        question = Question(
            f"building {pack.spec.name}", self.limits.build_timeout_seconds, request, read_nothing
        )
        await self._ask(self._builders(pack, path), question)

    async def describe(self, pack: Pack, snapshot: Snapshot) -> Description:
        """The pack's tools and tables, as a worker finds them. Raises ``PackInvalid``."""

        def request(id: int, view: wire.View | None) -> wire.Request:
            return wire.Describe(id=id)

        question = Question(
            f"describing {pack.spec.name}",
            self.limits.start_timeout_seconds,
            request,
            read_description,
        )
        found: Description = await self._ask(self._players(pack, snapshot, None), question)
        return found

    # --- what moves an episode --------------------------------------------------------------------

    async def call(
        self, pack: Pack, branch: Branch, moment: Moment, tool: str, arguments: Mapping[str, Any]
    ) -> Transition:
        """Run a tool, then the events that its step of the clock passes. What the tool or its
        arguments did wrong is in ``Transition.error``.

        Raises ``ToolTimedOut``, ``WorkerExited``, ``FrameRejected``, ``PackInvalid`` and
        ``InfrastructureFault``.
        """
        pool = self._players(pack, branch.snapshot, branch)
        done = await self._call(pool, pack, branch, moment, ProbeCall(tool, dict(arguments)))
        due = self._due(pack, moment.clock_ms, done.moment.clock_ms)
        if not due:
            return done
        after = branch.fork()
        if done.delta is not None:
            after.commit(done.delta, ())
        pool = self._players(pack, branch.snapshot, None, aside=True)
        played = await self._play(pool, pack, after, done.moment, due)
        if played.error is not None:
            return Transition(moment=moment, error=played.error, output=done.output)
        return followed(done, played)

    async def _call(
        self, pool: Pool, pack: Pack, branch: Branch, moment: Moment, made: ProbeCall
    ) -> Transition:
        tool, encoded = made.tool, msgspec.json.encode(made.arguments)
        after_ms = moment.clock_ms + milliseconds(pack.spec.clock.step_seconds)

        def request(id: int, view: wire.View | None) -> wire.Request:
            assert view is not None
            return wire.Call(id=id, view=view, moment=moment, tool=tool, arguments=encoded)

        question = Question(tool, pack.spec.limits.call_seconds, request, read_report, branch)
        told: Told = await self._ask(pool, question)
        require_actor(told, tool, "agent", {None})
        after = told.report.moment
        if after is not None and (after.clock_ms, after.seed) != (after_ms, moment.seed):
            raise FrameRejected(f"the worker for {tool} moved the clock or the seed")
        if after is None and told.delta is not None:
            raise FrameRejected(f"the worker for {tool} changed rows in no time")
        return transition_of(told, after or moment, pack)

    async def wait(self, pack: Pack, branch: Branch, moment: Moment, seconds: float) -> Transition:
        """Let time pass; events that come due happen in order, in a worker that no agent ever had
        to do with. The result is the time after.

        Raises ``InvalidArguments`` and what ``call`` raises.
        """
        longest = pack.spec.clock.max_wait_seconds
        if not (math.isfinite(seconds) and 0 < seconds <= longest):
            raise InvalidArguments(f"seconds: must be more than 0 and at most {longest:g}")
        after_ms = moment.clock_ms + milliseconds(seconds)
        now = datetime.fromtimestamp(after_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        due = self._due(pack, moment.clock_ms, after_ms)
        after = msgspec.structs.replace(moment, clock_ms=after_ms)
        if not due:
            return Transition(result={"now": now}, moment=after)
        pool = self._players(pack, branch.snapshot, None, aside=True)
        played = await self._play(pool, pack, branch, moment, due)
        if played.error is not None:
            return played
        after = msgspec.structs.replace(played.moment, clock_ms=after_ms)
        return msgspec.structs.replace(played, result={"now": now}, moment=after)

    async def prepare(
        self, pack: Pack, branch: Branch, moment: Moment, statements: Sequence[str]
    ) -> Transition:
        """Run SQL as the world, at the present moment, in a worker that no agent ever had to do
        with: episodes rest on what comes of it. Raises what ``call`` raises."""
        script = wire.Script(statements=tuple(statements), at_ms=moment.clock_ms)
        pool = self._players(pack, branch.snapshot, None, aside=True)
        return await self._play(pool, pack, branch, moment, (script,))

    # --- judging a run ----------------------------------------------------------------------------

    async def score(
        self,
        pack: Pack,
        trial: Trial,
        verifier: Mapping[str, Any] | None,
        case: Case,
        *,
        rebuild: bool = False,
    ) -> Judged:
        """Judge a run by assertions, in a worker that never loads the pack's code; without a
        ``verifier`` only see whether the run's record is true.

        Raises ``ForgedChanges``, ``PackInvalid``, ``ToolTimedOut``, ``WorkerExited`` and
        ``InfrastructureFault``.
        """
        seconds = self.limits.score_timeout_seconds
        question = judging.scoring(trial, verifier, case, seconds, rebuild=rebuild)
        judged: Judged = await self._ask(self._scorers(pack, trial.initial.snapshot), question)
        return judged

    async def examine(
        self,
        pack: Pack,
        trial: Trial,
        code: CodeVerifier,
        steps: Sequence[Step],
        answer: str | None,
    ) -> Findings:
        """Run a verifier the pack wrote itself, in a worker that never loads its tools.

        Raises ``VerifierFailed``, ``ToolTimedOut``, ``WorkerExited``, ``FrameRejected`` and
        ``InfrastructureFault``.
        """
        snapshot, run = trial.initial.snapshot, (steps, answer)
        folder = self._folder(f"{pack.digest[:16]}-{snapshot.digest[:16]}")
        key = ("examine", pack.digest, snapshot.digest)
        pool = self._pool(key, lambda: jobs.examiners(pack, snapshot, folder, self.limits))
        seconds = self.limits.score_timeout_seconds
        findings: Findings
        if not code.kind.startswith("awm"):
            question = judging.examining(trial, code, None, run, seconds)
            findings = await self._ask(pool, question)
            return findings
        async with judging.database_files(trial, folder) as paths:
            question = judging.examining(trial, code, paths, run, seconds)
            findings = await self._ask(pool, question)
        return findings

    async def probe(
        self, pack: Pack, branch: Branch, moment: Moment, calls: Sequence[ProbeCall]
    ) -> tuple[ProbeResult, ...]:
        """What read-only tools answer on a state, by workers that no agent ever had to do with.

        Raises what ``call`` raises, and ``EnvironmentFault`` for a tool that is at fault.
        """
        results = []
        for call in calls:
            pool = self._players(pack, branch.snapshot, None, aside=True)
            done = await self._call(pool, pack, branch, moment, call)
            if done.error is not None and done.error.kind != "agent":
                raise EnvironmentFault(f"probe {call.tool}: {done.error.message}")
            ended = done.error.code if done.error else OK
            results.append(ProbeResult(ended, done.result))
        return tuple(results)

    def statistics(self) -> Statistics:
        """What is there now; cheap."""
        return statistics_of(self._crew)

    # --- one operation --------------------------------------------------------------------------

    async def _play(
        self,
        pool: Pool,
        pack: Pack,
        branch: Branch,
        moment: Moment,
        scripts: tuple[wire.Script, ...],
    ) -> Transition:
        def request(id: int, view: wire.View | None) -> wire.Request:
            assert view is not None
            return wire.Play(id=id, view=view, moment=moment, scripts=scripts)

        what = f"the events of {pack.spec.name}"
        question = Question(what, pack.spec.limits.call_seconds, request, read_report, branch)
        told: Told = await self._ask(pool, question)
        require_actor(told, what, "environment", {script.event for script in scripts})
        if told.report.error is not None:
            return transition_of(told._replace(delta=None), moment, pack)
        writes = moment.counters.get(wire.WRITES, 0) + 1
        after = msgspec.structs.replace(moment, counters={**moment.counters, wire.WRITES: writes})
        return transition_of(told, after, pack)

    async def _ask(self, pool: Pool, question: Question) -> Any:
        """Put the question to a worker; once more to another if the first was lost."""
        lost, crew = False, self._crew
        while True:
            crew.submit(pool, question)
            try:
                return await question.answer
            except asyncio.CancelledError:
                crew.withdraw(pool, question)
                raise
            except Overtaken:
                question = question.again()
            except WorkerLost:
                if lost:
                    raise
                lost, question = True, question.again()

    @property
    def _crew(self) -> Crew:
        if self._crew_now is None:
            raise RuntimeError("the sandbox is not open: use `async with Sandbox(...)`")
        return self._crew_now

    def _pool(self, key: Hashable, make: Callable[[], Pool]) -> Pool:
        """The pool of that kind that works for whoever asks."""
        crew, tenant = self._crew, TENANT.get()
        pool = crew.pools.get((tenant, key))
        if pool is None:
            pool = crew.pools[tenant, key] = make()
            pool.share = crew.shares.of(tenant)
        return pool

    def _players(
        self, pack: Pack, snapshot: Snapshot, branch: Branch | None, *, aside: bool = False
    ) -> Pool:
        """Workers with the pack's tools: for all its episodes, or for this one alone; ``aside``
        those that are kept from agents."""
        owner = branch if pack.spec.isolation == "episode" else None
        key = ("aside" if aside else "tools", pack.digest, snapshot.digest, id(owner))
        return self._pool(key, lambda: jobs.players(pack, snapshot, owner, self.limits))

    def _scorers(self, pack: Pack, snapshot: Snapshot) -> Pool:
        key = ("score", pack.digest, snapshot.digest)
        return self._pool(key, lambda: jobs.scorers(pack, snapshot, self.limits))

    def _builders(self, pack: Pack, path: Path) -> Pool:
        key = ("build", pack.digest, path)
        return self._pool(key, lambda: jobs.builders(pack, path, self.limits))

    def _folder(self, name: str) -> Path:
        """A folder of this sandbox's own, gone when it closes."""
        if self._files is None:
            self._files = tempfile.TemporaryDirectory(prefix="envhub-states-")
        folder = Path(self._files.name) / name
        folder.mkdir(exist_ok=True)
        return folder

    def _due(self, pack: Pack, after_ms: int, until_ms: int) -> tuple[wire.Script, ...]:
        """The events with a time in (after, until], in order."""
        if not pack.events:
            return ()
        agenda = self._agendas.get(pack.digest)
        if agenda is None:
            agenda = self._agendas[pack.digest] = Agenda(pack)
        return agenda.between(after_ms, until_ms)

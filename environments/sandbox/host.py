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
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from environments.catalogue import Pack
from environments.errors import FrameRejected, InvalidArguments, WorkerLost
from environments.sandbox import jobs, wire
from environments.sandbox.confine.layers import Layers
from environments.sandbox.jobs import milliseconds
from environments.sandbox.pool import Crew, OnEvent, Pool, SandboxLimits
from environments.sandbox.questions import (
    Agenda,
    Told,
    read_components,
    read_description,
    read_nothing,
    read_report,
)
from environments.sandbox.wire import Description, Moment
from environments.sandbox.worker import Overtaken, Question
from environments.trajectory import Change, Component, StepError
from snapshots.branch import Branch
from snapshots.pages import PageDelta, Snapshot

__all__ = [
    "Description",
    "Layers",
    "Moment",
    "Sandbox",
    "SandboxLimits",
    "Statistics",
    "Transition",
]

log = logging.getLogger(__name__)


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation did. Nothing of it is in the branch until the caller commits ``delta``."""

    moment: Moment
    result: Any = None
    error: StepError | None = None
    delta: PageDelta | None = None
    commits: tuple[Change, ...] = ()
    output: str = ""
    """What the tool printed, at most ``limits.output_bytes`` of it."""


class PoolStatistics(msgspec.Struct, frozen=True):
    workers: int
    idle: int
    starting: int
    queued: int


class Statistics(msgspec.Struct, frozen=True):
    """Workers now, and what became of those before."""

    environments: dict[str, PoolStatistics]
    workers: int
    queued: int
    starts: int
    ends: dict[str, int]
    """How many workers ended, by reason: evicted, idle, deadline, exited, lost, frame, …"""
    resident_bytes: int
    """Resident memory of all workers when last sampled, what they share counted each time."""
    layers: tuple[str, ...]
    missing_layers: tuple[str, ...]


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

    async def layers(self) -> Layers:
        """What a worker is held by here; one is started to find out.

        Raises ``InfrastructureFault``.
        """
        loaded = await self._crew.try_out(jobs.probes(self.limits))
        return Layers(loaded.active, loaded.missing)

    # --- preparing ------------------------------------------------------------------------------

    async def build(self, pack: Pack, path: Path) -> None:
        """Write the pack's database to ``path``, which must not exist.

        Raises ``PackInvalid`` (which script, statement or row, and why), ``WorkerExited``,
        ``ToolTimedOut`` and ``InfrastructureFault``.
        """

        def request(id: int, view: wire.View | None) -> wire.Request:
            return wire.Build(id=id, recipe=pack.recipe, path=str(path.absolute()))

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
        """Run a tool. What the tool or its arguments did wrong is in ``Transition.error``.

        Raises ``ToolTimedOut``, ``WorkerExited``, ``FrameRejected``, ``PackInvalid`` and
        ``InfrastructureFault``.
        """
        encoded = msgspec.json.encode(arguments)
        after_ms = moment.clock_ms + milliseconds(pack.spec.clock.step_seconds)
        due = self._due(pack, moment.clock_ms, after_ms)

        def request(id: int, view: wire.View | None) -> wire.Request:
            assert view is not None
            return wire.Call(id=id, view=view, moment=moment, tool=tool, arguments=encoded, due=due)

        question = Question(tool, pack.spec.limits.call_seconds, request, read_report, branch)
        pool = self._players(pack, branch.snapshot, branch)
        told: Told = await self._ask(pool, question)
        after = told.report.moment
        if after is not None and (after.clock_ms, after.seed) != (after_ms, moment.seed):
            raise FrameRejected(f"the worker for {tool} moved the clock or the seed")
        if after is None and told.delta is not None:
            raise FrameRejected(f"the worker for {tool} changed rows in no time")
        return _transition(told, after or moment, pack)

    async def wait(self, pack: Pack, branch: Branch, moment: Moment, seconds: float) -> Transition:
        """Let time pass; events that come due happen in order. The result is the time after.

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
        played = await self._play(pack, branch, moment, due)
        if played.error is not None:
            return played
        after = msgspec.structs.replace(played.moment, clock_ms=after_ms)
        return msgspec.structs.replace(played, result={"now": now}, moment=after)

    async def prepare(
        self, pack: Pack, branch: Branch, moment: Moment, statements: Sequence[str]
    ) -> Transition:
        """Run SQL as the world, at the present moment. Raises what ``call`` raises."""
        script = wire.Script(statements=tuple(statements), at_ms=moment.clock_ms)
        return await self._play(pack, branch, moment, (script,))

    async def score(
        self,
        pack: Pack,
        branch: Branch,
        moment: Moment,
        verifier: Mapping[str, Any],
        changes: Mapping[str, Any],
        answer: str | None,
    ) -> tuple[Component, ...]:
        """Judge ``changes`` on the initial state that ``branch`` is, in a worker without tools.

        Raises ``PackInvalid``, ``ToolTimedOut``, ``WorkerExited`` and ``InfrastructureFault``.
        """
        rules, made = msgspec.json.encode(verifier), msgspec.json.encode(changes)

        def request(id: int, view: wire.View | None) -> wire.Request:
            assert view is not None
            return wire.Score(
                id=id,
                view=view,
                clock_ms=moment.clock_ms,
                verifier=rules,
                changes=made,
                answer=answer,
            )

        seconds = self.limits.score_timeout_seconds
        what = f"scoring {pack.spec.name}"
        question = Question(what, seconds, request, read_components, branch)
        judged: tuple[Component, ...]
        judged = await self._ask(self._scorers(pack, branch.snapshot), question)
        return judged

    def statistics(self) -> Statistics:
        """What is there now; cheap."""
        crew = self._crew
        environments: dict[str, PoolStatistics] = {}
        for pool in crew.pools.values():
            before = environments.get(pool.environment, PoolStatistics(0, 0, 0, 0))
            environments[pool.environment] = PoolStatistics(
                before.workers + pool.workers,
                before.idle + len(pool.idle),
                before.starting + pool.starting,
                before.queued + len(pool.waiters),
            )
        return Statistics(
            environments,
            sum(each.workers for each in environments.values()),
            sum(each.queued for each in environments.values()),
            crew.starts,
            dict(crew.ends),
            crew.resident_bytes,
            crew.layers.active,
            crew.layers.missing,
        )

    # --- one operation --------------------------------------------------------------------------

    async def _play(
        self, pack: Pack, branch: Branch, moment: Moment, scripts: tuple[wire.Script, ...]
    ) -> Transition:
        def request(id: int, view: wire.View | None) -> wire.Request:
            assert view is not None
            return wire.Play(id=id, view=view, moment=moment, scripts=scripts)

        what = f"the events of {pack.spec.name}"
        question = Question(what, pack.spec.limits.call_seconds, request, read_report, branch)
        pool = self._players(pack, branch.snapshot, branch)
        told: Told = await self._ask(pool, question)
        if told.report.error is not None:
            return _transition(told._replace(delta=None), moment, pack)
        writes = moment.counters.get(wire.WRITES, 0) + 1
        after = msgspec.structs.replace(moment, counters={**moment.counters, wire.WRITES: writes})
        return _transition(told, after, pack)

    async def _ask(self, pool: Pool, question: Question) -> Any:
        """Put the question to a worker; once more to another if the first was lost."""
        lost = False
        while True:
            try:
                return await self._ask_once(pool, question)
            except Overtaken:
                question = question.again()
            except WorkerLost:
                if lost:
                    raise
                lost, question = True, question.again()

    async def _ask_once(self, pool: Pool, question: Question) -> Any:
        crew = self._crew
        crew.submit(pool, question)
        try:
            return await question.answer
        except asyncio.CancelledError:
            crew.withdraw(pool, question)
            raise

    @property
    def _crew(self) -> Crew:
        if self._crew_now is None:
            raise RuntimeError("the sandbox is not open: use `async with Sandbox(...)`")
        return self._crew_now

    def _pool(self, key: Hashable, make: Callable[[], Pool]) -> Pool:
        pool = self._crew.pools.get(key)
        if pool is None:
            pool = self._crew.pools[key] = make()
        return pool

    def _players(self, pack: Pack, snapshot: Snapshot, branch: Branch | None) -> Pool:
        """Workers with the pack's tools: for all its episodes, or for this one alone."""
        owner = branch if pack.spec.isolation == "episode" else None
        key = ("tools", pack.digest, snapshot.digest, id(owner))
        return self._pool(key, lambda: jobs.players(pack, snapshot, owner, self.limits))

    def _scorers(self, pack: Pack, snapshot: Snapshot) -> Pool:
        key = ("score", pack.digest, snapshot.digest)
        return self._pool(key, lambda: jobs.scorers(pack, snapshot, self.limits))

    def _builders(self, pack: Pack, path: Path) -> Pool:
        key = ("build", pack.digest, path)
        return self._pool(key, lambda: jobs.builders(pack, path, self.limits))

    def _due(self, pack: Pack, after_ms: int, until_ms: int) -> tuple[wire.Script, ...]:
        """The events with a time in (after, until], in order."""
        if not pack.events:
            return ()
        agenda = self._agendas.get(pack.digest)
        if agenda is None:
            agenda = self._agendas[pack.digest] = Agenda(pack)
        return agenda.between(after_ms, until_ms)


def _transition(told: Told, moment: Moment, pack: Pack) -> Transition:
    report = told.report
    return Transition(
        moment=moment,
        result=report.result,
        error=report.error,
        delta=told.delta,
        commits=told.commits,
        output=report.output[: pack.spec.limits.output_bytes + 64],
    )

"""Every live episode by its id, and the one way all transports call a tool.

After a restart, and once its lease ran out, an episode is resumed from the ledger when somebody
asks for it.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from environments.environment import Environments
from environments.episode import Episode
from environments.errors import EnvhubError
from environments.journal import Closed
from environments.trajectory import Reward, Step
from environments.verifier import RewardMode
from hub.admission import Admission, Share, Tenure
from hub.auth import LOCAL, Principal
from hub.curriculum import Curricula
from hub.errors import EpisodeGone, KeyReused, unknown_episode
from hub.ids import new_id
from hub.leases import Leases
from hub.ledger import EpisodeRow, Records
from hub.telemetry import CALL, Metrics, Readings, logger
from hub.trajectories import Trajectories
from hub.turns import Turns
from hub.wire import CreateEpisode, Enrolment

KEPT_CLOSED = 256
TENANTS_TOLD = 50  # those that hold the most have a metric of their own

log = logger("hub.episodes")


class Episodes:
    """The hub's episodes. ``ledger`` decides what survives a restart."""

    def __init__(
        self,
        environments: Environments,
        ledger: Records,
        metrics: Metrics,
        curricula: Curricula,
        tenure: Tenure = Tenure(),  # noqa: B008 - frozen
    ) -> None:
        self.environments = environments
        self.ledger = ledger
        self.metrics = metrics
        self.curricula = curricula
        self.tenure = tenure
        self.trajectories = Trajectories(ledger)
        self.leases = Leases(tenure.lease_seconds)
        self.admission = Admission(tenure.max_episodes, self.leases.next_seconds)
        self.finished = asyncio.Event()
        """Set and replaced each time an episode is closed."""
        self.when_closed: list[Callable[[EpisodeRow, Episode], Awaitable[None]]] = []
        self._live: dict[str, Episode] = {}
        self._closed: OrderedDict[str, Episode] = OrderedDict()
        self._parked: WeakValueDictionary[str, Episode] = WeakValueDictionary()
        self._turns = Turns()
        self._log = log.bind()
        self._run = secrets.token_hex(3)
        self._call_numbers = itertools.count(1)

    # Life ------------------------------------------------------------------------------------

    async def create(self, request: CreateEpisode, principal: Principal = LOCAL) -> Episode:
        """Begin an episode, or answer the one its tenant began with the same key.

        Raises what ``Environments.get`` and ``Episode.start`` do, ``AtCapacity``,
        ``UnknownSchedule`` and ``KeyReused``.
        """
        if request.key is None:
            return (await self.begin(request, [new_id("ep")], principal))[0]
        episode_id = new_id("ep", request.key, principal.tenant)
        async with self._turns.of(episode_id):
            row = await self.ledger.row(episode_id)
            if row is None:
                return (await self.begin(request, [episode_id], principal))[0]
        asked = (request.environment, request.task, request.seed)
        if (row.environment, row.task, row.seed) != asked:
            raise KeyReused(
                f"the key {request.key!r} began an episode of {row.environment}",
                hint="a key names one request; retries repeat it",
            )
        return await self.lookup(episode_id)

    async def begin(
        self,
        request: CreateEpisode,
        ids: Sequence[str],
        principal: Principal,
        group: str | None = None,
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Episode]:
        """Begin an episode for each id where the task begins, all or none, even if cancelled.

        What is written ``beside`` goes to the disk together with them.
        """
        horizon, training_step = await self.curricula.of(principal.tenant).settled(request)
        faults = request.faults
        if faults is None and request.fault_curriculum is not None:
            faults = request.fault_curriculum.at(training_step or 0)
        environment = (await self.environments.get(request.environment)).under(faults)
        enrolments = {
            each: Enrolment(
                repetition=repetition,
                policy_version=request.policy_version,
                training_step=training_step,
                window=request.window,
                lease_seconds=request.lease_seconds,
            )
            for repetition, each in enumerate(ids)
        }
        share = Share(principal.tenant, principal.quota.limits.episodes)
        async with self.admission.room(len(ids), share, request.wait_seconds):
            with self.ledger.enrolling(group, enrolments, principal.tenant):
                beginning = asyncio.gather(
                    *(
                        Episode.start(
                            environment,
                            task=request.task,
                            seed=request.seed,
                            horizon=horizon,
                            id=each,
                            journal=self.ledger,
                            malformed=request.malformed,
                        )
                        for each in ids
                    ),
                    *((beside(),) if beside else ()),
                    return_exceptions=True,
                )
                try:
                    begun = await asyncio.shield(beginning)
                except asyncio.CancelledError as given_up:
                    begun = [given_up, *await beginning]
            episodes = [each for each in begun if isinstance(each, Episode)]
            if failed := [each for each in begun if isinstance(each, BaseException)]:
                await asyncio.gather(*(each.close() for each in episodes), return_exceptions=True)
                raise failed[0]
        for episode in episodes:
            self._enter(episode, request.lease_seconds)
        about = {"task": request.task, "seed": request.seed, "group": group, "count": len(ids)}
        self._happened("created", episodes[0], tenant=principal.tenant, **about)
        self.metrics.episode("created", len(ids) - 1)
        return episodes

    async def lookup(self, episode_id: str, at_most: int = 0) -> Episode:
        """The episode, resumed if its tenant may hold it, its lease begun anew; or a closed one.

        Raises ``UnknownEpisode``, ``AtCapacity``, and ``EpisodeGone`` for a closed one of which
        nothing was kept.
        """
        episode = self.live(episode_id)
        if episode is not None:
            return episode
        return self._closed.get(episode_id) or await self._resume(episode_id, at_most)

    async def fork(self, episode_id: str, count: int = 1, at_most: int = 0) -> list[Episode]:
        """``count`` episodes that stand where this one stands. Raises ``AtCapacity``."""
        parent = await self.lookup(episode_id, at_most)
        tenant = (await self.ledger.row(episode_id) or LOCAL).tenant
        await self.admission.admit(count, Share(tenant, at_most))
        children: list[Episode] = []
        try:
            for _ in range(count):
                child_id = new_id("ep")
                with self.ledger.enrolling(None, {child_id: Enrolment()}, tenant):
                    child = await parent.fork(child_id)
                children.append(child)
                self._enter(child, self.leases.seconds(parent.id))
                self._happened("forked", child, parent=parent.id)
        finally:
            self.admission.release(count - len(children), tenant)
        return children

    async def close(self, episode_id: str) -> None:
        """End an episode. Closing twice is fine, and so is one whose pack is gone or has changed.

        Raises ``UnknownEpisode``.
        """
        episode = self._live.get(episode_id) or self._closed.get(episode_id)
        if episode is None:
            async with self._turns.of(episode_id):
                episode = self._live.get(episode_id)
                if episode is None:
                    await self._close_at_rest(episode_id)
                    return
        row = await self.ledger.row(episode_id)
        await episode.close()
        if row is not None and episode_id in self._live:
            self._leave(episode_id, row.tenant)
            self._remember_closed(episode)
            self._happened("closed", episode, steps=len(episode.steps))
            await self.trajectories.keep(episode, row)
            for told in self.when_closed:
                await told(row, episode)
            self._ring()

    # Leases ----------------------------------------------------------------------------------

    async def park(self, episode_id: str) -> None:
        """Let go of an episode until somebody asks for it again; a busy one stays.

        Where nothing is recorded there is nothing to wait in, and it is closed.
        """
        if not self.ledger.keeps_pages:
            await self.close(episode_id)
            return
        async with self._turns.of(episode_id):
            episode = self._live.get(episode_id)
            if self.leases.held(episode_id) or (episode is not None and episode.busy):
                self.leases.touch(episode_id)
                return
            row = await self.ledger.row(episode_id)
            if row is None or row.status in ("closed", "parked"):
                return
            # who looks for it from here on waits for this turn, and then resumes it
            if episode is not None:
                self._parked[episode_id] = self._live.pop(episode_id)
            try:
                await self.ledger.park(episode_id)
            except BaseException:
                if episode is not None:
                    self._live[episode_id] = self._parked.pop(episode_id)
                self.leases.touch(episode_id)
                raise
            if episode is not None:
                self.admission.release(1, row.tenant)
            self.leases.drop(episode_id)
        self.metrics.episode("parked")
        self._log.info("episode", what="parked", episode_id=episode_id)

    async def expire(self, episode_id: str) -> None:
        """Close a parked episode that nobody came back to."""
        async with self._turns.of(episode_id):
            if episode_id not in self._live:
                await self._close_at_rest(episode_id)
                self.metrics.episode("expired")

    # Calls -----------------------------------------------------------------------------------

    async def call(
        self,
        episode: Episode,
        tool: str,
        arguments: Mapping[str, Any],
        call_key: str | None = None,
        principal: Principal = LOCAL,
    ) -> Step:
        """Take one step, counted, timed and logged; every transport comes through here.

        Raises what ``Episode.call`` raises.
        """
        episode = await self._current(episode)
        environment = episode.environment.name
        self.leases.hold(episode.id)
        told = CALL.set((episode.id, self._run, next(self._call_numbers)))
        started = time.perf_counter()
        try:
            step = await episode.call(tool, arguments, call_key=call_key)
            seconds = time.perf_counter() - started
            if step.error is None:
                self.metrics.call(environment, "ok", seconds)
            else:
                self.metrics.call(environment, step.error.kind, seconds)
                self._fault(step.error.kind, step.error.code, tool, step.error.message)
            if step.error is not None and step.error.kind == "agent":
                tool = ""  # it may be anything at all
            self._log.debug("call", tool=tool, step=step.index, seconds=round(seconds, 6))
            return step
        except EnvhubError as error:
            self.metrics.call(environment, error.kind, time.perf_counter() - started)
            self._fault(error.kind, error.code, tool, str(error))
            raise
        finally:
            self.leases.let_go(episode.id)
            CALL.reset(told)

    async def score(
        self, episode: Episode, answer: str | None = None, mode: RewardMode | None = None
    ) -> Reward:
        """Judge the run so far; see ``Episode.score``."""
        episode = await self._current(episode)
        reward = await episode.score(answer, mode)
        if reward.value is not None:
            self.metrics.reward(episode.environment.name, reward.value)
        if reward.failure_kind is not None:
            self._fault(reward.failure_kind, "NOT_SCORED", "", reward.reason)
        self._happened("scored", episode, reward=reward.value, outcome=reward.outcome)
        if episode.closed:
            await self.trajectories.keep(episode, await self.ledger.row(episode.id))
        return reward

    def live(self, episode_id: str) -> Episode | None:
        """The episode if it is in memory and not closed; its lease begins anew."""
        episode = self._live.get(episode_id)
        if episode is not None:
            self.leases.touch(episode_id)
        return episode

    def readings(self) -> Readings:
        """What is cheaper to read at a scrape than to keep counted."""
        dirty = sum(episode.branch.dirty_bytes for episode in self._live.values())
        return {
            "envhub_live_episodes": {(): self.ledger.live},
            "envhub_resident_episodes": {(): len(self._live)},
            "envhub_tenant_resident_episodes": {
                (("tenant", tenant),): count
                for tenant, count in self.admission.held.most_common(TENANTS_TOLD)
            },
            "envhub_dirty_bytes": {(): dirty},
        }

    # Within ----------------------------------------------------------------------------------

    async def _resume(self, episode_id: str, at_most: int) -> Episode:
        async with self._turns.of(episode_id):
            known = self._live.get(episode_id) or self._closed.get(episode_id)
            if known is not None:  # another caller resumed it meanwhile
                return known
            return await self._replay(episode_id, at_most)

    async def _replay(self, episode_id: str, at_most: int) -> Episode:
        row = await self.ledger.row(episode_id)
        if row is None:
            raise unknown_episode(episode_id, self._live)
        records = await self.ledger.records(episode_id)
        if not records:
            raise EpisodeGone(
                f"episode {episode_id} is closed and was not recorded",
                hint="run the hub with --durability step to keep closed episodes",
            )
        environment = await self.environments.get(row.environment)
        if row.status == "closed":
            episode = await Episode.replay(environment, episode_id, records, self.ledger)
            self._remember_closed(episode)
            return episode
        async with self.admission.room(1, Share(row.tenant, at_most)):
            episode = await Episode.replay(environment, episode_id, records, self.ledger)
            await self.ledger.wake(episode_id)
        self._enter(episode, row.enrolled.lease_seconds)
        self._happened("resumed", episode, steps=len(episode.steps))
        return episode

    async def _current(self, episode: Episode) -> Episode:
        """The episode as it is now: whoever holds a connection may hold one parked meanwhile."""
        stale = self._parked and self._parked.get(episode.id) is episode
        return await self.lookup(episode.id) if stale else episode

    def _enter(self, episode: Episode, lease_seconds: float | None) -> None:
        self._live[episode.id] = episode
        self.leases.grant(episode.id, lease_seconds)

    def _leave(self, episode_id: str, tenant: str) -> None:
        self.leases.drop(episode_id)
        if self._live.pop(episode_id, None) is not None:
            self.admission.release(1, tenant)

    async def _close_at_rest(self, episode_id: str) -> None:
        """Close what is not in memory, without playing it again; its pack may be gone."""
        row = await self.ledger.row(episode_id)
        if row is None:
            raise unknown_episode(episode_id, self._live)
        if row.status != "closed":
            await self.ledger.append(episode_id, Closed())
            self.leases.drop(episode_id)
            self._ring()

    def _ring(self) -> None:
        self.finished.set()
        self.finished = asyncio.Event()

    def _remember_closed(self, episode: Episode) -> None:
        self._closed[episode.id] = episode
        while len(self._closed) > KEPT_CLOSED:
            self._closed.popitem(last=False)

    def _happened(self, event: str, episode: Episode, **fields: Any) -> None:
        self.metrics.episode(event)
        name = episode.environment.name
        self._log.info("episode", what=event, episode_id=episode.id, environment=name, **fields)

    def _fault(self, kind: str, code: str, tool: str, message: str) -> None:
        self.metrics.fault(kind, code)
        if kind != "agent":
            # what a pack says may be what it was told: that is in the step's record alone
            said = {"message": message} if kind == "infrastructure" else {}
            self._log.warning("fault", kind=kind, code=code, tool=tool, **said)

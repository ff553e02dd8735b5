"""Every live episode by its id, and the one way all transports call a tool.

After a restart an episode is resumed from the ledger when somebody first asks for it.
"""

from __future__ import annotations

import asyncio
import difflib
import itertools
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from environments.environment import Environments
from environments.episode import Episode
from environments.errors import (
    EnvhubError,
    EnvironmentChanged,
    EnvironmentFault,
    UnknownEnvironment,
)
from environments.journal import Closed
from environments.trajectory import Reward, Step
from environments.verifier import RewardMode
from hub.errors import EpisodeGone, UnknownEpisode
from hub.ledger import EpisodeRow, Records
from hub.telemetry import Metrics, Readings, logger
from hub.wire import CreateEpisode, EpisodeQuery

SEAT_HORIZON = 1_000_000
"""A person's seat is not a run that is judged: it has no horizon to speak of."""
KEPT_CLOSED = 256
SEARCHED_FOR_MATCHES = 500

log = logger("hub.episodes")


class Episodes:
    """The hub's episodes. ``ledger`` decides what survives a restart."""

    def __init__(self, environments: Environments, ledger: Records, metrics: Metrics) -> None:
        self.environments = environments
        self.ledger = ledger
        self.metrics = metrics
        self._live: dict[str, Episode] = {}
        self._closed: OrderedDict[str, Episode] = OrderedDict()
        self._resuming: dict[str, asyncio.Lock] = {}
        self._seats: dict[tuple[str, str], str] = {}
        self._seating: dict[tuple[str, str], asyncio.Lock] = {}
        self._log = log.bind()
        self._run = secrets.token_hex(3)
        self._call_numbers = itertools.count(1)

    # Life ------------------------------------------------------------------------------------

    async def create(self, request: CreateEpisode) -> Episode:
        """Begin an episode. Raises what ``Environments.get`` and ``Episode.start`` do."""
        environment = await self.environments.get(request.environment)
        episode = await Episode.start(
            environment.under(request.faults),
            task=request.task,
            seed=request.seed,
            horizon=request.horizon,
            id=_new_id(),
            journal=self.ledger,
            malformed=request.malformed,
        )
        self._live[episode.id] = episode
        self._happened("created", episode, task=request.task, seed=request.seed)
        return episode

    async def lookup(self, episode_id: str) -> Episode:
        """The episode, resumed if need be; a closed one can still be read.

        Raises ``UnknownEpisode``, and ``EpisodeGone`` for a closed one of which nothing was kept.
        """
        episode = self._live.get(episode_id) or self._closed.get(episode_id)
        return episode if episode is not None else await self._resume(episode_id)

    async def fork(self, episode_id: str, count: int = 1) -> list[Episode]:
        """``count`` episodes that stand where this one stands."""
        parent = await self.lookup(episode_id)
        children = []
        for _ in range(count):
            child = await parent.fork(_new_id())
            self._live[child.id] = child
            self._happened("forked", child, parent=parent.id)
            children.append(child)
        return children

    async def close(self, episode_id: str) -> None:
        """End an episode. Closing twice is fine, and so is one whose pack is gone or has changed.

        Raises ``UnknownEpisode``.
        """
        try:
            episode = await self.lookup(episode_id)
        except EpisodeGone:
            return
        except (EnvironmentChanged, EnvironmentFault, UnknownEnvironment):
            row = await self.ledger.row(episode_id)
            if row is not None and row.status != "closed":
                await self.ledger.append(episode_id, Closed())
            return
        await episode.close()
        self._remember_closed(episode)
        if self._live.pop(episode_id, None) is not None:
            self._happened("closed", episode, steps=len(episode.steps))

    async def seat(self, environment: str, key: str) -> Episode:
        """The episode of a session or a named seat: begun on first use, kept over restarts.

        A seat whose episode was closed, or whose pack has changed since, is given a new one.
        """
        place = (environment, key)
        sitting = self._live.get(self._seats.get(place, ""))
        if sitting is not None:
            return sitting
        async with self._seating.setdefault(place, asyncio.Lock()):
            try:
                return await self._sit(environment, key)
            finally:
                self._seating.pop(place, None)

    async def index(self, query: EpisodeQuery) -> Sequence[EpisodeRow]:
        """Index rows of episodes, in the order they were opened."""
        return await self.ledger.rows(
            environment=query.environment,
            status=query.status or "",
            after=int(query.after) if query.after.isdigit() else 0,
            limit=query.limit,
        )

    # Calls -----------------------------------------------------------------------------------

    async def call(
        self,
        episode: Episode,
        tool: str,
        arguments: Mapping[str, Any],
        call_key: str | None = None,
    ) -> Step:
        """Take one step, counted, timed and logged; every transport comes through here.

        Raises what ``Episode.call`` raises.
        """
        environment = episode.environment.name
        call_id = f"{self._run}-{next(self._call_numbers)}"
        structlog.contextvars.bind_contextvars(episode_id=episode.id, call_id=call_id)
        started = time.perf_counter()
        try:
            step = await episode.call(tool, arguments, call_key=call_key)
            seconds = time.perf_counter() - started
            if step.error is None:
                self.metrics.call(environment, "ok", seconds)
            else:
                self.metrics.call(environment, step.error.kind, seconds)
                self._fault(step.error.kind, step.error.code, tool, step.error.message)
            self._log.debug("call", tool=tool, step=step.index, seconds=round(seconds, 6))
            return step
        except EnvhubError as error:
            self.metrics.call(environment, error.kind, time.perf_counter() - started)
            self._fault(error.kind, error.code, tool, str(error))
            raise
        finally:
            structlog.contextvars.unbind_contextvars("episode_id", "call_id")

    async def score(
        self, episode: Episode, answer: str | None = None, mode: RewardMode | None = None
    ) -> Reward:
        """Judge the run so far; see ``Episode.score``."""
        reward = await episode.score(answer, mode)
        if reward.value is not None:
            self.metrics.reward(episode.environment.name, reward.value)
        if reward.failure_kind is not None:
            self._fault(reward.failure_kind, "NOT_SCORED", "", reward.reason)
        self._happened("scored", episode, reward=reward.value, outcome=reward.outcome)
        return reward

    def readings(self) -> Readings:
        """What is cheaper to read at a scrape than to keep counted."""
        dirty = sum(episode.branch.dirty_bytes for episode in self._live.values())
        return {
            "envhub_live_episodes": {(): self.ledger.live},
            "envhub_resident_episodes": {(): len(self._live)},
            "envhub_dirty_bytes": {(): dirty},
        }

    # Within ----------------------------------------------------------------------------------

    async def _resume(self, episode_id: str) -> Episode:
        async with self._resuming.setdefault(episode_id, asyncio.Lock()):
            try:
                if episode_id in self._live:  # another caller resumed it meanwhile
                    return self._live[episode_id]
                return await self._replay(episode_id)
            finally:
                self._resuming.pop(episode_id, None)

    async def _replay(self, episode_id: str) -> Episode:
        row = await self.ledger.row(episode_id)
        if row is None:
            raise self._unknown(episode_id)
        records = await self.ledger.records(episode_id)
        if not records:
            raise EpisodeGone(
                f"episode {episode_id} is closed and was not recorded",
                hint="run the hub with --durability step to keep closed episodes",
            )
        environment = await self.environments.get(row.environment)
        episode = await Episode.replay(environment, episode_id, records, self.ledger)
        if episode.closed:
            self._remember_closed(episode)
        else:
            self._live[episode_id] = episode
            self._happened("resumed", episode, steps=len(episode.steps))
        return episode

    async def _sit(self, environment: str, key: str) -> Episode:
        episode_id = await self.ledger.seat(environment, key)
        if episode_id is not None:
            try:
                episode = await self.lookup(episode_id)
                if not episode.closed:
                    self._seats[environment, key] = episode_id
                    return episode
            except (UnknownEpisode, EpisodeGone, EnvironmentChanged) as error:
                self._log.info("seat emptied", environment=environment, reason=error.code)
        episode = await self.create(CreateEpisode(environment=environment, horizon=SEAT_HORIZON))
        await self.ledger.keep_seat(environment, key, episode.id)
        self._seats[environment, key] = episode.id
        return episode

    def _remember_closed(self, episode: Episode) -> None:
        self._closed[episode.id] = episode
        while len(self._closed) > KEPT_CLOSED:
            self._closed.popitem(last=False)

    def _unknown(self, episode_id: str) -> UnknownEpisode:
        # a typo in a random id is rare: searching the newest few keeps a flood of them cheap
        recent = list(itertools.islice(reversed(self._live), SEARCHED_FOR_MATCHES))
        close = difflib.get_close_matches(episode_id, recent, n=3, cutoff=0.8)
        hint = f"did you mean {', '.join(close)}?" if close else "GET /v1/episodes lists them"
        return UnknownEpisode(f"there is no episode {episode_id!r}", hint=hint)

    def _happened(self, event: str, episode: Episode, **fields: Any) -> None:
        self.metrics.episode(event)
        self._log.info(
            "episode",
            what=event,
            episode_id=episode.id,
            environment=episode.environment.name,
            **fields,
        )

    def _fault(self, kind: str, code: str, tool: str, message: str) -> None:
        self.metrics.fault(kind, code)
        if kind != "agent":
            self._log.warning("fault", kind=kind, code=code, tool=tool, message=message)


def _new_id() -> str:
    return f"ep-{secrets.token_hex(10)}"

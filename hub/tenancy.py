"""The hub as one principal sees it: what is another tenant's is not there.

Every route is given these and nothing behind them, so that none can forget to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from environments.environment import Environments
from environments.episode import Episode
from environments.errors import EnvhubError
from environments.trajectory import Reward, Step, Trajectory
from environments.verifier import RewardMode
from hub.auth import Principal
from hub.episodes import Episodes
from hub.errors import unknown_episode
from hub.groups import Group, Groups, Standing, unknown_group
from hub.ledger import EpisodeRow, RowQuery
from hub.telemetry import logger
from hub.training import CreateGroup
from hub.wire import CreateEpisode, Transcript

log = logger("hub.tenancy")


class OwnEpisodes:
    """The episodes a principal sees; every method raises ``UnknownEpisode`` for any other."""

    __slots__ = ("_episodes", "principal")

    def __init__(self, episodes: Episodes, principal: Principal) -> None:
        self._episodes = episodes
        self.principal = principal

    @property
    def environments(self) -> Environments:
        return self._episodes.environments

    @property
    def lease_seconds(self) -> float:
        """What a lease is where nobody asks for another."""
        return self._episodes.tenure.lease_seconds

    @property
    def _at_most(self) -> int:
        return self.principal.quota.limits.episodes

    # One at a time ---------------------------------------------------------------------------

    async def create(self, request: CreateEpisode) -> Episode:
        """See ``Episodes.create``."""
        return await self._episodes.create(request, self.principal)

    async def lookup(self, episode_id: str) -> Episode:
        """See ``Episodes.lookup``."""
        if not self.principal.sees_all:
            await self.row(episode_id)
        return await self._episodes.lookup(episode_id, self._at_most)

    async def row(self, episode_id: str) -> EpisodeRow:
        """Its line in the ledger's index."""
        row = await self._episodes.ledger.row(episode_id)
        if row is None or not self.principal.sees(row.tenant):
            raise unknown_episode(episode_id)
        return row

    def call(
        self,
        episode: Episode,
        tool: str,
        arguments: Mapping[str, Any],
        call_key: str | None = None,
    ) -> Coroutine[Any, Any, Step]:
        """See ``Episodes.call``; the episode was looked up here."""
        step = self._episodes.call(episode, tool, arguments, call_key, self.principal)
        return self._weighed(episode, step) if self.principal.quota.weighs else step

    async def _weighed(self, episode: Episode, step: Coroutine[Any, Any, Step]) -> Step:
        before = episode.branch.dirty_bytes
        try:
            return await step
        finally:
            self.principal.quota.weigh(max(0, episode.branch.dirty_bytes - before))

    def batch(self, count: int) -> None:
        """A request that is ``count`` in one. Raises ``QuotaExceeded``."""
        if count > 1:
            self.principal.quota.call(count - 1)  # one was taken at the gate

    async def score(self, episode: Episode, answer: str | None, mode: RewardMode | None) -> Reward:
        """See ``Episodes.score``; the episode was looked up here."""
        return await self._episodes.score(episode, answer, mode)

    async def fork(self, episode_id: str, count: int) -> list[Episode]:
        """See ``Episodes.fork``."""
        await self.lookup(episode_id)
        return await self._episodes.fork(episode_id, count, self._at_most)

    async def close(self, episode_id: str) -> None:
        """See ``Episodes.close``."""
        if not self.principal.sees_all:
            await self.row(episode_id)
        await self._episodes.close(episode_id)

    # Leases ----------------------------------------------------------------------------------

    def leased_for(self, episode: Episode) -> float | None:
        """How long its lease is, in seconds."""
        return self._episodes.leases.seconds(episode.id)

    async def renew(self, episode_id: str) -> float | None:
        """Begin its lease anew: its length in seconds, ``None`` if it has none or is not there."""
        leases = self._episodes.leases
        if leases.seconds(episode_id) is None:
            return None
        row = await self._episodes.ledger.row(episode_id)
        if row is None or not self.principal.sees(row.tenant):
            return None
        return leases.touch(episode_id)

    async def park(self, episode_id: str) -> float | None:
        """See ``Episodes.park``; what is left of its lease if it was busy."""
        await self.lookup(episode_id)
        await self._episodes.park(episode_id)
        return self._episodes.leases.seconds(episode_id)

    # Many ------------------------------------------------------------------------------------

    async def rows(self, query: RowQuery) -> Sequence[EpisodeRow]:
        """Index rows in the order the episodes were opened."""
        return await self._episodes.ledger.rows(self._own(query))

    async def finished(self, query: RowQuery) -> Sequence[EpisodeRow]:
        """Index rows of closed episodes in the order they finished."""
        return await self._episodes.ledger.finished(self._own(query))

    @property
    def finishes(self) -> int:
        """The cursor of the last episode that was closed."""
        return self._episodes.ledger.finishes

    @property
    def next_finish(self) -> asyncio.Event:
        """Set once an episode is closed, anybody's; another one then."""
        return self._episodes.finished

    def _own(self, query: RowQuery) -> RowQuery:
        if self.principal.sees_all:
            return query
        return msgspec.structs.replace(query, tenant=self.principal.tenant)

    # Trajectories ----------------------------------------------------------------------------

    async def trajectory(self, episode_id: str) -> Trajectory:
        """The run so far."""
        episode = await self.lookup(episode_id)
        return await self._episodes.trajectories.of(episode, await self.row(episode_id))

    async def transcribe(self, episode_id: str, transcript: Transcript) -> None:
        """Keep what its policy saw and said."""
        episode = await self.lookup(episode_id)
        await self._episodes.trajectories.transcribe(episode_id, transcript)
        if episode.closed:
            await self._episodes.trajectories.keep(episode, await self.row(episode_id))

    async def line(self, row: EpisodeRow) -> bytes | None:
        """The trajectory of one of the ``finished`` as a line of JSON, made now where it was not
        kept when it was closed; ``None`` where that cannot be."""
        line = await self._episodes.trajectories.kept(row.id)
        if line is not None:
            return line
        try:
            return await self._episodes.trajectories.keep(await self.lookup(row.id), row)
        except EnvhubError as error:  # nothing was recorded, or its pack has changed since
            log.info("no trajectory", episode_id=row.id, code=error.code)
            return None


class OwnGroups:
    """The groups a principal sees; every method raises ``UnknownGroup`` for any other."""

    __slots__ = ("_groups", "episodes")

    def __init__(self, groups: Groups, principal: Principal) -> None:
        self._groups = groups
        self.episodes = OwnEpisodes(groups.episodes, principal)

    async def create(self, request: CreateGroup) -> Group:
        """See ``Groups.create``."""
        return await self._groups.create(request, self.episodes.principal)

    async def get(self, group_id: str) -> Group:
        """See ``Groups.get``."""
        group = await self._groups.get(group_id)
        if not self.episodes.principal.sees(group.tenant):
            raise unknown_group(group_id)
        return group

    async def index(self, after: str, limit: int) -> list[Group]:
        """Groups with an id above ``after``, in the order of their ids."""
        principal = self.episodes.principal
        return await self._groups.index(
            None if principal.sees_all else principal.tenant, after, limit
        )

    async def first(self, group: Group) -> EpisodeRow | None:
        """See ``Groups.first``; the group was got here."""
        return await self._groups.first(group)

    async def standing(self, group: Group) -> Standing:
        """See ``Groups.standing``; the group was got here."""
        return await self._groups.standing(group)

    async def close(self, group: Group) -> None:
        """See ``Groups.close``; the group was got here."""
        await self._groups.close(group)

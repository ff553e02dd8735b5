"""Groups: episodes of one task and seed that begin alike, and what their rewards teach."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec

from environments.advantages import Lesson, lesson_of
from environments.episode import Episode
from environments.errors import EnvhubError
from environments.sampling import SamplerSpec
from environments.trajectory import Window
from hub.auth import LOCAL_TENANT, Principal
from hub.curriculum import Curricula, Curriculum
from hub.episodes import Episodes
from hub.errors import KeyReused, UnknownGroup
from hub.ids import new_id
from hub.ledger import EpisodeRow
from hub.telemetry import logger
from hub.training import CreateGroup
from hub.turns import Turns
from hub.wire import CreateEpisode, Terms

GROUPS = "group"
REMEMBERED = 1024

log = logger("hub.groups")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided when a group was begun; its members' runs are in their episodes."""

    id: str
    environment: str
    digest: str
    task: str
    instruction: str
    tells_remaining: bool
    seed: int
    members: tuple[str, ...]
    """Ids of its episodes, in the order of their repetition."""
    policy_version: str | None
    schedule: str | None
    sampler: str | None
    window: Window | None
    tenant: str = LOCAL_TENANT


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has come."""

    rows: tuple[EpisodeRow, ...]
    lesson: Lesson
    complete: bool
    """Whether every member is scored or closed."""


class Groups:
    """Every group by its id; they survive a restart as their episodes do."""

    def __init__(self, episodes: Episodes, curricula: Curricula) -> None:
        self.episodes = episodes
        self.curricula = curricula
        self._ledger = episodes.ledger
        self._turns = Turns()
        self._known: OrderedDict[str, Group] = OrderedDict()
        episodes.when_closed.append(self._tell_sampler)

    async def create(self, request: CreateGroup, principal: Principal) -> Group:
        """Begin a group, all of it or none, or answer the one its tenant began with the same key.

        Raises what ``Episodes.begin`` does, ``UnknownSampler`` and ``NothingToSample``.
        """
        group_id = new_id("gr", request.key, principal.tenant)
        if request.key is None:
            return await self._begin(group_id, request, principal)
        async with self._turns.of(group_id):
            try:
                known = await self.get(group_id)
            except UnknownGroup:
                return await self._begin(group_id, request, principal)
        if (len(known.members), known.seed) != (request.size, request.seed):
            raise KeyReused(
                f"the key {request.key!r} began a group of {len(known.members)}",
                hint="a key names one request; retries repeat it",
            )
        return known

    async def get(self, group_id: str) -> Group:
        """Raises ``UnknownGroup``."""
        group = self._known.get(group_id)
        if group is None:
            body = await self._ledger.document(GROUPS, group_id, None)
            if body is None:
                raise unknown_group(group_id)
            group = self._remember(msgspec.json.decode(body, type=Group))
        return group

    async def index(self, tenant: str | None, after: str, limit: int) -> list[Group]:
        """A tenant's groups (``None``: all) with an id above ``after``, in their ids' order."""
        found = await self._ledger.documents(GROUPS, tenant, after, limit)
        return [msgspec.json.decode(body, type=Group) for _, body in found]

    async def first(self, group: Group) -> EpisodeRow | None:
        """The row of its first member; the others were begun on the same terms."""
        return await self._ledger.row(group.members[0])

    async def standing(self, group: Group) -> Standing:
        """The members' rewards, and what they teach."""
        found = {row.id: row for row in await self._ledger.members(group.id)}
        rows = tuple(found[member] for member in group.members if member in found)
        lesson = lesson_of(
            [row.reward for row in rows], [row.outcome == "complete" for row in rows]
        )
        return Standing(
            rows=rows,
            lesson=lesson,
            complete=all(row.outcome is not None or row.status == "closed" for row in rows),
        )

    async def close(self, group: Group) -> None:
        """Close every member. Closing twice is fine."""
        await asyncio.gather(*(self.episodes.close(member) for member in group.members))

    async def _begin(self, group_id: str, request: CreateGroup, principal: Principal) -> Group:
        curriculum = self.curricula.of(principal.tenant)
        name, task_id = await _task(request, curriculum)
        environment = await self.episodes.environments.get(name)
        task = environment.pack.task(task_id)
        key = request.key
        group = Group(
            id=group_id,
            environment=name,
            digest=environment.digest,
            task=task_id,
            instruction=task.instruction,
            tells_remaining=task.tells_remaining,
            members=tuple(
                new_id("ep", None if key is None else (key, number), principal.tenant)
                for number in range(request.size)
            ),
            seed=request.seed,
            policy_version=request.policy_version,
            schedule=request.schedule,
            sampler=request.sampler,
            window=request.window,
            tenant=principal.tenant,
        )
        wanted = CreateEpisode(
            environment=name,
            task=task_id,
            **{term: getattr(request, term) for term in Terms.__struct_fields__},
        )
        body = msgspec.json.encode(group)
        try:
            await self.episodes.begin(
                wanted,
                group.members,
                principal,
                group_id,
                lambda: self._ledger.keep(GROUPS, group_id, body, principal.tenant),
            )
        except BaseException:
            await self._ledger.forget(GROUPS, group_id, principal.tenant)
            raise
        return self._remember(group)

    async def _tell_sampler(self, row: EpisodeRow, episode: Episode) -> None:
        """A sampler hears how each member of its groups ended, unless nobody could score it."""
        reward = episode.reward
        if row.group is None or reward is None or reward.value is None:
            return
        group = await self.get(row.group)
        if group.sampler is None:
            return
        try:
            passed = [reward.outcome == "complete"]
            task = (group.environment, group.task)
            await self.curricula.of(group.tenant).record(group.sampler, task, passed)
        except EnvhubError as error:  # the sampler was forgotten meanwhile
            log.info("sampler not told", sampler=group.sampler, code=error.code)

    def _remember(self, group: Group) -> Group:
        self._known[group.id] = group
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return group


async def _task(request: CreateGroup, curriculum: Curriculum) -> tuple[str, str]:
    if request.sampler is not None:
        drawn = (await curriculum.draw(request.sampler))[0]
        return drawn.environment, drawn.task
    if request.sample is not None:
        spec = SamplerSpec(seed=request.seed, where=request.sample)
        drawn = await curriculum.draw_once(spec)
        return drawn.environment, drawn.task
    return request.environment or "", request.task or ""


def unknown_group(group_id: str) -> UnknownGroup:
    """The answer to an id that names none."""
    return UnknownGroup(f"there is no group {group_id!r}", hint="GET /v1/groups lists them")

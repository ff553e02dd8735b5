"""The routes about episodes: begin, call, look, judge, travel in time, end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from environments.episode import KEEP, Episode
from environments.errors import EnvhubError
from environments.trajectory import Step
from hub.api.routing import Route
from hub.errors import body_of
from hub.ledger import EpisodeRow, RowQuery
from hub.tenancy import OwnEpisodes
from hub.wire import (
    CallAnswer,
    CallResult,
    CallResults,
    CallTool,
    CallTools,
    Changes,
    ChangesQuery,
    CloseEpisodes,
    CloseResult,
    CloseResults,
    CreateEpisode,
    CreateEpisodes,
    Empty,
    EpisodeCall,
    EpisodeInfo,
    EpisodeList,
    EpisodeQuery,
    EpisodeResult,
    EpisodeResults,
    EpisodeSummary,
    ForkEpisode,
    MarkAnswer,
    ResetEpisode,
    RewindEpisode,
    Score,
    ScoreEpisode,
    StepList,
    StepQuery,
)

_NUMBER = re.compile("[0-9]{1,9}")
Item = TypeVar("Item")
Result = TypeVar("Result")


async def create_episode(episodes: OwnEpisodes, body: CreateEpisode) -> EpisodeInfo:
    return await _info(episodes, await episodes.create(body))


async def create_episodes(episodes: OwnEpisodes, body: CreateEpisodes) -> EpisodeResults:
    episodes.batch(len(body.episodes))

    async def create(request: CreateEpisode) -> EpisodeResult:
        try:
            return EpisodeResult(episode=await _info(episodes, await episodes.create(request)))
        except EnvhubError as error:
            return EpisodeResult(error=body_of(error))

    return EpisodeResults(results=await _each(create, body.episodes))


async def list_episodes(episodes: OwnEpisodes, query: EpisodeQuery) -> EpisodeList:
    rows = await episodes.rows(
        RowQuery(
            environment=query.environment,
            status=query.status or "",
            group=query.group,
            after=int(query.after) if query.after.isdigit() else 0,
            limit=query.limit,
        )
    )
    full = len(rows) == query.limit
    return EpisodeList(
        episodes=tuple(map(_summary, rows)), next=str(rows[-1].number) if full else None
    )


async def show_episode(episodes: OwnEpisodes, id: str) -> EpisodeInfo:
    return await _info(episodes, await episodes.lookup(id))


async def call_tool(episodes: OwnEpisodes, id: str, body: CallTool) -> CallAnswer:
    episode = await episodes.lookup(id)
    return _answer(episode, await episodes.call(episode, body.tool, body.arguments, body.call_key))


async def call_tools(episodes: OwnEpisodes, body: CallTools) -> CallResults:
    episodes.batch(len(body.calls))

    async def call(request: EpisodeCall) -> CallResult:
        try:
            return CallResult(
                episode=request.episode, answer=await call_tool(episodes, request.episode, request)
            )
        except EnvhubError as error:
            return CallResult(episode=request.episode, error=body_of(error))

    return CallResults(results=await _each(call, body.calls))


async def list_steps(episodes: OwnEpisodes, id: str, query: StepQuery) -> StepList:
    episode = await episodes.lookup(id)
    return StepList(episode=id, steps=tuple(episode.steps[query.since :]))


async def show_changes(episodes: OwnEpisodes, id: str, query: ChangesQuery) -> Changes:
    episode = await episodes.lookup(id)
    since: str | int | None = query.since
    if query.since and _NUMBER.fullmatch(query.since):
        since = int(query.since)
    return Changes(episode=id, changes=episode.changes(since, query.actor).to_json())


async def score_episode(episodes: OwnEpisodes, id: str, body: ScoreEpisode) -> Score:
    episode = await episodes.lookup(id)
    return Score(episode=id, reward=await episodes.score(episode, body.answer, body.mode))


async def fork_episode(episodes: OwnEpisodes, id: str, body: ForkEpisode) -> EpisodeResults:
    episodes.batch(body.count)
    forks = await episodes.fork(id, body.count)
    infos = [await _info(episodes, fork) for fork in forks]
    return EpisodeResults(results=tuple(EpisodeResult(episode=info) for info in infos))


async def mark_episode(episodes: OwnEpisodes, id: str, body: Empty) -> MarkAnswer:
    return MarkAnswer(episode=id, mark=await (await episodes.lookup(id)).mark())


async def rewind_episode(episodes: OwnEpisodes, id: str, body: RewindEpisode) -> EpisodeInfo:
    episode = await episodes.lookup(id)
    await episode.rewind(body.mark)
    return await _info(episodes, episode)


async def reset_episode(episodes: OwnEpisodes, id: str, body: ResetEpisode) -> EpisodeInfo:
    episode = await episodes.lookup(id)
    await episode.reset(KEEP if body.task is msgspec.UNSET else body.task, body.seed)
    return await _info(episodes, episode)


async def close_episode(episodes: OwnEpisodes, id: str) -> CloseResult:
    await episodes.close(id)
    return CloseResult(episode=id)


async def delete_episode(episodes: OwnEpisodes, id: str) -> CloseResult:
    return await close_episode(episodes, id)


async def close_episodes(episodes: OwnEpisodes, body: CloseEpisodes) -> CloseResults:
    async def close(id: str) -> CloseResult:
        try:
            return await close_episode(episodes, id)
        except EnvhubError as error:
            return CloseResult(episode=id, error=body_of(error))

    return CloseResults(results=await _each(close, body.episodes))


async def _each(
    do: Callable[[Item], Awaitable[Result]], items: Sequence[Item]
) -> tuple[Result, ...]:
    """Do it for all at once; what is answered stands in the order of what was asked."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_awaited(do(item))) for item in items]
    return tuple(task.result() for task in tasks)


async def _awaited(result: Awaitable[Result]) -> Result:
    return await result


def _answer(episode: Episode, step: Step) -> CallAnswer:
    return CallAnswer(
        step=msgspec.structs.replace(step, output="", fault=None),
        status=episode.status,
        remaining=episode.horizon - len(episode.steps),
    )


async def _info(episodes: OwnEpisodes, episode: Episode) -> EpisodeInfo:
    row = await episodes.row(episode.id)
    pack = episode.environment.pack
    return EpisodeInfo(
        id=episode.id,
        environment=pack.spec.name,
        task=episode.task.id if episode.task else None,
        seed=episode.seed,
        status=episode.status,
        steps=len(episode.steps),
        horizon=episode.horizon,
        reward=episode.reward.value if episode.reward else None,
        instruction=episode.task.instruction if episode.task else None,
        policy=pack.policy,
        clock_ms=episode.clock_ms,
        marks=tuple(episode.marks),
        dirty_bytes=episode.branch.dirty_bytes,
        mcp=f"/episodes/{episode.id}/mcp",
        sse=f"/episodes/{episode.id}/sse",
        lease_seconds=episodes.leased_for(episode),
        group=row.group,
        tells_remaining=episode.task is not None and episode.task.tells_remaining,
    )


def _summary(row: EpisodeRow) -> EpisodeSummary:
    return EpisodeSummary(
        id=row.id,
        environment=row.environment,
        task=row.task,
        seed=row.seed,
        status=row.status,
        steps=row.steps,
        horizon=row.horizon,
        reward=row.reward,
        group=row.group,
    )


ROUTES = (
    Route(
        method="POST",
        path="/episodes",
        scope="rollout",
        handler=create_episode,
        request=CreateEpisode,
        response=EpisodeInfo,
        summary="Begin an episode on a task, or on none",
        example={"environment": "procurement", "seed": 1},
        status=201,
    ),
    Route(
        method="GET",
        path="/episodes",
        scope="rollout",
        handler=list_episodes,
        query=EpisodeQuery,
        response=EpisodeList,
        summary="List episodes, oldest first, with a cursor",
    ),
    Route(
        method="POST",
        path="/episodes/batch",
        scope="rollout",
        handler=create_episodes,
        request=CreateEpisodes,
        response=EpisodeResults,
        summary="Begin many episodes; each succeeds or fails by itself",
        example={"episodes": [{"environment": "banking"}, {"environment": "helpdesk", "seed": 2}]},
    ),
    Route(
        method="POST",
        path="/episodes/batch/call",
        scope="rollout",
        handler=call_tools,
        request=CallTools,
        response=CallResults,
        summary="One call each in many episodes at once",
        example={"calls": [{"episode": "ep-…", "tool": "wait", "arguments": {"seconds": 60}}]},
    ),
    Route(
        method="POST",
        path="/episodes/batch/close",
        scope="rollout",
        handler=close_episodes,
        request=CloseEpisodes,
        response=CloseResults,
        summary="Close many episodes",
        example={"episodes": ["ep-…"]},
    ),
    Route(
        method="GET",
        path="/episodes/{id}",
        scope="rollout",
        handler=show_episode,
        response=EpisodeInfo,
        summary="One episode: where it stands, and its MCP address",
    ),
    Route(
        method="DELETE",
        path="/episodes/{id}",
        scope="rollout",
        handler=delete_episode,
        response=CloseResult,
        summary="Close an episode; closing twice is fine",
    ),
    Route(
        method="POST",
        path="/episodes/{id}/close",
        scope="rollout",
        handler=close_episode,
        response=CloseResult,
        summary="Close an episode; closing twice is fine",
    ),
    Route(
        method="POST",
        path="/episodes/{id}/call",
        scope="rollout",
        handler=call_tool,
        request=CallTool,
        response=CallAnswer,
        summary="Call a tool; the agent's and the tool's errors are part of the step",
        example={"tool": "wait", "arguments": {"seconds": 3600}, "call_key": "turn-3"},
    ),
    Route(
        method="GET",
        path="/episodes/{id}/steps",
        scope="rollout",
        handler=list_steps,
        query=StepQuery,
        response=StepList,
        summary="The steps taken",
    ),
    Route(
        method="GET",
        path="/episodes/{id}/changes",
        scope="rollout",
        handler=show_changes,
        query=ChangesQuery,
        response=Changes,
        summary="Net row changes since the start, a mark or a step",
    ),
    Route(
        method="POST",
        path="/episodes/{id}/score",
        scope="rollout",
        handler=score_episode,
        request=ScoreEpisode,
        response=Score,
        summary="Judge the run so far",
        example={"answer": "Order PO-1041 is placed"},
    ),
    Route(
        method="POST",
        path="/episodes/{id}/fork",
        scope="rollout",
        handler=fork_episode,
        request=ForkEpisode,
        response=EpisodeResults,
        summary="Episodes that stand where this one stands",
        example={"count": 8},
    ),
    Route(
        method="POST",
        path="/episodes/{id}/marks",
        scope="rollout",
        handler=mark_episode,
        request=Empty,
        response=MarkAnswer,
        summary="Name this point, to rewind to it later",
        status=201,
    ),
    Route(
        method="POST",
        path="/episodes/{id}/rewind",
        scope="rollout",
        handler=rewind_episode,
        request=RewindEpisode,
        response=EpisodeInfo,
        summary="Go back to a mark: rows, clock and steps",
        example={"mark": "m1"},
    ),
    Route(
        method="POST",
        path="/episodes/{id}/reset",
        scope="rollout",
        handler=reset_episode,
        request=ResetEpisode,
        response=EpisodeInfo,
        summary="Begin anew, on the same task and seed unless told otherwise",
        example={"seed": 7},
    ),
)

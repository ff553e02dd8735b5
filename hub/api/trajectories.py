"""The routes about finished episodes: their trajectories, and events as they finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from environments.trajectory import Trajectory
from hub.api.routing import Route
from hub.api.streaming import EVENT_STREAM, JSON_LINES, Stream, Text, event
from hub.ledger import EpisodeRow, RowQuery
from hub.tenancy import OwnEpisodes
from hub.training import EpisodeFinished, EventQuery, TrajectoryQuery
from hub.wire import Empty, Transcript

PING_SECONDS = 15.0
"""Silence after which a comment keeps proxies from closing an event stream."""
EVENTS_AT_ONCE = 500
_CURSOR_DIGITS = 18
SCANNED_AT_ONCE = 1000


async def list_trajectories(episodes: OwnEpisodes, query: TrajectoryQuery) -> Text:
    rows = await episodes.finished(
        RowQuery(
            environment=query.environment,
            group=query.group,
            after=query.cursor,
            limit=query.limit,
        )
    )
    lines = [line for line in [await episodes.line(row) for row in rows] if line is not None]
    cursor = rows[-1].finished if rows else query.cursor
    return Text(
        body=b"".join(line + b"\n" for line in lines),
        content_type=JSON_LINES,
        headers=((b"envhub-cursor", str(cursor).encode()),),
    )


async def show_trajectory(episodes: OwnEpisodes, id: str) -> Trajectory:
    return await episodes.trajectory(id)


async def keep_transcript(episodes: OwnEpisodes, id: str, body: Transcript) -> Empty:
    await episodes.transcribe(id, body)
    return Empty()


async def follow_events(
    episodes: OwnEpisodes, headers: dict[bytes, bytes], query: EventQuery
) -> Stream:
    cursor = query.cursor
    last = headers.get(b"last-event-id", b"")
    if cursor is None and last.isdigit() and len(last) <= _CURSOR_DIGITS:
        cursor = int(last)
    if cursor is None:
        cursor = episodes.finishes
    return Stream(pieces=_events(episodes, cursor, query), content_type=EVENT_STREAM)


async def _events(episodes: OwnEpisodes, cursor: int, query: EventQuery) -> AsyncIterator[bytes]:
    yield b": open\nid: %d\n\n" % cursor  # whoever is cut off goes on from here
    while True:
        finished = episodes.next_finish  # before looking, so that nothing falls in between
        rows = await episodes.finished(
            RowQuery(
                environment=query.environment,
                group=query.group,
                after=cursor,
                limit=EVENTS_AT_ONCE,
            )
        )
        for row in rows:
            cursor = row.finished or cursor
            yield event("finished", _finished(row), cursor)
        if not rows:
            heard = False
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_SECONDS):
                    heard = await finished.wait()
            if not heard:
                yield b": ping\n\n"


def _finished(row: EpisodeRow) -> EpisodeFinished:
    enrolled = row.enrolled
    return EpisodeFinished(
        id=row.id,
        environment=row.environment,
        task=row.task,
        seed=row.seed,
        status=row.status,
        steps=row.steps,
        horizon=row.horizon,
        reward=row.reward,
        group=row.group,
        cursor=row.finished or 0,
        outcome=row.outcome,
        repetition=enrolled.repetition,
        policy_version=enrolled.policy_version,
        training_step=enrolled.training_step,
    )


ROUTES = (
    Route(
        method="GET",
        path="/trajectories",
        scope="train",
        handler=list_trajectories,
        query=TrajectoryQuery,
        response=Trajectory,
        content_type=JSON_LINES,
        summary=(
            "Trajectories of closed episodes in the order they finished, one JSON line each; the "
            "header Envhub-Cursor is the cursor of the next request"
        ),
    ),
    Route(
        method="GET",
        path="/events",
        scope="train",
        handler=follow_events,
        query=EventQuery,
        response=EpisodeFinished,
        content_type=EVENT_STREAM,
        headers=True,
        summary=(
            "Server-sent events: `finished` for each episode that is closed, none left out after a "
            "reconnection with Last-Event-ID or cursor"
        ),
    ),
    Route(
        method="GET",
        path="/episodes/{id}/trajectory",
        scope="train",
        handler=show_trajectory,
        response=Trajectory,
        summary="The run so far, whole: what a trainer keeps and envhub verify plays again",
    ),
    Route(
        method="PUT",
        path="/episodes/{id}/transcript",
        scope="rollout",
        handler=keep_transcript,
        request=Transcript,
        response=Empty,
        summary="What the policy saw and said, for the trajectory; token fields pass through",
        example={
            "messages": [
                {"role": "user", "content": "Order two packs of tea."},
                {"role": "assistant", "content": "Done.", "token_ids": [311, 9]},
            ],
            "calls": [{"prompt": [0], "completion": 1, "tokens": {"logprobs": [-0.1, -0.7]}}],
        },
    ),
)

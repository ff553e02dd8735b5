"""Every request the client makes, apart from how it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

import hub.training as training
import hub.wire as wire
from environments.chat import Transcript
from environments.horizons import HorizonSchedule
from environments.sampling import SamplerSpec
from environments.trajectory import Actor, Trajectory

Answer_co = TypeVar("Answer_co", covariant=True)


class Ask(msgspec.Struct, Generic[Answer_co], frozen=True, kw_only=True):
    """One request. ``safe``: asking twice does no more than asking once."""

    method: str
    path: str
    answer: type[Answer_co]
    body: msgspec.Struct | None = None
    query: dict[str, Any] = {}
    safe: bool = True
    wait_seconds: float = 0.0
    """How long the hub was asked to take over it."""

    @property
    def content(self) -> bytes | None:
        return None if self.body is None else msgspec.json.encode(self.body)


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _given(**query: Any) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value not in (None, "")}


# --- what there is to play ---------------------------------------------------------------------


def environments(q: str, domain: str, tag: str, after: str) -> Ask[wire.EnvironmentList]:
    query = _given(q=q, domain=domain, tag=tag, after=after, limit=1000)
    return Ask(method="GET", path=_path("environments"), query=query, answer=wire.EnvironmentList)


def environment(name: str) -> Ask[wire.EnvironmentDetail]:
    return Ask(method="GET", path=_path("environments", name), answer=wire.EnvironmentDetail)


def tasks(environment: str, **query: str | None) -> Ask[wire.TaskList]:
    path = _path("environments", environment, "tasks")
    return Ask(method="GET", path=path, query=_given(**query), answer=wire.TaskList)


# --- episodes ----------------------------------------------------------------------------------


def create(request: wire.CreateEpisode) -> Ask[wire.EpisodeInfo]:
    return Ask(
        method="POST",
        path=_path("episodes"),
        body=request,
        answer=wire.EpisodeInfo,
        safe=request.key is not None,
        wait_seconds=request.wait_seconds,
    )


def create_all(requests: Iterable[wire.CreateEpisode]) -> Ask[wire.EpisodeResults]:
    body = wire.CreateEpisodes(episodes=tuple(requests))
    return Ask(
        method="POST",
        path=_path("episodes", "batch"),
        body=body,
        answer=wire.EpisodeResults,
        safe=all(request.key is not None for request in body.episodes),
        wait_seconds=max((request.wait_seconds for request in body.episodes), default=0.0),
    )


def show(episode: str) -> Ask[wire.EpisodeInfo]:
    return Ask(method="GET", path=_path("episodes", episode), answer=wire.EpisodeInfo)


def call(
    episode: str, tool: str, arguments: Mapping[str, Any], call_key: str
) -> Ask[wire.CallAnswer]:
    body = wire.CallTool(tool=tool, arguments=dict(arguments), call_key=call_key)
    path = _path("episodes", episode, "call")
    return Ask(method="POST", path=path, body=body, answer=wire.CallAnswer)


def call_all(calls: Iterable[wire.EpisodeCall]) -> Ask[wire.CallResults]:
    body = wire.CallTools(calls=tuple(calls))
    path = _path("episodes", "batch", "call")
    return Ask(method="POST", path=path, body=body, answer=wire.CallResults)


def steps(episode: str, since: int) -> Ask[wire.StepList]:
    path = _path("episodes", episode, "steps")
    return Ask(method="GET", path=path, query=_given(since=since), answer=wire.StepList)


def changes(episode: str, since: str | int | None, actor: Actor | None) -> Ask[wire.Changes]:
    path = _path("episodes", episode, "changes")
    return Ask(method="GET", path=path, query=_given(since=since, actor=actor), answer=wire.Changes)


def score(episode: str, answer: str | None, **mode: Any) -> Ask[wire.Score]:
    body = wire.ScoreEpisode(answer=answer, **mode)
    path = _path("episodes", episode, "score")
    return Ask(method="POST", path=path, body=body, answer=wire.Score)


def mark(episode: str) -> Ask[wire.MarkAnswer]:
    # asked twice, there are two marks at one place
    path = _path("episodes", episode, "marks")
    return Ask(method="POST", path=path, body=wire.Empty(), answer=wire.MarkAnswer)


def rewind(episode: str, mark: str) -> Ask[wire.EpisodeInfo]:
    body = wire.RewindEpisode(mark=mark)
    path = _path("episodes", episode, "rewind")
    return Ask(method="POST", path=path, body=body, answer=wire.EpisodeInfo)


def reset(episode: str, body: wire.ResetEpisode) -> Ask[wire.EpisodeInfo]:
    path = _path("episodes", episode, "reset")
    return Ask(method="POST", path=path, body=body, answer=wire.EpisodeInfo)


def fork(episode: str, count: int) -> Ask[wire.EpisodeResults]:
    body = wire.ForkEpisode(count=count)
    path = _path("episodes", episode, "fork")
    return Ask(method="POST", path=path, body=body, answer=wire.EpisodeResults, safe=False)


def park(episode: str) -> Ask[training.LeaseInfo]:
    path = _path("episodes", episode, "park")
    return Ask(method="POST", path=path, body=wire.Empty(), answer=training.LeaseInfo)


def close(episode: str) -> Ask[wire.CloseResult]:
    return Ask(method="DELETE", path=_path("episodes", episode), answer=wire.CloseResult)


def close_all(episodes: Iterable[str]) -> Ask[wire.CloseResults]:
    body = wire.CloseEpisodes(episodes=tuple(episodes))
    path = _path("episodes", "batch", "close")
    return Ask(method="POST", path=path, body=body, answer=wire.CloseResults)


def transcript(episode: str, body: wire.Transcript) -> Ask[wire.Empty]:
    path = _path("episodes", episode, "transcript")
    return Ask(method="PUT", path=path, body=body, answer=wire.Empty)


def trajectory(episode: str) -> Ask[Trajectory]:
    return Ask(method="GET", path=_path("episodes", episode, "trajectory"), answer=Trajectory)


def renew(episodes: Iterable[str]) -> Ask[training.Leased]:
    body = training.RenewLeases(episodes=tuple(episodes))
    return Ask(method="POST", path=_path("leases"), body=body, answer=training.Leased)


# --- groups and the curriculum -----------------------------------------------------------------


def create_group(request: training.CreateGroup) -> Ask[training.GroupInfo]:
    return Ask(
        method="POST",
        path=_path("groups"),
        body=request,
        answer=training.GroupInfo,
        safe=request.key is not None,
        wait_seconds=request.wait_seconds,
    )


def show_group(group: str) -> Ask[training.GroupDetail]:
    return Ask(method="GET", path=_path("groups", group), answer=training.GroupDetail)


def close_group(group: str) -> Ask[training.GroupInfo]:
    path = _path("groups", group, "close")
    return Ask(method="POST", path=path, body=wire.Empty(), answer=training.GroupInfo)


def keep_schedule(
    name: str, schedule: HorizonSchedule | training.Schedule
) -> Ask[training.ScheduleInfo]:
    if isinstance(schedule, HorizonSchedule):
        schedule = training.Schedule(phases=schedule.phases)
    path = _path("schedules", name)
    return Ask(method="PUT", path=path, body=schedule, answer=training.ScheduleInfo)


def show_schedule(name: str) -> Ask[training.ScheduleInfo]:
    return Ask(method="GET", path=_path("schedules", name), answer=training.ScheduleInfo)


def schedules() -> Ask[training.ScheduleList]:
    return Ask(method="GET", path=_path("schedules"), answer=training.ScheduleList)


def advance(name: str, training_step: int) -> Ask[training.ScheduleInfo]:
    body = training.Advance(training_step=training_step)
    path = _path("schedules", name, "advance")
    return Ask(method="POST", path=path, body=body, answer=training.ScheduleInfo)


def forget_schedule(name: str) -> Ask[training.Forgotten]:
    return Ask(method="DELETE", path=_path("schedules", name), answer=training.Forgotten)


def keep_sampler(name: str, spec: SamplerSpec) -> Ask[training.SamplerInfo]:
    path = _path("samplers", name)
    return Ask(method="PUT", path=path, body=spec, answer=training.SamplerInfo)


def show_sampler(name: str) -> Ask[training.SamplerInfo]:
    return Ask(method="GET", path=_path("samplers", name), answer=training.SamplerInfo)


def draw(name: str, count: int) -> Ask[training.DrawnTasks]:
    body = training.Draw(count=count)
    path = _path("samplers", name, "draw")
    return Ask(method="POST", path=path, body=body, answer=training.DrawnTasks, safe=False)


def tell_outcomes(name: str, body: training.Outcomes) -> Ask[training.SamplerInfo]:
    path = _path("samplers", name, "outcomes")
    return Ask(method="POST", path=path, body=body, answer=training.SamplerInfo, safe=False)


def forget_sampler(name: str) -> Ask[training.Forgotten]:
    return Ask(method="DELETE", path=_path("samplers", name), answer=training.Forgotten)


# --- what is made from answers -----------------------------------------------------------------


def transcript_of(said: Transcript | None) -> wire.Transcript | None:
    """What a run's transcript is to the hub; ``None`` if nobody kept one."""
    if said is None:
        return None
    return wire.Transcript(
        messages=tuple(said.messages), calls=tuple(said.calls), window=said.window
    )

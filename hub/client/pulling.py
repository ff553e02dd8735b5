"""Reading what finished: lines of trajectories, and server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from environments.trajectory import Trajectory
from hub.client.asks import Ask
from hub.training import EpisodeFinished, TrajectoryQuery

EVENTS = Ask(method="GET", path="/v1/events", answer=EpisodeFinished)
TRAJECTORIES = Ask(method="GET", path="/v1/trajectories", answer=Trajectory)

_trajectory = msgspec.json.Decoder(Trajectory)
_finished = msgspec.json.Decoder(EpisodeFinished)


def params(query: TrajectoryQuery) -> dict[str, Any]:
    """A query's parameters."""
    return {name: value for name, value in msgspec.structs.asdict(query).items() if value != ""}


def lines_of(body: bytes) -> Iterator[Trajectory]:
    """The trajectories of a page."""
    return (_trajectory.decode(line) for line in body.splitlines() if line)


class EventReader:
    """Lines of an event stream in, episodes out; it knows where to go on."""

    def __init__(self, cursor: int | None, environment: str, group: str) -> None:
        self.cursor = cursor
        self._query = {"environment": environment, "group": group}

    @property
    def params(self) -> dict[str, Any]:
        """The query of the next connection."""
        given: dict[str, Any] = {name: value for name, value in self._query.items() if value}
        return given if self.cursor is None else {**given, "cursor": self.cursor}

    def read(self, line: str) -> EpisodeFinished | None:
        """The episode that a line tells of, if it tells of one."""
        if line.startswith("id: "):
            self.cursor = int(line.removeprefix("id: "))
        if line.startswith("data: "):
            return _finished.decode(line.removeprefix("data: "))
        return None

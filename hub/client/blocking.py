"""The client for code that waits: ``with Hub(url) as hub:``. Threads may share it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx2
import msgspec

import hub.client.asks as asks
import hub.training as training
import hub.wire as wire
from environments.chat import openai_tool
from environments.sampling import TaskFilter
from environments.trajectory import Actor, Reward, Step, Trajectory
from hub.client.asks import Ask
from hub.client.errors import HubError
from hub.client.exchange import Attempts, Connection, decoded, raise_for
from hub.client.keepers import ThreadKeeper
from hub.client.playing import Given, Place, Player, keyed, place_of, places_of
from hub.client.pulling import EVENTS, TRAJECTORIES, EventReader, lines_of, params

Answer = TypeVar("Answer")


class Hub:
    """A connection to a hub. Leaving its ``with`` closes the episodes it began and did not close.

    Requests are repeated where that is safe: every call carries a key, so that a repeated one is
    answered from the record. Leases of open episodes are renewed in the background. Raises
    ``HubError`` for what the hub refuses and ``HubUnreachable`` where no answer comes.

    What has no method of its own is asked by name: ``hub.ask(asks.advance("scaling", 40))``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        *,
        token: str | None = None,
        timeout_seconds: float = 60.0,
        patience_seconds: float = 60.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(
            url=url.rstrip("/"),
            token=token,
            timeout_seconds=timeout_seconds,
            patience_seconds=patience_seconds,
        )
        # one client: connections are kept, and the SSL context is made once
        self._http = httpx2.Client(
            base_url=self._connection.url,
            headers=self._connection.headers,
            timeout=timeout_seconds,
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=256),
            transport=transport,
        )
        self._open: dict[str, Episode] = {}
        self._keeper = ThreadKeeper(lambda ids: self.ask(asks.renew(ids)))
        self._details: dict[str, wire.EnvironmentDetail] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what it began, as far as the hub answers; idempotent."""
        self._keeper.stop()
        left, self._open = list(self._open), {}
        with suppress(HubError):  # their leases run out
            for start in range(0, len(left), wire.MAX_BATCH):
                self.ask(asks.close_all(left[start : start + wire.MAX_BATCH]))
        self._http.close()

    def ask(self, ask: Ask[Answer]) -> Answer:
        """Send one request, again where that is safe, until it is answered."""
        attempts = Attempts(ask, self._connection)
        while True:
            try:
                response = self._http.request(
                    ask.method,
                    ask.path,
                    content=ask.content,
                    params=ask.query or None,
                    timeout=self._connection.timeout_seconds + ask.wait_seconds,
                )
                return decoded(ask, response)
            except (httpx2.TransportError, HubError) as error:
                time.sleep(attempts.next_wait_seconds(error))

    # What there is to play -------------------------------------------------------------------

    def environments(
        self, q: str = "", *, domain: str = "", tag: str = ""
    ) -> tuple[wire.EnvironmentSummary, ...]:
        """The environments there are, by words, domain or tag."""
        found: tuple[wire.EnvironmentSummary, ...] = ()
        after: str | None = ""
        while after is not None:
            page = self.ask(asks.environments(q, domain, tag, after))
            found, after = found + page.environments, page.next
        return found

    def environment(self, name: str) -> wire.EnvironmentDetail:
        """One environment: tools, tables, policy. Asked once and remembered."""
        if name not in self._details:
            self._details[name] = self.ask(asks.environment(name))
        return self._details[name]

    def tasks(self, environment: str, **query: str | None) -> tuple[wire.TaskSummary, ...]:
        """Its tasks, by ``difficulty``, ``split`` or ``tag``."""
        return self.ask(asks.tasks(environment, **query)).tasks

    # Episodes --------------------------------------------------------------------------------

    def episode(self, environment: str, task: str | None = None, **terms: Unpack[Given]) -> Episode:
        """Begin an episode: ``with hub.episode("banking", task="…") as episode:``."""
        request = wire.CreateEpisode(environment=environment, task=task, **keyed(terms))
        info = self.ask(asks.create(request))
        return self._player(place_of(info, request.window))

    def episodes(self, requests: Sequence[wire.CreateEpisode]) -> list[Episode | HubError]:
        """Begin many in one request; each succeeds or fails by itself."""
        sent = [
            request
            if request.key is not None
            else msgspec.structs.replace(request, key=secrets.token_hex(16))
            for request in requests
        ]
        results = self.ask(asks.create_all(sent)).results
        return [
            self._player(place_of(result.episode, request.window))
            if result.episode is not None
            else _refused(result.error)
            for request, result in zip(sent, results, strict=True)
        ]

    def attach(self, episode_id: str) -> Episode:
        """An episode that somebody else began; leaving it does not close it."""
        return self._player(place_of(self.ask(asks.show(episode_id))), own=False)

    def group(
        self,
        environment: str | None = None,
        task: str | None = None,
        *,
        size: int,
        sampler: str | None = None,
        sample: TaskFilter | None = None,
        **terms: Unpack[Given],
    ) -> Group:
        """Begin a group: ``with hub.group("banking", "…", size=8) as group:``."""
        request = training.CreateGroup(
            size=size,
            environment=environment,
            task=task,
            sampler=sampler,
            sample=sample,
            **keyed(terms),
        )
        info = self.ask(asks.create_group(request))
        if terms.get("key") is not None:  # it may have been begun, and played, before
            return Group(self, self.ask(asks.show_group(info.id)))
        return Group(self, info)

    def call_all(
        self, calls: Iterable[tuple[Episode, str, Mapping[str, Any]]]
    ) -> list[wire.CallAnswer | HubError]:
        """One call each in many episodes, in one request; answers stand in the calls' order."""
        asked = [
            (episode, wire.EpisodeCall(
                episode=episode.id, tool=tool, arguments=dict(arguments),
                call_key=episode.next_key(),
            ))
            for episode, tool, arguments in calls
        ]  # fmt: skip
        results = self.ask(asks.call_all(call for _, call in asked)).results
        return [
            episode.took(result.answer) if result.answer is not None else _refused(result.error)
            for (episode, _), result in zip(asked, results, strict=True)
        ]

    # What came of it -------------------------------------------------------------------------

    def trajectories(
        self, cursor: int = 0, *, environment: str = "", group: str = ""
    ) -> Iterator[tuple[int, Trajectory]]:
        """Trajectories of closed episodes after ``cursor`` in the order they finished, each with
        the cursor after its page; ends with the last there is."""
        query = training.TrajectoryQuery(cursor=cursor, environment=environment, group=group)
        while True:
            response = self._page(query)
            after = int(response.headers["envhub-cursor"])
            for trajectory in lines_of(response.content):
                yield after, trajectory
            if after == query.cursor:
                return
            query = msgspec.structs.replace(query, cursor=after)

    def events(
        self, cursor: int | None = None, *, environment: str = "", group: str = ""
    ) -> Iterator[training.EpisodeFinished]:
        """Episodes as they are closed, without end and without a gap: cut off, it goes on where
        it was. Without a ``cursor`` only those to come."""
        reader = EventReader(cursor, environment, group)
        attempts = Attempts(EVENTS, self._connection)
        while True:
            try:
                with self._http.stream("GET", EVENTS.path, params=reader.params) as response:
                    if not response.is_success:
                        response.read()
                    raise_for(response)
                    for line in response.iter_lines():
                        attempts = Attempts(EVENTS, self._connection)
                        if (event := reader.read(line)) is not None:
                            yield event
            except (httpx2.TransportError, HubError) as error:
                time.sleep(attempts.next_wait_seconds(error))

    def _page(self, query: training.TrajectoryQuery) -> httpx2.Response:
        attempts = Attempts(TRAJECTORIES, self._connection)
        while True:
            try:
                response = self._http.get(TRAJECTORIES.path, params=params(query))
                raise_for(response)
                return response
            except (httpx2.TransportError, HubError) as error:
                time.sleep(attempts.next_wait_seconds(error))

    def _player(self, place: Place, *, own: bool = True) -> Episode:
        episode = Episode(self, place, own=own)
        self._keeper.keep(place.id, place.lease_seconds)
        if own:
            self._open[place.id] = episode
        return episode

    def _left(self, episode: Episode) -> None:
        self._keeper.drop(episode.id)
        self._open.pop(episode.id, None)


class Episode(Player):
    """One run. A mistake of the policy or the pack is a step with an ``error``; what raises is
    ``HubError``: the horizon is reached, the episode is closed, or the hub failed."""

    def __init__(self, hub: Hub, place: Place, *, own: bool) -> None:
        super().__init__(place, own=own)
        self._hub = hub

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.own:
            self.close()
        else:
            self._hub._left(self)

    def tools(self) -> list[dict[str, Any]]:
        """The tools on offer, as a chat completion request has them."""
        return list(map(openai_tool, self._hub.environment(self.environment).tools))

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> wire.CallAnswer:
        """Take one step."""
        ask = asks.call(self.id, tool, arguments or {}, self.next_key())
        return self.took(self._hub.ask(ask))

    def score(self, answer: str | None = None, **mode: Any) -> Reward:
        """Judge the run so far."""
        return self._hub.ask(asks.score(self.id, answer, **mode)).reward

    def steps(self, since: int = 0) -> tuple[Step, ...]:
        """The steps taken, from number ``since`` on."""
        return self._hub.ask(asks.steps(self.id, since)).steps

    def changes(self, since: str | int | None = None, actor: Actor | None = None) -> dict[str, Any]:
        """Net row changes since the start, a mark, or a number of steps."""
        return self._hub.ask(asks.changes(self.id, since, actor)).changes

    def mark(self) -> str:
        """Name this point, to rewind to it later."""
        return self._hub.ask(asks.mark(self.id)).mark

    def rewind(self, mark: str) -> None:
        """Go back to a mark: rows, clock and steps. The transcript begins anew."""
        self.is_at(self._hub.ask(asks.rewind(self.id, mark)))

    def reset(self, **anew: Any) -> None:
        """Begin anew, on the same ``task`` and ``seed`` unless told otherwise."""
        self.is_at(self._hub.ask(asks.reset(self.id, wire.ResetEpisode(**anew))))

    def fork(self, count: int = 1) -> list[Episode]:
        """Episodes that stand where this one stands."""
        results = self._hub.ask(asks.fork(self.id, count)).results
        infos = [result.episode for result in results if result.episode is not None]
        return [self._hub._player(place_of(info, self.place.window)) for info in infos]

    def info(self) -> wire.EpisodeInfo:
        """Where it stands."""
        return self._hub.ask(asks.show(self.id))

    def trajectory(self) -> Trajectory:
        """The run so far, whole."""
        self._send_transcript()
        return self._hub.ask(asks.trajectory(self.id))

    def park(self) -> None:
        """Let go of it for a while; the next request that names it takes it up again."""
        self._hub._keeper.drop(self.id)
        self._hub.ask(asks.park(self.id))

    def close(self) -> None:
        """End it; its steps, reward and trajectory stay. Closing twice is fine."""
        if self.status != "closed":
            self._send_transcript()
            self._hub.ask(asks.close(self.id))
            self.status = "closed"
            self._hub._left(self)

    def _send_transcript(self) -> None:
        if (said := asks.transcript_of(self._transcript)) is not None:
            self._hub.ask(asks.transcript(self.id, said))


class Group(Sequence[Episode]):
    """Episodes that began alike; leaving its ``with`` closes them all."""

    def __init__(self, hub: Hub, info: training.GroupInfo) -> None:
        self._hub = hub
        self.id = info.id
        self.info = info
        self._episodes = [hub._player(place) for place in places_of(info)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __getitem__(self, place: Any) -> Any:
        return self._episodes[place]

    def __len__(self) -> int:
        return len(self._episodes)

    def detail(self) -> training.GroupDetail:
        """Rewards, GRPO advantages, pass@k, and who is masked."""
        return self._hub.ask(asks.show_group(self.id))

    def close(self) -> None:
        """Close every member. Closing twice is fine."""
        still = [episode for episode in self._episodes if episode.status != "closed"]
        if still:
            for episode in still:
                episode._send_transcript()
            self._hub.ask(asks.close_group(self.id))
            for episode in still:
                episode.status = "closed"
                self._hub._left(episode)


def _refused(error: wire.ErrorBody | None) -> HubError:
    assert error is not None
    return HubError(error, status=0)

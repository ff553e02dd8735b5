"""Seats: named places at an environment's URL, whose episode stays between connections."""

from __future__ import annotations

from environments.episode import Episode
from environments.errors import EnvironmentChanged
from hub.episodes import Episodes
from hub.errors import EpisodeGone, UnknownEpisode
from hub.telemetry import logger
from hub.turns import Turns
from hub.wire import CreateEpisode

SEAT_HORIZON = 1_000_000
"""A person's seat is not a run that is judged: it has no horizon to speak of."""

log = logger("hub.seats")


class Seats:
    """The episodes of sessions and of named seats."""

    def __init__(self, episodes: Episodes) -> None:
        self._episodes = episodes
        self._sitting: dict[tuple[str, str], str] = {}
        self._turns = Turns()

    async def at(self, environment: str, key: str) -> Episode:
        """The episode that sits there: begun on first use, kept over restarts.

        A seat whose episode was closed, or whose pack has changed since, is given a new one.
        """
        place = (environment, key)
        episode = self._episodes.live(self._sitting.get(place, ""))
        if episode is None:
            async with self._turns.of(f"{environment}/{key}"):
                episode = await self._sit(environment, key)
                self._sitting[place] = episode.id
        return episode

    async def leave(self, environment: str, key: str) -> None:
        """Close the episode that sits there, if one does."""
        self._sitting.pop((environment, key), None)
        episode_id = await self._episodes.ledger.seat(environment, key)
        if episode_id is not None:
            await self._episodes.close(episode_id)

    async def _sit(self, environment: str, key: str) -> Episode:
        ledger = self._episodes.ledger
        episode_id = await ledger.seat(environment, key)
        if episode_id is not None:
            try:
                episode = await self._episodes.lookup(episode_id)
                if not episode.closed:
                    return episode
            except (UnknownEpisode, EpisodeGone, EnvironmentChanged) as error:
                log.info("seat emptied", environment=environment, reason=error.code)
        wanted = CreateEpisode(environment=environment, horizon=SEAT_HORIZON)
        episode = await self._episodes.create(wanted)
        await ledger.keep_seat(environment, key, episode.id)
        return episode

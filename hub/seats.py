"""Seats: named places at an environment's URL, whose episode stays between connections."""

from __future__ import annotations

from environments.episode import Episode
from environments.errors import EnvironmentChanged
from hub.auth import LOCAL, Principal
from hub.episodes import Episodes
from hub.errors import EpisodeGone, UnknownEpisode
from hub.ledger import Seat
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
        self._sitting: dict[Seat, str] = {}
        self._turns = Turns()

    async def at(self, environment: str, key: str, principal: Principal = LOCAL) -> Episode:
        """The episode that sits there: begun on first use, kept over restarts.

        A seat whose episode was closed, or whose pack has changed since, is given a new one.
        """
        seat = (principal.tenant, environment, key)
        episode = self._episodes.live(self._sitting.get(seat, ""))
        if episode is None:
            async with self._turns.of("/".join(seat)):
                episode = await self._sit(seat, principal)
                self._sitting[seat] = episode.id
        return episode

    async def leave(self, environment: str, key: str, principal: Principal = LOCAL) -> None:
        """Close the episode that sits there, if one does."""
        seat = (principal.tenant, environment, key)
        self._sitting.pop(seat, None)
        episode_id = await self._episodes.ledger.seat(seat)
        if episode_id is not None:
            await self._episodes.close(episode_id)

    async def _sit(self, seat: Seat, principal: Principal) -> Episode:
        ledger = self._episodes.ledger
        environment = seat[1]
        episode_id = await ledger.seat(seat)
        if episode_id is not None:
            try:
                episode = await self._episodes.lookup(episode_id, principal.quota.limits.episodes)
                if not episode.closed:
                    return episode
            except (UnknownEpisode, EpisodeGone, EnvironmentChanged) as error:
                log.info("seat emptied", environment=environment, reason=error.code)
        wanted = CreateEpisode(environment=environment, horizon=SEAT_HORIZON)
        episode = await self._episodes.create(wanted, principal)
        await ledger.keep_seat(seat, episode.id)
        return episode

"""The routes about leases: keep episodes that nobody calls just now, or let them go early."""

from __future__ import annotations

from hub.api.routing import Route
from hub.episodes import Episodes
from hub.training import Leased, LeaseInfo, RenewLeases
from hub.wire import Empty


async def renew_leases(episodes: Episodes, body: RenewLeases) -> Leased:
    return Leased(
        leases=tuple(
            LeaseInfo(episode=each, seconds=episodes.leases.touch(each)) for each in body.episodes
        )
    )


async def park_episode(episodes: Episodes, id: str, body: Empty) -> LeaseInfo:
    await episodes.lookup(id)
    await episodes.park(id)
    return LeaseInfo(episode=id, seconds=episodes.leases.seconds(id))


ROUTES = (
    Route(
        method="POST",
        path="/leases",
        handler=renew_leases,
        request=RenewLeases,
        response=Leased,
        summary="Begin the leases of these episodes anew, as any request that names one does",
        example={"episodes": ["ep-…"]},
    ),
    Route(
        method="POST",
        path="/episodes/{id}/park",
        handler=park_episode,
        request=Empty,
        response=LeaseInfo,
        summary="Let go of an episode until somebody asks for it, as if its lease had run out",
    ),
)

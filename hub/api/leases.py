"""The routes about leases: keep episodes that nobody calls just now, or let them go early."""

from __future__ import annotations

from hub.api.routing import Route
from hub.tenancy import OwnEpisodes
from hub.training import Leased, LeaseInfo, RenewLeases
from hub.wire import Empty


async def renew_leases(episodes: OwnEpisodes, body: RenewLeases) -> Leased:
    return Leased(
        leases=tuple(
            [LeaseInfo(episode=each, seconds=await episodes.renew(each)) for each in body.episodes]
        )
    )


async def park_episode(episodes: OwnEpisodes, id: str, body: Empty) -> LeaseInfo:
    return LeaseInfo(episode=id, seconds=await episodes.park(id))


ROUTES = (
    Route(
        method="POST",
        path="/leases",
        scope="rollout",
        handler=renew_leases,
        request=RenewLeases,
        response=Leased,
        summary="Begin the leases of these episodes anew, as any request that names one does",
        example={"episodes": ["ep-…"]},
    ),
    Route(
        method="POST",
        path="/episodes/{id}/park",
        scope="rollout",
        handler=park_episode,
        request=Empty,
        response=LeaseInfo,
        summary="Let go of an episode until somebody asks for it, as if its lease had run out",
    ),
)

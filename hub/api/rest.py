"""The whole table below ``/v1``, its description included."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from hub.api import curriculum, environments, episodes, groups, leases, trajectories
from hub.api.openapi import describe
from hub.api.routing import Api, Route, Table
from hub.edge.guard import Guard
from hub.groups import Groups
from hub.tenancy import OwnEpisodes, OwnGroups

PREFIX = "/v1"


def rest_api(context: Groups, *, version: str, guard: Guard) -> Api:
    """The ASGI application that answers below ``/v1``."""
    tables = [*tables_of(context)]

    @functools.cache
    def description() -> dict[str, Any]:
        routes = [route for _, table in tables for route in table]
        return describe(routes, PREFIX, version)

    async def show_description(_: object) -> dict[str, Any]:
        return description()

    describes = Route(
        method="GET",
        path="/openapi.json",
        scope="any",
        handler=show_description,
        response=dict[str, Any],
        summary="This description",
    )
    tables.append((lambda _: None, (describes,)))
    return Api(PREFIX, tables, guard=guard, count=context.episodes.metrics.fault)


def tables_of(context: Groups) -> Iterator[Table]:
    """Every table of routes, with what makes that which its handlers are called with first."""
    for module in (environments, episodes, leases, trajectories):
        yield functools.partial(OwnEpisodes, context.episodes), module.ROUTES
    yield functools.partial(OwnGroups, context), groups.ROUTES
    yield lambda principal: context.curricula.of(principal.tenant), curriculum.ROUTES

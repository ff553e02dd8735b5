"""The whole table below ``/v1``, its description included."""

from __future__ import annotations

import functools
from typing import Any

from hub.api import environments, episodes
from hub.api.openapi import describe
from hub.api.routing import Api, Route
from hub.episodes import Episodes
from hub.mcp_server.guard import Guard

PREFIX = "/v1"


def rest_api(context: Episodes, *, version: str, guard: Guard) -> Api:
    """The ASGI application that answers below ``/v1``."""

    @functools.cache
    def description() -> dict[str, Any]:
        return describe(routes, PREFIX, version)

    async def show_description(_: Episodes) -> dict[str, Any]:
        return description()

    routes = (
        *environments.ROUTES,
        *episodes.ROUTES,
        Route(
            method="GET",
            path="/openapi.json",
            handler=show_description,
            response=dict[str, Any],
            summary="This description",
        ),
    )
    return Api(PREFIX, routes, context, guard=guard)

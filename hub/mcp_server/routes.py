"""The hub's MCP URLs: ``/episodes/{id}/mcp`` and ``/sse``, ``/environments/{name}/mcp``."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.types import Receive, Scope, Send

from environments.environment import Environment
from environments.episode import Episode
from hub.auth import Access, Demand, principal_of
from hub.edge.answers import headers_of, send_body
from hub.edge.guard import Disconnected, Guard
from hub.episodes import Episodes
from hub.errors import InvalidRequest, UnknownRoute, status_of
from hub.mcp_server.http import McpHttp
from hub.mcp_server.jsonrpc import encode_error, error_of
from hub.mcp_server.sse import LegacySse
from hub.mcp_server.surface import CallContext, Surface
from hub.mcp_server.surfaces import EnvironmentSurface, EpisodeSurface
from hub.seats import Seats
from hub.tenancy import OwnEpisodes

SEAT: Final = re.compile(r"[A-Za-z0-9._~-]{1,64}")
SSE, MESSAGES = "sse", "messages"
SCOPE: Final[Demand] = "play"
ACCESS: Final = tuple(
    Access(method, path, SCOPE)
    for path, methods in (
        ("/environments/{name}/mcp", ("POST", "GET", "DELETE")),
        ("/episodes/{id}/mcp", ("POST", "GET", "DELETE")),
        ("/episodes/{id}/sse", ("GET",)),
        ("/episodes/{id}/messages", ("POST",)),
    )
    for method in methods
)


class McpRoutes:
    """An ASGI application for every path below ``/episodes/`` and ``/environments/``."""

    def __init__(
        self, episodes: Episodes, seats: Seats, *, secret: bytes, guard: Guard | None = None
    ) -> None:
        guard = guard or Guard()
        self._episodes = episodes
        self._seats = seats
        self._http = McpHttp(
            self._resolve,
            secret=secret,
            guard=guard,
            principal=lambda scope: principal_of(scope).binding,
        )
        self._sse = LegacySse(guard)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        segments = scope["path"].split("/")[1:]
        if len(segments) != 3 or segments[0] != "episodes" or segments[2] not in (SSE, MESSAGES):
            await self._http(scope, receive, send)
            return
        try:
            self._sse.admit(scope)
            surface = await self._episode(segments[1], scope)
            if segments[2] == MESSAGES:
                await self._sse.post(scope, receive, send)
                return
        except Disconnected:
            return
        except Exception as error:  # noqa: BLE001 - the ASGI boundary
            body = encode_error(None, error_of(error))
            await send_body(send, status_of(error), body, headers_of(error))
            return
        messages = scope["path"].removesuffix(SSE) + MESSAGES
        await self._sse.connect(surface, messages, scope, receive, send)

    def close(self) -> None:
        """End what would keep a stopping server waiting."""
        self._http.close()

    async def _resolve(self, scope: Scope) -> Surface:
        match scope["path"].split("/")[1:]:
            case ["episodes", episode_id, "mcp"] if episode_id:
                return await self._episode(episode_id, scope)
            case ["environments", name, "mcp"] if name:
                return await self._environment(name, scope)
        raise UnknownRoute(
            f"nothing is served at {scope['path']}",
            hint="MCP is at /episodes/{id}/mcp and /environments/{name}/mcp",
        )

    async def _episode(self, episode_id: str, scope: Scope) -> EpisodeSurface:
        episodes = OwnEpisodes(self._episodes, principal_of(scope))
        return EpisodeSurface(await episodes.lookup(episode_id), episodes.call)

    async def _environment(self, name: str, scope: Scope) -> EnvironmentSurface:
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        seat = query["seat"][-1] if "seat" in query else None
        if seat is not None and not SEAT.fullmatch(seat):
            raise InvalidRequest(
                "seat is 1 to 64 letters, digits, dots, dashes, underscores or tildes"
            )
        return HubEnvironmentSurface(
            await self._episodes.environments.get(name),
            OwnEpisodes(self._episodes, principal_of(scope)),
            self._seats,
            seat,
            url=_url(scope),
            reset=query.get("reset", [""])[-1] != "off",
        )


class HubEnvironmentSurface(EnvironmentSurface):
    """An environment's URL on a hub: whose episode it is follows from the seat or the session."""

    def __init__(
        self,
        environment: Environment,
        episodes: OwnEpisodes,
        seats: Seats,
        seat: str | None,
        *,
        url: str,
        reset: bool,
    ) -> None:
        super().__init__(environment, self._sit, url=url, reset=reset, call=episodes.call)
        self._principal = episodes.principal
        self._seats = seats
        self._seat = seat
        self.sessionless = seat is not None

    async def _sit(self, context: CallContext) -> Episode | None:
        key = self._key(context.session_id)
        return await self._seats.at(self.name, key, self._principal) if key else None

    async def end_session(self, session_id: str) -> None:
        """A session's episode goes with it; a named seat waits for whoever comes back."""
        if self._seat is None:
            await self._seats.leave(self.name, self._key(session_id), self._principal)

    def _key(self, session_id: str | None) -> str:
        if self._seat is not None:
            return f"seat:{self._seat}"
        return f"session:{session_id}" if session_id else ""


def _url(scope: Scope) -> str:
    """The address a request was sent to."""
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    path = quote(scope["path"])
    return f"{scope.get('scheme', 'http')}://{host}{path}{'?' if query else ''}{query}"

"""Pages a person or a scraper asks for: guarded and answered as everything else is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from environments.errors import EnvhubError
from hub.auth import Access, Demand, admitted
from hub.edge.answers import JSON, PAGE, error_json, headers_of
from hub.edge.guard import Guard
from hub.errors import MethodNotAllowed, UnknownRoute, body_of, status_of
from hub.telemetry import logger

log = logger("hub.edge")
Endpoint = Callable[[Request], Awaitable[Response]]


class Page(Route):
    """A route, and what it asks for."""

    def __init__(self, path: str, endpoint: Endpoint, scope: Demand) -> None:
        super().__init__(path, endpoint, methods=["GET"])
        self.scope = scope


class Pages:
    """The ASGI application of a few routes. Errors of theirs become answers here; ``count`` hears
    of whom they refused."""

    def __init__(
        self, routes: Sequence[Page], guard: Guard, count: Callable[[str, str], None]
    ) -> None:
        self._routes = routes
        self._guard = guard
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_as_page(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *PAGE]
            await send(message)

        try:
            self._guard.admit(scope["headers"])
            page = self._route(scope)
            admitted(scope, page.scope, self._count)
            await page.handle(scope, receive, send_as_page)
        except Exception as error:
            told = body_of(error)
            if not isinstance(error, EnvhubError):
                log.exception("page failed", path=scope["path"], **told.details)
            if started:
                return
            body = error_json(told)
            headers = [
                (b"content-type", JSON),
                (b"content-length", str(len(body)).encode()),
                *headers_of(error),
            ]
            start = {"type": "http.response.start", "status": status_of(error), "headers": headers}
            await send_as_page(start)
            await send({"type": "http.response.body", "body": body})

    @property
    def access(self) -> tuple[Access, ...]:
        """Every page with what it asks for."""
        return tuple(Access("GET", page.path, page.scope) for page in self._routes)

    def close(self) -> None:
        """Pages hold nothing open."""

    def _route(self, scope: Scope) -> Page:
        """The route of a request, which knows by then. Raises what there is none for."""
        allowed: set[str] = set()
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        path = scope["path"]
        if allowed:
            raise MethodNotAllowed(f"{path} takes {', '.join(sorted(allowed))}")
        raise UnknownRoute(f"there is nothing at {path}", hint="GET / says what there is")

"""A hub on a socket: uvicorn with uvloop and httptools, stopped by SIGINT or SIGTERM."""

from __future__ import annotations

import contextlib
import gc
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
import uvloop

from hub.app import App, Hub
from hub.edge.connections import Connections, LimitedConnection, Limits
from hub.edge.tls import tls_context
from hub.errors import AddressInUse
from hub.http_protocol import HttpProtocol
from hub.settings import Settings
from hub.telemetry import logger

log = logger("hub.server")

BACKLOG = 2048
GRACE_SECONDS = 5
RESERVED_FILES = 512
"""Left to snapshots, workers and the ledger."""
SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the interpreter from the ledger's thread, which needs it for a
moment only: a tenth of what is usual, or that would be most of the time a commit takes."""
COLLECT_AFTER = (20_000, 25, 50)
"""New objects after which cycles are looked for among them; how often that until it is done among
the survivors too, and how often that until among all. A call leaves tens of objects that stay (its
step) and none in cycles: as it usually is, looking takes an eighth of the hub's time."""


def serve(settings: Settings, started: Callable[[Hub, str], None]) -> None:
    """Serve until told to stop; ``started`` is called with the hub and its address once it answers.

    Raises ``AddressInUse``, ``TlsUnusable`` and what ``Hub.open`` raises. Calls in flight are
    answered, the ledger is written and every worker is ended before it returns.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECT_AFTER)
    gc.freeze()  # what was imported stays
    uvloop.run(_serve(settings, started))


async def _serve(settings: Settings, started: Callable[[Hub, str], None]) -> None:
    tls = None
    if settings.tls_certificate is not None:
        tls = tls_context(settings.tls_certificate, settings.tls_key)
    with contextlib.closing(_listen(settings.host, settings.port)) as listener:
        async with Hub.open(settings) as hub:
            app = App(hub)
            connections = Connections(_limits(settings))
            config = uvicorn.Config(
                app,
                loop="uvloop",
                http=partial(Connection, connections=connections),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_context_factory=(lambda *_: tls) if tls else None,
            )
            address = _address(listener, "https" if tls else "http")
            server = _Server(config, lambda: started(hub, address), app.close)
            async with connections.watched():
                await server.serve(sockets=[listener])


def _address(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _limits(settings: Settings) -> Limits:
    """What clients are held to, with no more connections than the process may open files."""
    files = _raise_file_limit()
    most = settings.max_connections or files
    room = max(files - RESERVED_FILES, files // 2)
    if most > room:
        log.warning("fewer connections", wanted=most, taken=room, files=files)
    return Limits(
        max_connections=min(most, room),
        max_connections_per_address=settings.max_connections_per_address,
        max_url_bytes=settings.max_url_bytes,
        max_headers=settings.max_headers,
        max_head_bytes=settings.max_head_bytes,
        max_body_bytes=settings.max_body_bytes,
        receive_seconds=settings.receive_seconds,
        send_seconds=settings.send_seconds,
        keep_alive_seconds=settings.keep_alive_seconds,
    )


def _raise_file_limit() -> int:
    """Let the process open as many files as it may; returns how many that are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems have a limit they do not tell of
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise AddressInUse(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="another hub may be running there; --port 0 takes any free port",
        ) from error


class Connection(LimitedConnection, HttpProtocol):
    """One connection, as the hub serves it."""


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._when_started = started
        self._when_stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._when_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._when_stopping()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            # uvicorn raises them again once it is done, which would end the process before the
            # ledger and the workers are closed
            self._captured_signals.clear()

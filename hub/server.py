"""A hub on a socket: uvicorn with uvloop and httptools, stopped by SIGINT or SIGTERM."""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from hub.app import App, Hub
from hub.errors import AddressInUse
from hub.http_protocol import HttpProtocol
from hub.settings import Settings

BACKLOG = 2048
GRACE_SECONDS = 5
SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the interpreter from the ledger's thread, which needs it for a
moment only: a tenth of what is usual, or that would be most of the time a commit takes."""
COLLECT_AFTER = 20_000
"""New objects after which cycles are looked for. A call leaves tens that stay (its step) and none
in cycles: at the usual 700, looking takes an eighth of the hub's time."""


def serve(settings: Settings, started: Callable[[Hub, str], None]) -> None:
    """Serve until told to stop; ``started`` is called with the hub and its address once it answers.

    Raises ``AddressInUse`` and what ``Hub.open`` raises. Calls in flight are answered, the ledger
    is written and every worker is ended before it returns.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(COLLECT_AFTER)
    gc.freeze()  # what was imported stays
    uvloop.run(_serve(settings, started))


async def _serve(settings: Settings, started: Callable[[Hub, str], None]) -> None:
    with contextlib.closing(_listen(settings.host, settings.port)) as listener:
        async with Hub.open(settings) as hub:
            host, port = listener.getsockname()[:2]
            address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            app = App(hub)
            config = uvicorn.Config(
                app,
                loop="uvloop",
                http=HttpProtocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
            server = _Server(config, lambda: started(hub, address), app.close)
            await server.serve(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise AddressInUse(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="another hub may be running there; --port 0 takes any free port",
        ) from error


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

"""An ASGI application on a loopback port, for clients that need a real one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def served(app: ASGIApp, http: Any = "httptools") -> AsyncIterator[str]:
    """The address it is served at, in this event loop, until the context ends.

    ``http`` makes the protocol of a connection.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app,
            http=http,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
        )
        server = _Server(config)
        # no task group: it would cancel the server where the body fails, half way through
        serving = asyncio.ensure_future(server.serve([listener]))
        try:
            await server.answering.wait()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            close = getattr(app, "close", None)
            if close is not None:
                close()
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answering.set()

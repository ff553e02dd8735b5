"""The baseline: the official SDK's own server, stateless streamable HTTP with JSON answers.

python -m tests.benchmarks.echo_server PORT
"""

from __future__ import annotations

import logging
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

TOOLS = 20


def build() -> MCPServer:
    server = MCPServer("echo")

    def declare(number: int) -> None:
        @server.tool(name=f"echo_{number}", description=f"Answer what came in ({number}).")
        def echo(text: str, quantity: int = 1) -> dict[str, str | int]:
            return {"text": text, "quantity": quantity}

    for number in range(TOOLS):
        declare(number)
    return server


if __name__ == "__main__":
    logging.getLogger("mcp").setLevel(logging.WARNING)  # a line a request would be unfair to it
    app = build().streamable_http_app(stateless_http=True, json_response=True)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )

"""A process that serves one episode on its pipe, for a client and for a rollout worker."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, StdioServerParameters, types

from tests.hub.mcp_server.conftest import MODERN, request
from tests.hub.mcp_server.test_clients import text_of

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
SHOP = ROOT / "tests" / "packs" / "shop"
PATIENCE_SECONDS = 30
LONGEST_LINE = 1024 * 1024

PROGRAM = f"""
import sys
import anyio
from pathlib import Path
from environments.episode import Episode
from hub.mcp_server.stdio import Control, serve_stdio
from hub.mcp_server.surfaces import EpisodeSurface

async def main():
    async with Episode.open("shop", task="buy-tea", packs=[Path({str(SHOP)!r})]) as episode:
        print("stray output must not reach the pipe's protocol", file=sys.stderr)
        control = Control(episode) if "--rollout" in sys.argv else None
        await serve_stdio(EpisodeSurface(episode), control)

anyio.run(main)
"""


@pytest.mark.parametrize(("mode", "spoken"), [("legacy", "2025-11-25"), ("auto", MODERN)])
async def test_a_client_plays_over_the_pipe(mode: str, spoken: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-c", PROGRAM], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
    )
    with anyio.fail_after(PATIENCE_SECONDS):
        async with Client(server, mode=mode) as client:
            assert client.protocol_version == spoken
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert "order" in names
            assert not [name for name in names if name.startswith("envhub")]
            ordered = await client.call_tool("order", {"sku": "TEA-100", "quantity": 2})
            assert ordered.structured_content is not None
            assert ordered.structured_content["price_cents"] == 900
            listed = await client.call_tool("list_products", {})
            assert json.loads(text_of(listed))
            refused = await client.call_tool("order", {"sku": "TEA-100", "quantity": 99})
            assert refused.is_error
            assert isinstance(refused.content[0], types.TextContent)


class Pipe:
    """JSON lines to a process and back."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in = process.stdin
        self._out = BufferedByteReceiveStream(process.stdout)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        answer = await self.answer(request(method, params))
        assert "result" in answer, answer
        return answer["result"]

    async def fail(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return (await self.answer(request(method, params)))["error"]

    async def answer(self, message: dict[str, Any]) -> Any:
        return await self.answer_to_line(json.dumps(message).encode())

    async def answer_to_line(self, line: bytes) -> Any:
        await self._in.send(line + b"\n")
        return json.loads(await self._out.receive_until(b"\n", LONGEST_LINE))


@asynccontextmanager
async def piped(*arguments: str) -> AsyncIterator[Pipe]:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with await anyio.open_process(
            [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, stderr=None
        ) as process:
            yield Pipe(process)
            assert process.stdin is not None
            await process.stdin.aclose()
            assert await process.wait() == 0


async def test_a_rollout_worker_resets_scores_and_reads_changes_on_the_same_pipe() -> None:
    async with piped("--rollout") as pipe:
        begun = await pipe.ask("envhub/reset", {"task": "last-cup", "seed": 5})
        assert (begun["task"], begun["seed"], begun["horizon"]) == ("last-cup", 5, 3)
        assert begun["instruction"] == "There should be one cup left. Order it."
        assert (await pipe.ask("envhub/score"))["value"] == 0.0

        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "rollout", "version": "1"},
        }
        assert (await pipe.ask("initialize", hello))["protocolVersion"] == "2025-11-25"
        tools = (await pipe.ask("tools/list"))["tools"]
        assert not [tool for tool in tools if "envhub" in tool["name"]]
        call = {"name": "order", "arguments": {"sku": "CUP-01", "quantity": 1}}
        assert (await pipe.ask("tools/call", call))["isError"] is False

        changes = (await pipe.ask("envhub/changes", {"since": 0}))["changes"]
        assert changes["orders"]["added"][0]["sku"] == "CUP-01"
        assert (await pipe.ask("envhub/changes", {"since": 1}))["changes"] == {}
        assert (await pipe.ask("envhub/score", {"answer": None}))["value"] == 1.0
        again = await pipe.ask("envhub/reset")
        assert (again["task"], again["seed"]) == ("last-cup", 5)
        assert (await pipe.ask("envhub/changes"))["changes"] == {}

        assert (await pipe.fail("envhub/reset", {"task": "none"}))["code"] == types.INVALID_PARAMS
        typo = await pipe.fail("envhub/reset", {"tusk": "last-cup"})
        assert "tusk" in typo["message"]
        assert (await pipe.fail("envhub/steal"))["code"] == types.METHOD_NOT_FOUND
        unpassed = await pipe.fail("envhub/changes", {"since": "m9"})
        assert unpassed["data"]["code"] == "UNKNOWN_MARK"


async def test_without_rollout_nobody_resets_or_scores() -> None:
    async with piped() as pipe:
        for method in ("envhub/reset", "envhub/score", "envhub/changes"):
            assert (await pipe.fail(method))["code"] == types.METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc": "2.0", ', types.PARSE_ERROR),
        (b"\xff", types.PARSE_ERROR),
        (b"[]", types.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', types.INVALID_REQUEST),
    ],
)
async def test_a_line_that_is_no_message_is_answered_and_the_next_is_heard(
    line: bytes, code: int
) -> None:
    async with piped("--rollout") as pipe:
        answer = await pipe.answer_to_line(line)
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        assert (await pipe.ask("envhub/score"))["value"] == 0.0

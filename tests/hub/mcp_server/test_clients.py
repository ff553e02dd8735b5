"""The official client, in each of its modes, over loopback."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged

from hub.mcp_server import streams
from hub.mcp_server.surface import CallContext, ToolAnswer
from tests.conformance.fixture import FixtureSurface
from tests.hub.mcp_server.conftest import MODERN, fixed
from tests.hub.mcp_server.serving import served

pytestmark = pytest.mark.anyio
MODES = ["legacy", "auto", MODERN]
PATIENCE_SECONDS = 10


@pytest.mark.parametrize("mode", MODES)
async def test_everything_a_surface_offers_reaches_the_client(url: str, mode: str) -> None:
    async with Client(url, mode=mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else MODERN)
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][:2] == ["test_simple_text", "test_image_content"]
        assert tools[0].annotations is not None
        assert tools[0].annotations.read_only_hint is True
        called = await client.call_tool("json_schema_2020_12_tool", {"name": "Ada", "phone": "1"})
        assert called.structured_content == {"name": "Ada", "phone": "1"}
        assert json.loads(text_of(called)) == called.structured_content
        assert (await client.call_tool("test_error_handling", {})).is_error
        read = (await client.read_resource("test://template/7/data")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert json.loads(read.text)["id"] == "7"
        assert len((await client.list_prompts()).prompts) == 5
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        assert "arg2='b'" in str(prompt.messages[0].content)
        ref = types.PromptReference(name="test_prompt_with_arguments")
        completed = await client.complete(ref, {"name": "arg1", "value": "par"})
        assert completed.completion.values == ["paris", "park", "party"]
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("no_such_tool", {})


@pytest.mark.parametrize("mode", MODES)
async def test_progress_is_told_while_a_call_runs(url: str, mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def watch(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with Client(url, mode=mode) as client:
        result = await client.call_tool("test_tool_with_progress", {}, progress_callback=watch)
    assert text_of(result) == "Done"
    assert [(done, total) for done, total, _ in seen] == [(0, 100), (50, 100), (100, 100)]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize(
    ("mode", "asked", "expected"),
    [("legacy", None, 3), ("legacy", "warning", 0), (MODERN, None, 0), (MODERN, "info", 3)],
)
async def test_log_entries_go_to_whoever_takes_them(
    url: str, mode: str, asked: Any, expected: int
) -> None:
    seen: list[Any] = []

    async def watch(entry: types.LoggingMessageNotificationParams) -> None:
        seen.append(entry.data)

    modern_level = asked if mode == MODERN else None
    async with Client(url, mode=mode, logging_callback=watch, log_level=modern_level) as client:
        if mode == "legacy" and asked:
            await client.set_logging_level(asked)
        await client.call_tool("test_tool_with_logging", {})
    assert len(seen) == expected


async def test_a_listener_hears_of_what_it_asked_for(url: str, surface: FixtureSurface) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with (
            Client(url, mode=MODERN) as client,
            client.listen(tools_list_changed=True) as events,
        ):
            await client.call_tool("test_trigger_prompt_change", {})
            await client.call_tool("test_trigger_tool_change", {})
            async for event in events:
                assert event == ToolsListChanged()
                break


class Slow(FixtureSurface):
    """Has one call that only ends when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.cancelled = anyio.Event(), anyio.Event()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: CallContext
    ) -> ToolAnswer:
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled.set()


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_a_cancelled_call_ends_at_the_server_too(mode: str) -> None:
    slow = Slow()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with served(fixed(slow)) as address, Client(f"{address}/mcp", mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "slow", {})
                await slow.started.wait()
                tasks.cancel_scope.cancel()
            await slow.cancelled.wait()
            assert (await client.list_tools()).tools


class Patient(FixtureSurface):
    """Has one call that takes its time and says nothing meanwhile."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: CallContext
    ) -> ToolAnswer:
        await anyio.sleep(0.4)
        return ToolAnswer(result="at last")


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_a_silent_call_is_kept_alive(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.05)
    frames: list[bytes] = []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def keep(message: Any) -> None:
            frames.append(message.get("body", b""))
            await send(message)

        await fixed(Patient())(scope, receive, keep)

    async with served(watched) as address, Client(f"{address}/mcp", mode=mode) as client:
        assert text_of(await client.call_tool("any", {})) == "at last"
    assert frames.count(streams.PING) >= 2


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text

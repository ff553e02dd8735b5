"""The hub's own URLs: an episode, and an environment for people, through real workers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp import Client, types
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError

from environments.errors import WorkerLost
from environments.spec import ToolSpec
from hub.app import App, Hub
from hub.mcp_server.surface import ToolList
from hub.wire import CreateEpisode
from tests.hub.mcp_server.conftest import MODERN, Raw, request
from tests.hub.mcp_server.test_clients import text_of

pytestmark = pytest.mark.anyio
ORDER = {"sku": "TEA-100", "quantity": 2}
SHOP = "/environments/shop/mcp"


def error_of(result: types.CallToolResult) -> dict[str, Any]:
    assert result.is_error
    assert isinstance(result.structured_content, dict)
    assert json.loads(text_of(result)) == result.structured_content
    error: dict[str, Any] = result.structured_content["error"]
    return error


async def stock(client: Client) -> int:
    """How much of the tea the caller ordered is left."""
    products = json.loads(text_of(await client.call_tool("list_products", {})))
    return next(row["stock"] for row in products if row["sku"] == "TEA-100")


@pytest.fixture
async def episode_id(hub: Hub) -> AsyncIterator[str]:
    episode = await hub.episodes.create(CreateEpisode(environment="shop", task="buy-tea"))
    yield episode.id
    await hub.episodes.close(episode.id)


# --- an episode -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
async def test_an_episode_is_played_to_its_end(
    hub: Hub, hub_url: str, episode_id: str, mode: str
) -> None:
    async with Client(f"{hub_url}/episodes/{episode_id}/mcp", mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == list((await hub.environments.get("shop")).tools)
        if mode != MODERN:
            assert client.instructions is not None
            assert "Please order two packs" in client.instructions
        assert await stock(client) == 12
        ordered = await client.call_tool("order", ORDER)
        assert ordered.structured_content is not None
        assert ordered.structured_content["price_cents"] == 900
        assert json.loads(text_of(ordered)) == ordered.structured_content
        assert await stock(client) == 10
    episode = await hub.episodes.lookup(episode_id)
    assert (await hub.episodes.score(episode)).value == 1.0


async def test_both_eras_see_the_same_episode(hub_url: str, episode_id: str) -> None:
    url = f"{hub_url}/episodes/{episode_id}/mcp"
    async with Client(url, mode="legacy") as old, Client(url, mode=MODERN) as new:
        await old.call_tool("order", ORDER)
        await new.call_tool("order", ORDER)
        assert await stock(old) == await stock(new) == 8


async def test_a_list_is_structured_where_the_version_allows(hub_url: str, episode_id: str) -> None:
    url = f"{hub_url}/episodes/{episode_id}/mcp"
    async with Client(url, mode="legacy") as client:
        assert (await client.call_tool("list_products", {})).structured_content is None
    async with Client(url, mode=MODERN) as client:
        listed = await client.call_tool("list_products", {})
        assert listed.structured_content == json.loads(text_of(listed))
        recited = await client.call_tool("recite", {"length": 2})
        assert (text_of(recited), recited.structured_content) == ("tea tea ", None)


async def test_nothing_of_a_step_but_its_result_goes_out(
    hub: Hub, hub_raw: Raw, episode_id: str
) -> None:
    path = f"/episodes/{episode_id}/mcp"
    call = request("tools/call", {"name": "order", "arguments": ORDER})
    result = (await hub_raw.send(call, path=path)).json()["result"]
    assert result.keys() == {"content", "structuredContent", "isError"}
    step = (await hub.episodes.lookup(episode_id)).steps[0]
    assert step.changes
    assert "changes" not in json.dumps(result)


async def test_whose_fault_an_error_was_is_clear(hub_url: str, episode_id: str) -> None:
    async with Client(f"{hub_url}/episodes/{episode_id}/mcp", mode=MODERN) as client:
        refused = error_of(await client.call_tool("order", {"sku": "TEA-100", "quantity": 99}))
        assert (refused["kind"], refused["code"]) == ("agent", "OUT_OF_STOCK")
        assert refused["details"] == {"sku": "TEA-100"}
        wrong = error_of(await client.call_tool("order", {"sku": "TEA-100", "quantity": "two"}))
        assert (wrong["kind"], wrong["code"]) == ("agent", "INVALID_ARGUMENTS")
        assert "quantity" in wrong["message"]
        broken = error_of(await client.call_tool("break_down", {}))
        assert (broken["kind"], broken["code"]) == ("environment", "TOOL_CRASHED")
        assert broken["message"].startswith("The environment failed, not your call: ")
        assert "details" not in broken
        gone = error_of(await client.call_tool("leave", {}))
        assert (gone["kind"], gone["code"]) == ("environment", "WORKER_EXITED")
        assert await stock(client) == 12
        with pytest.raises(MCPError, match="Unknown tool: ordre") as caught:
            await client.call_tool("ordre", {})
        assert caught.value.error.code == types.INVALID_PARAMS


async def test_a_fault_of_ours_is_an_internal_error_that_says_so(
    hub: Hub, hub_raw: Raw, episode_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any) -> Any:
        raise WorkerLost("a worker was lost", hint="call again")

    monkeypatch.setattr(hub.sandbox, "call", lost)
    raw = hub_raw
    raw.path = f"/episodes/{episode_id}/mcp"
    params = {"name": "order", "arguments": ORDER}
    for response in (
        await raw.send(request("tools/call", params)),
        await raw.modern("tools/call", params),
    ):
        assert response.status_code == 200
        error = response.json()["error"]
        assert error["code"] == types.INTERNAL_ERROR
        assert error["data"]["kind"] == "infrastructure"
        assert (error["data"]["code"], error["data"]["hint"]) == ("WORKER_LOST", "call again")
    assert (await hub.episodes.lookup(episode_id)).steps == []


async def test_a_call_key_makes_a_retry_harmless(hub_url: str, episode_id: str) -> None:
    async with Client(f"{hub_url}/episodes/{episode_id}/mcp", mode=MODERN) as client:
        key: Any = {"envhub/call_key": "k1"}
        first = await client.call_tool("order", ORDER, meta=key)
        again = await client.call_tool("order", ORDER, meta=key)
        assert first.structured_content == again.structured_content
        assert await stock(client) == 10
        other = await client.call_tool("order", {"sku": "CUP-01", "quantity": 1}, meta=key)
        assert error_of(other)["code"] == "CALL_KEY_REUSED"
        with pytest.raises(MCPError, match="has more than 128 characters") as raised:
            await client.call_tool("order", ORDER, meta={"envhub/call_key": "k" * 129})
        assert raised.value.error.code == types.INVALID_PARAMS
        assert await stock(client) == 10


async def test_the_horizon_and_the_end_are_errors_of_the_agent(hub: Hub, hub_url: str) -> None:
    episode = await hub.episodes.create(CreateEpisode(environment="shop", horizon=1))
    async with Client(f"{hub_url}/episodes/{episode.id}/mcp", mode=MODERN) as client:
        await client.call_tool("list_products", {})
        late = error_of(await client.call_tool("list_products", {}))
        assert late["code"] == "HORIZON_REACHED"
        await hub.episodes.close(episode.id)
        closed = error_of(await client.call_tool("list_products", {}))
        assert closed["code"] == "EPISODE_CLOSED"


async def test_a_client_that_asked_hears_that_its_call_still_runs(
    hub_url: str, episode_id: str
) -> None:
    seen: list[float] = []

    async def watch(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with Client(f"{hub_url}/episodes/{episode_id}/mcp", mode=MODERN) as client:
        hung = await client.call_tool("hang", {}, progress_callback=watch)
    assert error_of(hung)["code"] == "TOOL_TIMED_OUT"
    assert seen
    assert seen == sorted(seen)


async def test_a_step_whose_client_gave_up_is_still_taken(
    hub: Hub, hub_url: str, episode_id: str
) -> None:
    async with Client(f"{hub_url}/episodes/{episode_id}/mcp", mode=MODERN) as client:
        with anyio.move_on_after(0.3):
            await client.call_tool("hang", {})
        episode = await hub.episodes.lookup(episode_id)
        assert episode.steps == []
        assert await stock(client) == 12  # waits its turn behind the step that still runs
        assert [step.tool for step in episode.steps] == ["hang", "list_products"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/episodes/ep-unknown/mcp", 404, "UNKNOWN_EPISODE"),
        ("/environments/shopp/mcp", 404, "UNKNOWN_ENVIRONMENT"),
        ("/environments/shop/mcp?seat=a%20b", 422, "INVALID_REQUEST"),
        ("/environments/shop", 404, "UNKNOWN_ROUTE"),
        ("/episodes/x/y/mcp", 404, "UNKNOWN_ROUTE"),
        ("/episodes//mcp", 404, "UNKNOWN_ROUTE"),
        ("/episodes/ep-unknown/sse", 404, "UNKNOWN_EPISODE"),
    ],
)
async def test_urls_that_serve_nothing(hub_raw: Raw, path: str, status: int, code: str) -> None:
    method = "GET" if path.endswith("sse") else "POST"
    body = None if method == "GET" else request("ping")
    response = await hub_raw.send(body, path=path, method=method)
    assert response.status_code == status
    assert response.json()["error"]["data"]["code"] == code


async def test_a_stream_nothing_would_be_said_on_is_not_opened(
    hub_raw: Raw, episode_id: str
) -> None:
    for path in (SHOP, f"/episodes/{episode_id}/mcp"):
        session = await hub_raw.session(path=path)
        refused = await hub_raw.send(None, session, path=path, method="GET")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST, DELETE")
        listening = {"notifications": {"toolsListChanged": True}}
        hub_raw.path = path
        absent = await hub_raw.modern("subscriptions/listen", listening)
        assert (absent.status_code, absent.json()["error"]["code"]) == (404, -32601)
        greeting = (await hub_raw.initialize()).json()["result"]["capabilities"]
        assert greeting["tools"] == {"listChanged": False}


# --- an environment, for people ---------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_two_windows_without_seats_do_not_clobber_each_other(hub_url: str, mode: str) -> None:
    url = f"{hub_url}{SHOP}"
    async with Client(url, mode=mode) as one, Client(url, mode=mode) as other:
        assert one.protocol_version == other.protocol_version == "2025-11-25"
        await one.call_tool("order", ORDER)
        assert (await stock(one), await stock(other)) == (10, 12)
        await other.call_tool("reset_environment", {})
        assert (await stock(one), await stock(other)) == (10, 12)


async def test_a_session_keeps_its_episode_over_a_restart_of_the_layer(
    hub: Hub, hub_raw: Raw
) -> None:
    session = await hub_raw.session()
    call = request("tools/call", {"name": "order", "arguments": ORDER})
    await hub_raw.send(call, session)
    await Raw(App(hub), SHOP).send(call, session)
    episode = await hub.seats.at("shop", f"session:{session['mcp-session-id']}")
    assert [step.tool for step in episode.steps] == ["order", "order"]
    elsewhere = await hub_raw.send(call, session, path=f"{SHOP}?seat=mine")
    assert elsewhere.status_code == 404


async def test_a_session_that_ends_takes_its_episode_along(hub: Hub, hub_raw: Raw) -> None:
    session = await hub_raw.session()
    await hub_raw.send(request("tools/call", {"name": "order", "arguments": ORDER}), session)
    key = f"session:{session['mcp-session-id']}"
    episode_id = await hub.ledger.seat(("local", "shop", key))
    assert episode_id is not None
    assert (await hub_raw.send(None, session, method="DELETE")).status_code == 200
    assert (await hub.episodes.lookup(episode_id)).closed
    unused = await hub_raw.session()
    assert (await hub_raw.send(None, unused, method="DELETE")).status_code == 200


@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
async def test_a_seat_is_kept_between_connections_and_shared_by_eras(
    hub_url: str, mode: str
) -> None:
    url = f"{hub_url}{SHOP}?seat=mine-{mode}"
    async with Client(url, mode=mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else MODERN)
        await client.call_tool("order", ORDER)
    async with Client(url, mode=MODERN) as client:
        assert await stock(client) == 10
    async with Client(f"{hub_url}{SHOP}?seat=other-{mode}", mode=MODERN) as client:
        assert await stock(client) == 12


async def test_without_a_seat_the_era_without_sessions_reads_and_is_shown_where_to_write(
    hub_url: str,
) -> None:
    async with Client(f"{hub_url}{SHOP}?reset=on", mode=MODERN) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[-1] == "reset_environment"
        for _ in range(15):  # no horizon of somebody else's episode is in the way
            assert await stock(client) == 12
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("no_such_tool", {})
        refused = error_of(await client.call_tool("order", ORDER))
        assert refused["code"] == "SEAT_REQUIRED"
        again = error_of(await client.call_tool("reset_environment", {}))
    url = refused["details"]["url"]
    assert url in refused["message"]
    assert url != again["details"]["url"]
    assert urlsplit(url)[:3] == urlsplit(f"{hub_url}{SHOP}")[:3]
    assert "reset=on&seat=" in url
    async with Client(url, mode=MODERN) as client:
        await client.call_tool("order", ORDER)
        assert await stock(client) == 10


async def test_reset_starts_over_and_can_be_switched_off(hub_url: str) -> None:
    async with Client(f"{hub_url}{SHOP}?seat=resets", mode=MODERN) as client:
        await client.call_tool("order", ORDER)
        begun = await client.call_tool("reset_environment", {"task": "last-cup", "seed": 3})
        assert begun.structured_content == {
            "environment": "shop",
            "task": "last-cup",
            "instruction": "There should be one cup left. Order it.",
            "seed": 3,
        }
        assert await stock(client) == 12
        cup = await client.call_tool("order", {"sku": "CUP-01", "quantity": 2})
        assert error_of(cup)["code"] == "OUT_OF_STOCK"
        unknown = error_of(await client.call_tool("reset_environment", {"task": "last-cap"}))
        assert unknown["code"] == "UNKNOWN_TASK"
        wrong = error_of(await client.call_tool("reset_environment", {"tusk": 1}))
        assert (wrong["code"], "tusk" in wrong["message"]) == ("INVALID_ARGUMENTS", True)
    async with Client(f"{hub_url}{SHOP}?seat=resets&reset=off", mode=MODERN) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "reset_environment" not in names
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("reset_environment", {})


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_policy_and_tasks_are_resources_and_prompts(hub_url: str, mode: str) -> None:
    async with Client(f"{hub_url}{SHOP}", mode=mode) as client:
        listed = (await client.list_resources()).resources
        assert [str(each.uri) for each in listed] == [
            "envhub://shop/policy",
            "envhub://shop/tasks",
            "envhub://shop/tasks/buy-tea",
            "envhub://shop/tasks/last-cup",
            "envhub://shop/tasks/wait-for-tea",
        ]
        texts = [(await client.read_resource(str(each.uri))).contents[0] for each in listed]
        policy, index, task, *_ = [
            part.text for part in texts if isinstance(part, types.TextResourceContents)
        ]
        assert policy == "Sell only what is in stock.\n"
        assert [each["id"] for each in json.loads(index)] == ["buy-tea", "last-cup", "wait-for-tea"]
        assert "Please order two packs" in task
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("envhub://shop/tasks/none")

        assert [each.name for each in (await client.list_prompts()).prompts] == ["policy", "task"]
        prompt = await client.get_prompt("task", {"id": "last-cup"})
        content = prompt.messages[0].content
        assert isinstance(content, types.TextContent)
        assert "There should be one cup left" in content.text
        assert 'reset_environment with {"task": "last-cup"}' in content.text
        everything = content.text + json.dumps([str(text) for text in texts])
        for secret in ("expect", "oracle", "UPDATE products", "verifier"):
            assert secret not in everything
        with pytest.raises(MCPError, match="last-cap"):
            await client.get_prompt("task", {"id": "last-cap"})
        ref = types.PromptReference(name="task")
        completed = await client.complete(ref, {"name": "id", "value": "l"})
        assert completed.completion.values == ["last-cup"]


async def test_tool_names_and_read_only_hints_come_from_the_pack(hub_raw: Raw) -> None:
    listed = (await hub_raw.modern("tools/list")).json()["result"]
    hints = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in listed["tools"]}
    assert hints["list_products"] is True
    assert hints["order"] is hints["reset_environment"] is hints["wait"] is False
    assert listed["ttlMs"] > 0
    assert listed["tools"] == (await hub_raw.modern("tools/list")).json()["result"]["tools"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed["tools"])


async def test_a_seatless_url_has_both_clients_shake_hands(hub_raw: Raw) -> None:
    seatless = (await hub_raw.modern("server/discover")).json()["result"]
    assert MODERN not in seatless["supportedVersions"]
    assert "2025-11-25" in seatless["supportedVersions"]
    hub_raw.path = f"{SHOP}?seat=a"
    assert (await hub_raw.modern("server/discover")).json()["result"]["supportedVersions"] == [
        MODERN
    ]


# --- the transport of 2024 --------------------------------------------------------------------


async def test_an_episode_over_sse(hub_url: str, episode_id: str) -> None:
    transport = sse_client(f"{hub_url}/episodes/{episode_id}/sse")
    async with Client(transport, mode="legacy") as client:
        assert (await client.list_tools()).tools
        await client.call_tool("order", ORDER)
        assert await stock(client) == 10
        refused = error_of(await client.call_tool("order", {"sku": "X", "quantity": 1}))
        assert refused["code"] == "NO_SUCH_PRODUCT"
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("no_such_tool", {})


async def test_sse_refuses_foreign_hosts_and_messages_for_nobody(
    hub_raw: Raw, episode_id: str
) -> None:
    evil = {"host": "evil.example.com"}
    base = f"/episodes/{episode_id}"
    for path, method in ((f"{base}/sse", "GET"), (f"{base}/messages", "POST")):
        assert (await hub_raw.send(None, evil, path=path, method=method)).status_code == 421
    nobody = await hub_raw.send(request("ping"), path=f"{base}/messages?session_id={'0' * 32}")
    assert nobody.status_code == 404
    assert (await hub_raw.send(None, path=f"{base}/sse", method="DELETE")).status_code == 405


async def test_a_connection_has_only_so_many_requests_at_work(
    hub_url: str, episode_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.mcp_server.sse.MAX_UNANSWERED", 1)
    hello: dict[str, Any] = {"protocolVersion": "2024-11-05", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    hang = request("tools/call", {"name": "hang", "arguments": {}}, id=2)
    async with (
        httpx2.AsyncClient(base_url=hub_url) as client,
        client.stream("GET", f"/episodes/{episode_id}/sse") as stream,
    ):
        lines = stream.aiter_lines()
        path = [(await anext(lines)).removeprefix("data: ") for _ in range(2)][1]
        for message in (request("initialize", hello), ready, hang):
            assert (await client.post(path, json=message)).status_code == 202
        with anyio.fail_after(20):
            while (refused := await client.post(path, json=ready)).status_code == 202:
                await anyio.lowlevel.checkpoint()
        assert refused.status_code == 429
        assert refused.json()["error"]["data"]["code"] == "TOO_MANY_UNANSWERED"


def test_the_schema_of_a_tool_is_an_object_whatever_the_pack_says() -> None:
    listing = ToolList([ToolSpec(name="t", description="", input_schema={}, read_only=True)])
    assert listing.wire(any_structured=True)[0]["inputSchema"] == {"type": "object"}
    array = ToolSpec(
        name="t", description="", input_schema={}, read_only=True, output_schema={"type": "array"}
    )
    assert "outputSchema" in ToolList([array]).wire(any_structured=True)[0]
    assert "outputSchema" not in ToolList([array]).wire(any_structured=False)[0]

"""What clients get wrong, and what the transport answers."""

from __future__ import annotations

from typing import Any

import pytest

from hub.edge.guard import Guard
from hub.errors import EpisodeGone, UnknownEpisode
from hub.mcp_server.http import McpHttp
from tests.conformance.fixture import FixtureSurface
from tests.hub.mcp_server.conftest import META, MODERN, SECRET, Raw, fixed, request

pytestmark = pytest.mark.anyio
PING = request("ping")
CALL = {"name": "test_simple_text"}


def code(response: Any) -> int:
    found: int = response.json()["error"]["code"]
    return found


# --- what is refused before it is read --------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example.com"}, 421),
        ({"host": "127.0.0.1.evil.example.com:80"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example.com"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "file://localhost"}, 403),
        ({"content-type": "text/plain"}, 400),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": "text/html"}, 406),
    ],
)
async def test_foreign_requests_are_refused(raw: Raw, headers: dict[str, str], status: int) -> None:
    assert (await raw.send(PING, headers)).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost"},
        {"host": "[::1]:9000", "origin": "http://[::1]:9000"},
        {"origin": "https://localhost"},
        {"accept": "*/*"},
        {"accept": "application/json"},
        {"content-type": "application/json; charset=utf-8"},
    ],
)
async def test_local_requests_are_served(raw: Raw, headers: dict[str, str]) -> None:
    response = await raw.send(PING, headers)
    assert (response.status_code, response.json()["result"]) == (200, {})


async def test_a_hub_answers_to_the_hosts_it_is_given(surface: FixtureSurface) -> None:
    named = Raw(fixed(surface, guard=Guard(["hub.example.com"])))
    assert (await named.send(PING, {"host": "hub.example.com:443"})).status_code == 200
    assert (await named.send(PING, {"host": "other.example.com"})).status_code == 421
    open_to_all = Raw(fixed(surface, guard=Guard(["*"])))
    assert (await open_to_all.send(PING, {"host": "other.example.com"})).status_code == 200


async def test_a_body_over_the_limit_is_refused_declared_or_not(surface: FixtureSurface) -> None:
    small = Raw(fixed(surface, guard=Guard(max_body_bytes=100)))
    too_long = request("ping", {"padding": "x" * 100})
    assert (await small.send(too_long)).status_code == 413
    assert (await small.send(b"{" + b" " * 99)).status_code == 400  # as long as may be, but no JSON

    async def chunks() -> Any:
        for _ in range(3):
            yield b" " * 50

    undeclared = await small.client.post(
        "/mcp", content=chunks(), headers={"content-type": "application/json"}
    )
    assert "content-length" not in undeclared.request.headers
    assert undeclared.status_code == 413


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
async def test_other_verbs_are_not_allowed(raw: Raw, method: str) -> None:
    response = await raw.send(None, method=method)
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST, DELETE")


async def test_an_url_that_serves_nothing_says_so() -> None:
    async def resolve(scope: Any) -> Any:
        if scope["path"] == "/gone":
            raise EpisodeGone("episode ep-1 is closed")
        if scope["path"] == "/broken":
            raise ZeroDivisionError("a detail of ours")
        raise UnknownEpisode("there is no episode 'ep-2'", hint="did you mean ep-1?")

    raw = Raw(McpHttp(resolve, secret=SECRET))
    gone = await raw.send(PING, path="/gone")
    assert (gone.status_code, gone.json()["error"]["data"]["code"]) == (410, "EPISODE_GONE")
    unknown = await raw.send(PING, path="/unknown")
    assert unknown.status_code == 404
    assert unknown.json()["error"]["data"]["hint"] == "did you mean ep-1?"
    broken = await raw.send(PING, path="/broken")
    assert broken.status_code == 500
    assert broken.json()["error"]["data"]["kind"] == "infrastructure"
    assert "detail of ours" not in broken.text


# --- what is not JSON-RPC ---------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"mcp-protocol-version": MODERN}], ids=["old", "modern"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
        (b"null", -32600),
        (b"17", -32600),
        (b"[]", -32600),
        ([PING, PING], -32600),
        ({"id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"}, -32600),
    ],
)
async def test_malformed_messages(
    raw: Raw, headers: dict[str, str], body: Any, expected: int
) -> None:
    response = await raw.send(body, headers)
    assert (response.status_code, code(response), response.json()["id"]) == (400, expected, None)


@pytest.mark.parametrize("id", [0, -7, 2**53, "", "x", "seven"])
async def test_the_id_comes_back_as_it_was_sent(raw: Raw, id: Any) -> None:
    assert (await raw.send(request("ping", id=id))).json() == {
        "jsonrpc": "2.0",
        "id": id,
        "result": {},
    }


async def test_notifications_and_posted_responses_are_accepted(raw: Raw) -> None:
    for body in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/of-our-own", "params": {"x": 1}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "no"}},
    ):
        for headers in ({}, {"mcp-protocol-version": MODERN}):
            response = await raw.send(body, headers)
            assert (response.status_code, response.content) == (202, b"")


# --- the era without sessions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"mcp_protocol_version": "2025-11-25"}, -32020),
        ({"mcp_method": "tools/call"}, -32020),
        ({"mcp_method": "TOOLS/LIST"}, -32020),
        ({"mcp_method": ""}, -32020),
    ],
)
async def test_headers_that_do_not_match_the_body(
    raw: Raw, headers: dict[str, str], expected: int
) -> None:
    response = await raw.modern("tools/list", None, **headers)
    assert (response.status_code, code(response), response.json()["id"]) == (400, expected, 1)


async def test_a_name_header_must_match_and_white_space_around_it_does_not_count(raw: Raw) -> None:
    mismatch = await raw.modern("tools/call", CALL, mcp_name="test_error_handling")
    assert (mismatch.status_code, code(mismatch)) == (400, -32020)
    assert (await raw.modern("tools/call", CALL, mcp_name="  test_simple_text\t")).is_success
    encoded = "=?base64?dGVzdF9zaW1wbGVfdGV4dA==?="
    assert (await raw.modern("tools/call", CALL, mcp_name=encoded)).is_success


async def test_a_routing_header_given_twice_is_refused(raw: Raw) -> None:
    headers = [
        ("content-type", "application/json"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/list"),
        ("mcp-method", "tools/list"),
    ]
    body = request("tools/list", {"_meta": META})
    response = await raw.client.post("/mcp", json=body, headers=headers)
    assert (response.status_code, code(response)) == (400, -32020)


async def test_an_envelope_without_its_header_is_told_so(raw: Raw) -> None:
    response = await raw.send(request("tools/list", {"_meta": META}))
    assert (response.status_code, code(response)) == (400, -32020)


async def test_a_version_nobody_speaks_is_answered_with_those_we_do(raw: Raw) -> None:
    meta = META | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    response = await raw.modern("tools/list", {"_meta": meta}, mcp_protocol_version="2099-01-01")
    assert (response.status_code, code(response)) == (400, -32022)
    assert response.json()["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    refused = await raw.send(notification, {"mcp-protocol-version": "2099-01-01"})
    assert (refused.status_code, code(refused)) == (400, -32022)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", CALL | {"arguments": []}),
        ("tools/call", CALL | {"arguments": "{}"}),
        ("resources/read", {"uri": "test://no-such-resource"}),
        ("prompts/get", {"name": "test_simple_prompt", "arguments": 7}),
        ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "x"}}),
        ("prompts/get", {"name": "no_such_prompt"}),
        ("completion/complete", {"ref": {"type": "ref/other"}, "argument": {}}),
        ("tools/list", {"cursor": "page-2"}),
        ("resources/list", {"cursor": 7}),
    ],
)
async def test_params_that_do_not_fit_in_either_era(
    raw: Raw, method: str, params: dict[str, Any]
) -> None:
    modern = await raw.modern(method, params)
    assert (modern.status_code, code(modern)) == (400, -32602)
    old = await raw.send(request(method, params))
    assert (old.status_code, code(old)) == (200, -32602)
    assert old.json()["error"] == modern.json()["error"]


@pytest.mark.parametrize(
    "meta",
    [
        {},
        7,
        META | {"progressToken": [1]},
        META | {"io.modelcontextprotocol/clientInfo": 7},
        META | {"io.modelcontextprotocol/clientInfo": {"name": "x"}},
        META | {"io.modelcontextprotocol/clientCapabilities": []},
        META | {"io.modelcontextprotocol/logLevel": "loud"},
    ],
)
async def test_envelopes_that_do_not_fit(raw: Raw, meta: Any) -> None:
    response = await raw.modern("tools/call", CALL | {"_meta": meta})
    assert (response.status_code, code(response)) == (400, -32602)


@pytest.mark.parametrize("method", ["tools/unknown", "ping", "logging/setLevel", "initialize"])
async def test_methods_this_era_has_not(raw: Raw, method: str) -> None:
    response = await raw.modern(method)
    assert (response.status_code, code(response)) == (404, -32601)


async def test_a_listen_without_a_stream_to_answer_on(raw: Raw) -> None:
    params = {"notifications": {"toolsListChanged": True}}
    response = await raw.modern("subscriptions/listen", params, accept="application/json")
    assert response.status_code == 406


async def test_arguments_mirrored_into_headers_must_agree(raw: Raw) -> None:
    call = {"name": "test_x_mcp_header", "arguments": {"region": "eu"}}
    assert (await raw.modern("tools/call", call, mcp_param_region="eu")).is_success
    for headers in ({}, {"mcp_param_region": "us"}, {"mcp_param_region": "=?base64?!?="}):
        response = await raw.modern("tools/call", call, **headers)
        assert (response.status_code, code(response)) == (400, -32020)


# --- results ----------------------------------------------------------------------------------


async def test_results_of_the_era_without_sessions_are_dressed(raw: Raw) -> None:
    listed = (await raw.modern("tools/list")).json()["result"]
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == (
        "complete",
        0,
        "private",
    )
    info = {"name": "conformance", "version": "1.0.0", "title": "Conformance fixture"}
    assert listed["_meta"] == {"io.modelcontextprotocol/serverInfo": info}
    called = (await raw.modern("tools/call", CALL)).json()["result"]
    assert called["resultType"] == "complete"
    assert "ttlMs" not in called
    assert listed["tools"] == (await raw.send(request("tools/list"))).json()["result"]["tools"]


async def test_an_unknown_tool_is_a_protocol_error_in_both_eras(raw: Raw) -> None:
    modern = await raw.modern("tools/call", {"name": "no_such_tool"})
    assert (modern.status_code, code(modern)) == (400, -32602)
    old = await raw.send(request("tools/call", {"name": "no_such_tool"}))
    assert (old.status_code, code(old)) == (200, -32602)
    assert old.json()["error"]["message"] == "Unknown tool: no_such_tool"


async def test_a_tools_error_is_a_result(raw: Raw) -> None:
    result = (await raw.modern("tools/call", {"name": "test_error_handling"})).json()["result"]
    assert result["isError"] is True
    error = result["structuredContent"]["error"]
    assert error["code"] == "INTENTIONAL"
    assert error["message"] in result["content"][0]["text"]


async def test_a_client_that_takes_no_streams_is_still_answered(raw: Raw) -> None:
    params = {"name": "test_tool_with_progress", "_meta": META | {"progressToken": 1}}
    response = await raw.modern("tools/call", params, accept="application/json")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["result"]["content"][0]["text"] == "Done"


async def test_notifications_turn_an_answer_into_a_stream(raw: Raw) -> None:
    params = {"name": "test_tool_with_progress", "_meta": META | {"progressToken": "p"}}
    response = await raw.modern("tools/call", params)
    assert response.headers["content-type"] == "text/event-stream"
    assert response.text.count("notifications/progress") == 3
    assert response.text.endswith("\r\n\r\n")
    assert '"id":1,"result"' in response.text.split("data: ")[-1]

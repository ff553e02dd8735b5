"""The SDK's own server over the same surface: the same requests, the same answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types.methods import validate_server_result

from hub.mcp_server.sdk import SdkServer
from tests.conformance.fixture import FixtureSurface
from tests.hub.mcp_server.conftest import META, MODERN, Raw, request

pytestmark = pytest.mark.anyio

HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/call", {"name": "test_simple_text"}),
    ("tools/call", {"name": "test_simple_text", "arguments": {}}),
    ("tools/call", {"name": "test_image_content"}),
    ("tools/call", {"name": "test_multiple_content_types"}),
    ("tools/call", {"name": "test_error_handling"}),
    ("tools/call", {"name": "json_schema_2020_12_tool", "arguments": {"a": {"b": [1, None]}}}),
    ("tools/call", {"name": "no_such_tool"}),
    ("tools/call", {"name": "test_simple_text", "arguments": []}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "test://static-text"}),
    ("resources/read", {"uri": "test://static-binary"}),
    ("resources/read", {"uri": "test://nowhere"}),
    ("resources/read", {}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "test_simple_prompt"}),
    (
        "prompts/get",
        {"name": "test_prompt_with_arguments", "arguments": {"arg1": "1", "arg2": "2"}},
    ),
    ("prompts/get", {"name": "no_such_prompt"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "city", "value": "par"}},
    ),
    ("no/such/method", {}),
    ("ping", {}),
    ("server/discover", {}),
    ("initialize", {}),
]
SDK_ONLY_MESSAGES = {-32602}
"""Codes whose words are ours: we name the field, the SDK does not."""


@pytest.fixture
async def sdk(surface: FixtureSurface, anyio_backend: object) -> AsyncIterator[Raw]:
    manager = StreamableHTTPSessionManager(
        SdkServer(surface).server, json_response=True, stateless=True
    )
    asking = Raw(StreamableHTTPASGIApp(manager))
    async with manager.run(), asking.client:
        yield asking


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    error = answer.get("error")
    if error is not None and error["code"] in SDK_ONLY_MESSAGES:
        return answer | {"error": {"code": error["code"]}}
    return answer


@pytest.mark.parametrize(("method", "params"), REQUESTS)
async def test_2026_07_28_is_answered_as_the_sdk_answers_it(
    raw: Raw, sdk: Raw, method: str, params: dict[str, Any]
) -> None:
    name = {"mcp_name": "x"} if method == "resources/read" and not params else {}
    params = params or ({"uri": None} if name else {})
    ours, theirs = (
        await raw.modern(method, params, **name),
        await sdk.modern(method, params, **name),
    )
    assert comparable(ours.json()) == comparable(theirs.json())
    assert ours.status_code == theirs.status_code
    if "result" in ours.json():
        validate_server_result(method, MODERN, ours.json()["result"])


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(("method", "params"), REQUESTS)
async def test_older_versions_are_answered_as_the_sdk_answers_them(
    raw: Raw, sdk: Raw, version: str, method: str, params: dict[str, Any]
) -> None:
    headers = {"mcp-protocol-version": version}
    body = request(method, params)
    ours, theirs = await raw.send(body, headers), await sdk.send(body, headers)
    assert comparable(ours.json()) == comparable(theirs.json())
    assert ours.status_code == theirs.status_code
    if "result" in ours.json():
        validate_server_result(method, version, ours.json()["result"])


@pytest.mark.parametrize("version", [*HANDSHAKE, "2019-01-01", MODERN])
async def test_versions_are_negotiated_as_the_sdk_negotiates_them(
    raw: Raw, sdk: Raw, version: str
) -> None:
    ours, theirs = await raw.initialize(version), await sdk.initialize(version)
    mine, other = ours.json()["result"], theirs.json()["result"]
    # the SDK cannot say of itself that it announces changes; we can
    for result in (mine, other):
        for capability in result["capabilities"].values():
            capability.pop("listChanged", None)
            capability.pop("subscribe", None)
    assert mine == other


MALFORMED: list[tuple[Any, dict[str, str]]] = [
    (request("tools/list", {"_meta": META}), {"host": "evil.example.com"}),
    (request("tools/list"), {"content-type": "text/plain"}),
    (request("tools/list"), {"accept": "text/html"}),
    (request("tools/list", {"_meta": META}), {"mcp-protocol-version": MODERN, "accept": "x/y"}),
    (b"{", {}),
    (b"{", {"mcp-protocol-version": MODERN}),
    ([request("ping")], {}),
    ([request("ping")], {"mcp-protocol-version": MODERN}),
    (request("tools/list"), {"mcp-protocol-version": MODERN}),
    (request("tools/list", {"_meta": META}), {"mcp-protocol-version": MODERN}),
    (request("tools/list"), {"mcp-protocol-version": "1999-01-01"}),
    ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {}),
    ({"jsonrpc": "2.0", "method": "notifications/x"}, {"mcp-protocol-version": MODERN}),
    ({"jsonrpc": "2.0", "method": "notifications/x"}, {"mcp-protocol-version": "1999-01-01"}),
]


@pytest.mark.parametrize(("body", "headers"), MALFORMED)
async def test_bad_requests_have_the_status_the_sdk_gives_them(
    raw: Raw, surface: FixtureSurface, body: Any, headers: dict[str, str]
) -> None:
    app = SdkServer(surface).server.streamable_http_app(json_response=True, stateless_http=True)
    async with app.router.lifespan_context(app):
        theirs = await Raw(app).send(body, {"host": "127.0.0.1:8765"} | headers)
    ours = await raw.send(body, {"host": "127.0.0.1:8765"} | headers)
    assert ours.status_code == theirs.status_code

"""What every route has in common: whom it answers, how errors look, what headers go with them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from environments.errors import EnvironmentFault, PackInvalid
from hub.api.routing import captures
from hub.app import App, Hub
from hub.edge.guard import Guard
from hub.edge.pages import Pages
from hub.errors import body_of
from hub.telemetry import Metrics
from tests.hub.conftest import Rest

pytestmark = pytest.mark.anyio

PAGES = ("/", "/healthz", "/readyz", "/metrics", "/nothing", "/v1/nothing")
MCP = ("/episodes/{id}/mcp", "/episodes/{id}/sse", "/episodes/{id}/messages")


@pytest.fixture
async def client(hub: Hub) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(App(hub))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as opened:
        yield opened


def routes(rest: Rest) -> list[tuple[str, str]]:
    """Every method and path there is, with something in place of what is captured."""
    paths = rest.description["paths"]
    found = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    found += [("GET", path) for path in PAGES]
    found += [(method, path) for path in MCP for method in ("GET", "POST", "DELETE")]
    found += [(method, "/environments/shop/mcp") for method in ("GET", "POST", "DELETE")]
    filled = []
    for method, path in found:
        for name in captures(path):
            path = path.replace(f"{{{name}}}", "ep-1")
        filled.append((method, path))
    return filled


def error_in(response: httpx2.Response) -> Any:
    """The error of an answer, which MCP wraps in its own."""
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    return error if isinstance(error["code"], str) else error["data"]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example"}, 421, "FOREIGN_HOST"),
        ({"host": "127.0.0.1.evil.example:80"}, 421, "FOREIGN_HOST"),
        ({"origin": "https://evil.example"}, 403, "FOREIGN_ORIGIN"),
        ({"origin": "null"}, 403, "FOREIGN_ORIGIN"),
        ({"content-length": "9" * 5000}, 413, "BODY_TOO_LARGE"),
        ([("host", "127.0.0.1"), ("host", "127.0.0.1")], 400, "MALFORMED_HTTP"),
        ([("host", "evil.example"), ("host", "127.0.0.1")], 400, "MALFORMED_HTTP"),
    ],
)
async def test_every_route_refuses_foreigners(
    rest: Rest, headers: dict[str, str] | list[tuple[str, str]], status: int, code: str
) -> None:
    there = routes(rest)
    assert len(there) > 40
    for method, path in there:
        response = await rest.client.request(method, path, headers=headers)
        assert (response.status_code, error_in(response)["code"]) == (status, code), path


async def test_no_route_of_the_description_takes_a_body_nested_too_deeply(rest: Rest) -> None:
    deep = b'{"x":' + b'{"x":[' * 300 + b"]}" * 300 + b"}"
    asked = [(method, path) for method, path in routes(rest) if method == "POST"]
    for method, path in asked:
        response = await rest.client.request(
            method, path, content=deep, headers={"content-type": "application/json"}
        )
        if response.status_code not in (404, 405):
            assert (response.status_code, error_in(response)["code"]) == (400, "NESTED_TOO_DEEPLY")
    # as deep as may be is a mistake in words, not a failure
    most = b'{"environment":' + b"[" * 499 + b"]" * 499 + b"}"
    await rest.fails("POST", "/v1/episodes", most, status=422)


async def test_a_browser_is_told_to_guess_frame_and_keep_nothing(
    client: httpx2.AsyncClient,
) -> None:
    for path in ("/", "/nothing", "/v1/environments", "/v1/nothing", "/episodes/ep-1/mcp"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["cache-control"] == "no-store", path
    page = (await client.get("/")).headers
    assert "frame-ancestors 'none'" in page["content-security-policy"]
    assert page["referrer-policy"] == "no-referrer"


async def test_what_nobody_foresaw_is_found_in_the_log_by_its_id(
    hub: Hub, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("/root/secret is mine")

    def render() -> bytes:
        raise RuntimeError("/root/secret is mine")

    monkeypatch.setattr(hub.episodes, "lookup", broken)
    monkeypatch.setattr(hub.metrics, "render", render)
    for method, path in (
        ("GET", "/metrics"),
        ("GET", "/v1/episodes/ep-1"),
        ("POST", "/episodes/ep-1/mcp"),
        ("GET", "/episodes/ep-1/sse"),
    ):
        with capture_logs() as logs:
            response = await client.request(method, path, json={} if method == "POST" else None)
        error = error_in(response)
        assert (response.status_code, error["code"]) == (500, "INTERNAL_ERROR"), path
        assert "secret" not in response.text
        assert [line["error_id"] for line in logs] == [error["details"]["error_id"]], path


@pytest.mark.parametrize("kind", [PackInvalid, EnvironmentFault])
def test_no_client_learns_where_something_lies(kind: type[PackInvalid], tmp_path: Path) -> None:
    error = kind(f"{tmp_path}/shop/tools.py:3: no {tmp_path}", hint=f"see '{tmp_path}/a b'")
    told = body_of(error)
    assert str(tmp_path.parent) not in json.dumps([told.message, told.hint])
    assert told.message.startswith("tools.py:3: no ")
    told = body_of(kind("POST to /v1/episodes or http://127.0.0.1/tmp/x"))
    assert told.message == "POST to /v1/episodes or http://127.0.0.1/tmp/x"


async def test_pages_know_their_verbs() -> None:
    nothing = httpx2.ASGITransport(Pages([], Guard(), Metrics().fault))
    async with httpx2.AsyncClient(transport=nothing, base_url="http://localhost") as client:
        assert (await client.get("/")).json()["error"]["code"] == "UNKNOWN_ROUTE"


async def test_a_page_takes_no_other_verb(client: httpx2.AsyncClient) -> None:
    response = await client.post("/metrics")
    assert (response.status_code, error_in(response)["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert (await client.head("/healthz")).status_code == 200

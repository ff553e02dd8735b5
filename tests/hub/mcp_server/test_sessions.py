"""Sessions of the handshake era: whose they are, where they are good, and when they end."""

from __future__ import annotations

import base64

import anyio
import httpx2
import pytest
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from starlette.types import Scope

from hub.mcp_server.sessions import Sessions
from tests.conformance.fixture import FixtureSurface
from tests.hub.mcp_server.conftest import SECRET, Raw, fixed, request
from tests.hub.mcp_server.serving import served

pytestmark = pytest.mark.anyio
LIST = request("tools/list")


async def test_a_session_outlives_the_hub_that_opened_it(surface: FixtureSurface) -> None:
    session = await Raw(fixed(surface)).session()
    restarted = Raw(fixed(surface))
    assert (await restarted.send(LIST, session)).status_code == 200
    elsewhere = Raw(fixed(surface, secret=bytes(32)))
    assert (await elsewhere.send(LIST, session)).status_code == 404


@pytest.mark.parametrize("path", ["/other", "/mcp/", "/mcp?seat=a", "/mc"])
async def test_a_session_is_worth_nothing_at_another_url(raw: Raw, path: str) -> None:
    session = await raw.session()
    assert (await raw.send(LIST, session)).status_code == 200
    assert (await raw.send(LIST, session, path=path)).status_code == 404
    restarted = Raw(fixed(FixtureSurface()))
    assert (await restarted.send(LIST, session, path=path)).status_code == 404


async def test_a_session_is_its_principals_alone(surface: FixtureSurface) -> None:
    def principal(scope: Scope) -> bytes:
        return dict(scope["headers"]).get(b"authorization", b"")

    raw = Raw(fixed(surface, principal=principal))
    session = await raw.session()
    assert (await raw.send(LIST, session)).status_code == 200
    assert (await raw.send(LIST, session | {"authorization": "someone"})).status_code == 404


@pytest.mark.parametrize("forged", [b"", b"x", b"\xe9", b"A" * 39, b"=" * 39, b"A" * 4000])
async def test_an_id_that_is_not_ours_is_refused(raw: Raw, forged: bytes) -> None:
    response = await raw.send(LIST, {"mcp-session-id": forged})
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "Session not found"


async def test_no_bit_of_an_id_can_be_changed(raw: Raw) -> None:
    session_id = (await raw.session())["mcp-session-id"]
    signed = base64.urlsafe_b64decode(session_id + "=")
    sessions = Sessions(SECRET)
    binding = b"4:/mcp0:"
    assert sessions.find(session_id, binding) is not None
    for position in range(len(signed)):
        changed = bytearray(signed)
        changed[position] ^= 1
        forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        assert sessions.find(forged, binding) is None


async def test_a_deleted_session_is_gone(raw: Raw) -> None:
    session = await raw.session()
    other = await raw.session()
    assert (await raw.send(None, session, method="DELETE")).status_code == 200
    assert (await raw.send(LIST, session)).status_code == 404
    assert (await raw.send(None, session, method="DELETE")).status_code == 404
    assert (await raw.send(LIST, other)).status_code == 200
    assert (await raw.send(None, method="DELETE")).status_code == 400


async def test_a_session_is_offered_and_not_demanded(raw: Raw) -> None:
    assert (await raw.send(LIST)).status_code == 200
    level = request("logging/setLevel", {"level": "error"})
    assert (await raw.send(level)).json()["error"]["code"] == -32600
    assert (await raw.send(level, await raw.session())).json()["result"] == {}


async def test_initialize_is_taken_after_a_probe_and_with_the_probes_header(raw: Raw) -> None:
    discovered = (await raw.modern("server/discover")).json()["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    shaken = await raw.send(request("initialize", params), {"mcp-protocol-version": "2026-07-28"})
    assert shaken.json()["result"]["protocolVersion"] == "2025-06-18"
    session = {"mcp-session-id": shaken.headers["mcp-session-id"]}
    assert (await raw.send(LIST, session)).status_code == 200


async def test_memory_of_sessions_is_bounded_and_forgetting_one_does_not_end_it() -> None:
    sessions = Sessions(SECRET, remember=10)
    first = sessions.open(b"here", "2025-11-25")
    first.log_from = "error"
    for _ in range(50):
        sessions.open(b"here", "2025-11-25")
    found = sessions.find(first.id, b"here")
    assert found is not None
    assert (found.version, found.log_from) == ("2025-11-25", "debug")


async def test_a_standing_stream_tells_of_what_the_session_watches(
    surface: FixtureSurface,
) -> None:
    app = fixed(surface)
    async with served(app) as address:
        raw = Raw(app)
        session = await raw.session()
        uri = "test://watched-resource"
        subscribed = await raw.send(request("resources/subscribe", {"uri": uri}), session)
        assert subscribed.json()["result"] == {}
        lines = await standing(address, session, surface, ResourceUpdated(uri), first_of=2)
        assert [line for line in lines if "updated" in line]
        await raw.send(request("resources/unsubscribe", {"uri": uri}), session)
        lines = await standing(address, session, surface, ResourceUpdated(uri), first_of=1)
        assert not [line for line in lines if "updated" in line]


async def standing(
    address: str,
    session: dict[str, str],
    surface: FixtureSurface,
    event: ResourceUpdated,
    *,
    first_of: int,
) -> list[str]:
    """The notifications that arrive once ``event`` and then a change of tools were announced."""
    seen: list[str] = []
    headers = session | {"accept": "text/event-stream"}
    with anyio.fail_after(10):
        async with (
            httpx2.AsyncClient() as client,
            client.stream("GET", f"{address}/mcp", headers=headers) as response,
        ):
            assert response.status_code == 200
            second = await client.get(f"{address}/mcp", headers=headers)
            assert second.status_code == 409
            await surface.events.publish(event)
            await surface.events.publish(ToolsListChanged())
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    seen.append(line)
                if len(seen) == first_of:
                    break
    return seen


async def test_a_stream_ends_when_the_server_stops_or_the_session_does(
    surface: FixtureSurface,
) -> None:
    app = fixed(surface)
    async with served(app) as address:
        raw = Raw(app)
        for end in ("close", "delete"):
            session = await raw.session()
            headers = session | {"accept": "text/event-stream"}
            with anyio.fail_after(10):
                async with (
                    httpx2.AsyncClient() as client,
                    client.stream("GET", f"{address}/mcp", headers=headers) as response,
                ):
                    if end == "close":
                        app.close()
                    else:
                        await raw.send(None, session, method="DELETE")
                    assert "list_changed" not in (await response.aread()).decode()

"""Secrets are put wherever a client or an operator can put one; none comes out again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hub.auth.tokens import TokenFile
from tests.hub.mcp_server.conftest import request
from tests.hub.served import PACKS, Served, served

CALLED = "called-with-7f3a"
ASKED = "asked-for-51bc"
HEADED = "headed-0d92"
FOREIGN = "foreign-bearer-e8c1"
KEYS = {
    "ENVHUB_JUDGE_URL": "http://127.0.0.1:9/v1",
    "ENVHUB_JUDGE_MODEL": "m",
    "ENVHUB_JUDGE_KEY": "judge-key-44aa",
    "ENVHUB_USER_KEY": "user-key-55bb",
    "ENVHUB_MODEL_KEY": "model-key-66cc",
}
LOUD = '''

@tool(read_only=True)
def shout(text: str) -> str:
    """Fail over what it is told."""
    print(text)
    raise RuntimeError(text)
'''


def loud_pack(folder: Path) -> Path:
    """The shop with a tool that says what it was told wherever it can."""
    pack = folder / "loud"
    shutil.copytree(PACKS / "shop", pack)
    declared = pack / "environment.toml"
    declared.write_text(declared.read_text().replace('name = "shop"', 'name = "loud"'))
    tools = pack / "tools.py"
    tools.write_text(tools.read_text() + LOUD)
    return pack


class Client:
    """Asks with a token, and keeps what was answered."""

    def __init__(self, hub: Served, token: str) -> None:
        headers = {"authorization": f"Bearer {token}", "cookie": HEADED, "x-api-key": HEADED}
        self._http = httpx2.Client(base_url=hub.address, headers=headers)
        self.answers: list[str] = []

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        given = {"content": body} if isinstance(body, bytes) else {"json": body}
        headers = {"accept": "application/json, text/event-stream", **headers}
        if isinstance(body, bytes):
            headers["content-type"] = "application/json"
        response = self._http.request(method, path, headers=headers, **given)
        self.answers.append(f"{response.headers} {response.text}")
        return response.json() if response.status_code < 300 else None

    def close(self) -> None:
        self._http.close()


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_is_logged_or_told(tmp_path: Path, form: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    token = TokenFile(data / "tokens.json").create("ann", "ann", ["admin"])
    options = ("--log-level", "debug", "--packs", str(loud_pack(tmp_path)))
    environment = {**KEYS, "ENVHUB_LOG_FORMAT": form}
    with served(data, *options, environment=environment) as hub:
        ann, nobody = Client(hub, token), Client(hub, FOREIGN)
        try:
            _say_everywhere(ann)
            nobody.ask("GET", f"/v1/episodes?after={ASKED}")
            nobody.ask("POST", f"/environments/loud/mcp?seat={ASKED}", request("ping"))
        finally:
            ann.close()
            nobody.close()
        assert hub.stop() == 0
        log = hub.log.read_text()
    assert "TOOL_CRASHED" in log  # what it said of calls is there
    for secret in (CALLED, ASKED, HEADED, FOREIGN, token, *KEYS.values()):
        if secret not in ("m", KEYS["ENVHUB_JUDGE_URL"]):
            assert secret not in log, secret
    answered = "\n".join(ann.answers + nobody.answers)
    assert CALLED in answered  # to who said it
    for secret in (token, FOREIGN, HEADED, *(KEYS[name] for name in KEYS if "KEY" in name)):
        assert secret not in answered, secret
    assert CALLED not in "\n".join(nobody.answers)


def _say_everywhere(client: Client) -> None:
    episode = client.ask("POST", "/v1/episodes", {"environment": "loud", "task": "buy-tea"})["id"]
    client.ask("POST", f"/v1/episodes/{episode}/call", {"tool": "shout", "arguments": told()})
    client.ask("POST", f"/v1/episodes/{episode}/call", {"tool": CALLED, "arguments": told()})
    order = {"tool": "order", "arguments": {"sku": CALLED, "quantity": 1}, "call_key": CALLED}
    client.ask("POST", f"/v1/episodes/{episode}/call", order)
    client.ask("POST", f"/v1/episodes/{episode}/score", {"answer": CALLED})
    client.ask("GET", f"/v1/episodes?after={ASKED}&limit={ASKED}")
    client.ask("GET", f"/v1/{ASKED}")
    client.ask("GET", f"/metrics/{ASKED}")
    mcp = f"/episodes/{episode}/mcp?x={ASKED}"
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    hello["clientInfo"] = {"name": CALLED, "version": "1"}
    client.ask("POST", mcp, request("initialize", hello))
    client.ask("POST", mcp, request("tools/call", {"name": "shout", "arguments": told()}))
    client.ask("POST", mcp, request(CALLED, told()), **{"mcp-session-id": ASKED})
    seat = f"/environments/loud/mcp?seat={ASKED}"
    client.ask("POST", seat, request("tools/call", {"name": "shout", "arguments": told()}))
    for path in (f"/v1/episodes/{episode}/call", mcp, f"/episodes/{episode}/messages?x={ASKED}"):
        client.ask("POST", path, b'{"broken": "' + CALLED.encode())
        client.ask("POST", path, json.dumps([CALLED]).encode())
        client.ask("POST", path, request("ping"), origin=f"https://{HEADED}.example")


def told() -> dict[str, str]:
    return {"text": CALLED}

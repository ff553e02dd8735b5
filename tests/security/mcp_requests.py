"""MCP messages of both eras, most with something wrong in them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from tests.hub.mcp_server.conftest import META, MODERN
from tests.security.fuzz import Fuzzer
from tests.security.request import Request

if TYPE_CHECKING:
    from tests.security.requests import Known

SHOP = "environment://shop"
MESSAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}),
    ("ping", {}),
    ("server/discover", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "1"}),
    ("tools/call", {"name": "order", "arguments": {"sku": "TEA-100", "quantity": 1}}),
    ("tools/call", {"name": "recite", "arguments": {"length": 9}}),
    ("tools/call", {"name": "list_products"}),
    ("tools/call", {"name": "break_down", "arguments": {}}),
    ("tools/call", {"name": "reset_environment", "arguments": {"task": "buy-tea"}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": SHOP}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "buy-tea", "arguments": {}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "task"}, "argument": {"name": "id", "value": "b"}},
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 1, "reason": "no more"}),
    ("no/such/method", {}),
)
BODIES = (
    b"",
    b"[",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1' + b"0" * 5000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 400 + b"1" + b"}" * 401,
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 100_000,
)
ODD_HEADERS = (
    ("mcp-protocol-version", "2025-06-18"),
    ("mcp-protocol-version", "1999-01-01"),
    ("mcp-protocol-version", "x" * 3000),
    ("mcp-method", "tools/call"),
    ("mcp-name", "=?base64?b3JkZXI=?="),
    ("mcp-name", "=?base64?!?="),
    ("mcp-session-id", "0" * 64),
    ("last-event-id", "1"),
    ("accept", "text/event-stream"),
    ("accept", "application/json"),
    ("accept", ",;q=\x0b"),
    ("content-type", "text/plain"),
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("host", "evil.example"),
    ("mcp-param-sku", "\xff"),
)


class Draws:
    """Draws one message at a time."""

    def __init__(self, chance: random.Random, known: Known) -> None:
        self._chance = chance
        self._known = known
        self._fuzzer = Fuzzer(chance.randrange(1 << 32), 1 << 20)

    def draw(self) -> Request:
        """The next request."""
        chance = self._chance
        method, params = chance.choice(MESSAGES)
        headers: dict[str, str] = {}
        params = json.loads(json.dumps(params))
        if chance.random() < 0.5:
            params["_meta"] = {**META, "progressToken": 1}
            headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
            named = params.get("name", params.get("uri"))
            if named:
                headers["mcp-name"] = named
        elif self._known.sessions and chance.random() < 0.8:
            headers["mcp-session-id"] = chance.choice(self._known.sessions)
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = chance.choice((1, "a", 2**62))
        if chance.random() < 0.45:
            self._alter(message)
        if chance.random() < 0.2:
            name, value = chance.choice(ODD_HEADERS)
            headers[name] = value
        body = json.dumps(message).encode()
        if chance.random() < 0.15:
            body = self._fuzzer.broken(body)
        elif chance.random() < 0.1:
            body = chance.choice(BODIES)
        verb = "POST" if chance.random() < 0.93 else chance.choice(("GET", "DELETE", "PUT"))
        return Request.of("mcp", verb, self._target(), body, headers.items())

    def _alter(self, message: dict[str, Any]) -> None:
        """Put anything in some place of the message, or take something out."""
        place: Any = message
        while True:
            name = self._chance.choice([*place])
            if isinstance(place[name], dict) and place[name] and self._chance.random() < 0.7:
                place = place[name]
                continue
            kind = self._chance.randrange(4)
            if kind == 0:
                del place[name]
            elif kind == 1:
                place[name] = self._fuzzer.integer()
            else:
                place[name] = self._fuzzer.value(4)
            return

    def _target(self) -> str:
        chance = self._chance
        episode = f"/episodes/{chance.choice(self._known.episodes)}"
        match chance.randrange(10):
            case 0:
                verbs = ("sse", "messages?session_id=" + "0" * 32, "messages")
                return f"{episode}/{chance.choice(verbs)}"
            case 1:
                name = chance.choice(("shop", "sh%00p", "%ff", "no"))
                seat = chance.choice(("%00", "x" * 65, "a&reset=off", ""))
                return f"/environments/{name}/mcp?seat={seat}"
            case 2 | 3 | 4:
                return f"/environments/shop/mcp{chance.choice(('', '?seat=a', '?seat=b'))}"
        return f"{episode}/mcp"

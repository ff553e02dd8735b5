"""The hub over HTTP beside the official SDK's own server, under the same raw load generator."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks.load import Count, Plan
from tests.benchmarks.rows import Row

PACKS = Path(__file__).parent / "packs"
SECONDS = 4.0
CLIENTS = (1, 32, 256)
RESTING = 10_000
HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
CLIENT = {"name": "load", "version": "1"}


def run() -> Iterator[Row]:
    with echo() as port:
        baseline = {clients: rate([echo_call(port)] * clients, port) for clients in CLIENTS}
        opening = rate([opening_requests("/mcp", port)] * 8, port, mode="connects")
    for durability in ("none", "step"):
        with hub(durability) as server:
            episodes = server.create(max(CLIENTS))
            for clients in CLIENTS:
                calls = [hub_call(episode, server.port) for episode in episodes[:clients]]
                reach = {"none": ">= 4", "step": ">= 2.5"}[durability] if clients == 32 else ""
                name = f"tool calls with {clients} clients, durability {durability}"
                yield compared(name, rate(calls, server.port), baseline[clients], reach)
            if durability == "none":
                opens = [
                    opening_requests(f"/episodes/{episode}/mcp", server.port)
                    for episode in episodes[:8]
                ]
                value = rate(opens, server.port, mode="connects")
                yield compared("open a connection and list 20 tools", value, opening, ">= 3")
    yield resting()


def compared(name: str, value: float, baseline: float, target: str) -> Row:
    return Row(
        name=name,
        value=round(value),
        unit="1/s",
        baseline=round(baseline),
        ratio=round(value / baseline, 2),
        target=target,
    )


def resting() -> Row:
    """Memory of resting episodes in the hub's process, each two writes (about 5 pages) old."""
    with hub("none") as server:
        warm = server.create(1)[0]
        server.post(f"/v1/episodes/{warm}/call", take("warm", 1))
        before = resident_bytes(server.pid)
        for start in range(0, RESTING, 250):
            ids = server.create(250)
            for look in range(2):
                entry = take(f"{start}/{look}", 1 + look)
                calls = [{"episode": episode, **entry} for episode in ids]
                server.post("/v1/episodes/batch/call", {"calls": calls})
        used = resident_bytes(server.pid) - before
        size = sum(path.stat().st_size for path in server.data_dir.rglob("*.sqlite"))
    return Row(
        name=f"{RESTING:,} resting episodes above the idle hub, against a file copy each",
        value=round(used / 1e6, 1),
        unit="MB",
        baseline=round(size * RESTING / 1e6, 1),
        ratio=round(size * RESTING / used, 1),
        target="< 600 MB",
    )


def take(text: str, quantity: int) -> dict[str, Any]:
    return {"tool": "take", "arguments": {"text": text, "quantity": quantity, "note": True}}


# --- servers, each a process of its own on a free port ----------------------------------------


class Hub:
    """A hub serving the bench pack, as the bearer of ``token`` knows it; ``post`` is a plain JSON
    request."""

    def __init__(self, port: int, pid: int, data_dir: Path, token: str = "") -> None:
        self.port, self.pid, self.data_dir, self.token = port, pid, data_dir, token

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def create(self, count: int) -> list[str]:
        """Ids of new episodes."""
        return self.create_each(["bench"] * count)

    def create_each(self, environments: list[str]) -> list[str]:
        """Ids of new episodes, one of each environment."""
        episodes = [{"environment": each} for each in environments]
        results = self.post("/v1/episodes/batch", {"episodes": episodes})["results"]
        return [result["episode"]["id"] for result in results]


@contextlib.contextmanager
def hub(durability: str) -> Iterator[Hub]:
    with tempfile.TemporaryDirectory(prefix="envhub-bench-") as folder:
        port = free_port()
        command = [
            str(Path(sys.executable).with_name("envhub")), "serve", "--port", str(port),
            "--packs", str(PACKS), "--data-dir", folder, "--durability", durability,
            "--log-level", "warning",
        ]  # fmt: skip
        with process(command, f"http://127.0.0.1:{port}/readyz") as pid:
            yield Hub(port, pid, Path(folder))


@contextlib.contextmanager
def echo() -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "tests.benchmarks.echo_server", str(port)]
    with process(command, f"http://127.0.0.1:{port}/mcp"):
        yield port


@contextlib.contextmanager
def process(command: list[str], url: str, *, mute: bool = False) -> Iterator[int]:
    """Run a server until the context ends; it is ready once ``url`` answers anything at all."""
    said = subprocess.DEVNULL if mute else None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said) as server:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(url, timeout=1).close()
                    break
                except urllib.error.HTTPError:
                    break
                except OSError:
                    if server.poll() is not None:
                        raise RuntimeError(f"{command} ended with {server.returncode}") from None
                    time.sleep(0.05)
            yield server.pid
        finally:
            server.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


# --- requests, whole ---------------------------------------------------------------------------


def echo_call(port: int) -> list[str]:
    params = {"name": "echo_1", "arguments": {"text": "gift", "quantity": 2}}
    return [request("/mcp", port, HANDSHAKE, "tools/call", params)]


def hub_call(episode: str, port: int) -> list[str]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "take", "arguments": {"text": "gift", "quantity": 2}, "_meta": meta}
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "take"}
    path = f"/episodes/{episode}/mcp"
    return [request(path, port, MODERN, "tools/call", params, headers=headers)]


def opening_requests(path: str, port: int) -> list[str]:
    """What a client of the handshake era sends to open a connection and list the tools."""
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    return [
        request(path, port, HANDSHAKE, "initialize", hello),
        request(path, port, HANDSHAKE, "notifications/initialized", None, id=None),
        request(path, port, HANDSHAKE, "tools/list", {}, id=2),
    ]


def request(
    path: str,
    port: int,
    version: str,
    method: str,
    params: dict[str, Any] | None,
    *,
    id: int | None = 1,
    headers: dict[str, str] | None = None,
) -> str:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        message["id"] = id
    if params is not None:
        message["params"] = params
    body = json.dumps(message)
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {version}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", body])


def rate(connections: list[list[str]], port: int, *, mode: str = "calls") -> float:
    """Answers a second under these connections; every answer must be a success."""
    plan = Plan(mode=mode, port=port, seconds=SECONDS, connections=connections)
    finished = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load"],
        input=msgspec.json.encode(plan),
        capture_output=True,
        check=False,
        timeout=120,
    )
    if finished.returncode:
        raise RuntimeError(finished.stderr.decode())
    count = msgspec.json.decode(finished.stdout, type=Count)
    if count.failed or not count.done:
        raise RuntimeError(f"{count.failed} of {count.done} failed, e.g. {count.sample}")
    return count.done / count.seconds

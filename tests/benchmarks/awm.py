"""An environment of Agent World Model in the hub beside AWM's own way: one FastAPI server process
for each episode, its code patched to its own database file, its MCP side by fastapi-mcp.

The other way has an environment of its own under ``.cache`` (it wants ``mcp<2``), made when first
used. Both are asked the same over MCP; the hub is durable at every step.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from environments.importers.awm import sources
from tests.awm_files import SAMPLES, inserts_of, tables_of, write_awm
from tests.benchmarks.rows import Row
from tests.benchmarks.serving import (
    CLIENT,
    HANDSHAKE,
    MODERN,
    SECONDS,
    free_port,
    process,
    rate,
    request,
)

CACHE = Path(__file__).parents[2] / ".cache" / "awm"
NAME = "repair_shop"
READ: tuple[str, dict[str, Any]] = ("list_jobs", {"status": "open"})
WRITE: tuple[str, dict[str, Any]] = (
    "create_job", {"bike_id": 1, "what": "Grease the hub", "price": 3.0}
)  # fmt: skip
SERVERS, EPISODES, AT_ONCE, ROUNDS = 4, 200, 4, 3
RESTING = 256
PORTS = itertools.count(21_000)
"""Each once: two servers that start at the same time must not find the same one free. Below those
that connections are given."""
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Line(NamedTuple):
    """An episode that is played: its server's port, and what is said for a read and a write."""

    port: int
    requests: tuple[list[str], list[str]]


class Side(NamedTuple):
    """One way of serving some episodes at once: its processes, and a client for each episode."""

    pids: tuple[int, ...]
    lines: tuple[Line, ...]

    def measure(self, number: int) -> tuple[float, float]:
        """Calls a second of all clients together, and the CPU of one, all processes, in ms."""
        before = sum(map(spent_ms, self.pids))
        with ThreadPoolExecutor(len(self.lines)) as pool:
            ask = [pool.submit(rate, [each.requests[number]], each.port) for each in self.lines]
            total = sum(each.result() for each in ask)
        return total, (sum(map(spent_ms, self.pids)) - before) / (total * SECONDS)


def run() -> Iterator[Row]:
    python = other_python()
    with tempfile.TemporaryDirectory(prefix="envhub-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        port, pid = stack.enter_context(our_server(folder))
        our_episode(port)
        began = [
            (each_second(lambda: our_episode(port), EPISODES),
             each_second(lambda: their_episode(python, folder), SERVERS))
            for _ in range(ROUNDS)
        ]  # fmt: skip
        yield row("episodes: begin, list, a read, a write, end", began, ">= 100")
        servers = [stack.enter_context(their_server(python, folder)) for _ in range(AT_ONCE)]
        ours = Side((pid,), tuple(our_line(port) for _ in range(AT_ONCE)))
        theirs = Side(tuple(pid for _, pid in servers), tuple(their_line(p) for p, _ in servers))
        for number, what in enumerate(("reads", "writes")):
            both = [(ours.measure(number), theirs.measure(number)) for _ in range(ROUNDS)]
            rates = [(mine[0], other[0]) for mine, other in both]
            spent = [(mine[1], other[1]) for mine, other in both]
            yield row(f"a call that {what}, {AT_ONCE} episodes at once", rates, ">= 3")
            yield row(f"CPU of a call that {what}, all processes", spent, ">= 3", unit="ms")
        yield resting(port, pid, held_bytes(servers[0][1]))


def our_line(port: int) -> Line:
    episode = created(port)
    return Line(port, (our_call(port, episode, READ), our_call(port, episode, WRITE)))


def their_line(port: int) -> Line:
    session = opened(port)
    return Line(port, (their_call(port, session, READ), their_call(port, session, WRITE)))


def row(name: str, both: list[tuple[float, float]], target: str, unit: str = "1/s") -> Row:
    """The medians of both ways, measured in turn: what else the machine does falls on both."""
    value, baseline = (median(each) for each in zip(*both, strict=True))
    return Row(
        name=name,
        value=round(value, 2),
        unit=unit,
        baseline=round(baseline, 2),
        ratio=round(value / baseline if unit == "1/s" else baseline / value, 1),
        target=target,
    )


def resting(port: int, pid: int, server_bytes: int) -> Row:
    """All that the hub's processes hold, workers and both zygotes with them, for each of some live
    episodes, beside one server."""
    for _ in range(RESTING):
        post(port, f"/v1/episodes/{created(port)}/call", {"tool": WRITE[0], "arguments": WRITE[1]})
    each = held_bytes(pid) / RESTING
    return Row(
        name=f"memory of each of {RESTING} live episodes, all processes counted",
        value=round(each / 1e6, 2),
        unit="MB",
        baseline=round(server_bytes / 1e6, 2),
        ratio=round(server_bytes / each, 1),
        target=">= 20",
    )


def each_second(episode: Callable[[], None], count: int) -> float:
    """How many of ``count`` episodes are played in a second, a few at once."""
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(episode) for _ in range(count)]:
            done.result()
    return count / (time.perf_counter() - began)


# --- AWM's way ----------------------------------------------------------------------------------


def other_python() -> Path:
    """An interpreter with what AWM's servers need."""
    python = CACHE / "bin" / "python"
    if not (CACHE / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(CACHE)], check=True)
        wanted = ["mcp<2", "fastapi-mcp==0.4.0", "sqlalchemy>=2,<3", "uvicorn"]
        install = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        subprocess.run(install, check=True)
        (CACHE / "ready").touch()
    return python


def their_episode(python: Path, folder: Path) -> None:
    with their_server(python, folder) as (port, _):
        session = opened(port)
        for name, arguments in (READ, WRITE):
            rpc(port, "/mcp", "tools/call", {"name": name, "arguments": arguments}, session)


@contextlib.contextmanager
def their_server(python: Path, folder: Path) -> Iterator[tuple[int, int]]:
    """A database made from scratch, and a server on it, until the context ends."""
    port = next(PORTS)
    sample, database = SAMPLES / NAME, folder / f"{port}.db"
    connection = sqlite3.connect(database)
    for table in tables_of(sample):
        for statement in (table["ddl"], *table["indexes"]):
            with contextlib.suppress(sqlite3.Error):
                connection.execute(statement)
    connection.execute("PRAGMA foreign_keys = ON")
    for filled in inserts_of(sample):
        for statement in filled["insert_statements"]:
            with contextlib.suppress(sqlite3.Error):
                connection.execute(statement)
    connection.commit()
    connection.close()
    server = folder / f"{port}.py"
    server.write_text(patched((sample / "app.py").read_text(), database, port))
    with process([str(python), str(server)], f"http://127.0.0.1:{port}/mcp") as pid:
        yield port, pid


def patched(code: str, database: Path, port: int) -> str:
    """The code as AWM's launcher patches it, its engine told in one line first."""
    made = f"create_engine('sqlite:///{database}', connect_args={{'check_same_thread': False}})"
    code = re.sub(r"create_engine\(\n.*?\n\)", lambda _: made, code, flags=re.DOTALL)
    mounted = (
        "from fastapi_mcp import FastApiMCP\n    mcp = FastApiMCP(app)\n    mcp.mount_http()\n"
        f"    uvicorn.run(app, host='127.0.0.1', port={port}, log_level='error')"
    )
    return re.sub(r"uvicorn\.run\(app.*", lambda _: mounted, code)


def their_call(port: int, session: str, call: tuple[str, dict[str, Any]]) -> list[str]:
    params = {"name": call[0], "arguments": call[1]}
    headers = {"Mcp-Session-Id": session}
    return [request("/mcp", port, HANDSHAKE, "tools/call", params, headers=headers)]


def opened(port: int) -> str:
    """The id of an MCP session that has listed the tools."""
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    session = rpc(port, "/mcp", "initialize", hello)[0]
    rpc(port, "/mcp", "notifications/initialized", None, session)
    rpc(port, "/mcp", "tools/list", {}, session)
    return session


# --- the hub ------------------------------------------------------------------------------------


@contextlib.contextmanager
def our_server(folder: Path) -> Iterator[tuple[int, int]]:
    files, packs = folder / "files", folder / "packs"
    files.mkdir()
    for source in sources(write_awm(files)):
        if source.name == NAME:
            (packs / NAME).mkdir(parents=True)
            source.write(packs / NAME)
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("envhub")), "serve", "--port", str(port),
        "--packs", str(packs), "--data-dir", str(folder / "data"), "--log-level", "warning",
    ]  # fmt: skip
    with process(command, f"http://127.0.0.1:{port}/readyz") as pid:
        yield port, pid


def our_episode(port: int) -> None:
    episode = created(port)
    path = f"/episodes/{episode}/mcp"
    rpc(port, path, "tools/list", {"_meta": META})
    for name, arguments in (READ, WRITE):
        rpc(port, path, "tools/call", {"name": name, "arguments": arguments, "_meta": META})
    post(port, f"/v1/episodes/{episode}", None, method="DELETE")


def created(port: int) -> str:
    return str(post(port, "/v1/episodes", {"environment": NAME, "horizon": 1_000_000})["id"])


def our_call(port: int, episode: str, call: tuple[str, dict[str, Any]]) -> list[str]:
    params = {"name": call[0], "arguments": call[1], "_meta": META}
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": call[0]}
    path = f"/episodes/{episode}/mcp"
    return [request(path, port, MODERN, "tools/call", params, headers=headers)]


# --- asking -------------------------------------------------------------------------------------


def rpc(
    port: int, path: str, method: str, params: dict[str, Any] | None, session: str = ""
) -> tuple[str, Any]:
    """The session and the result of one MCP request; raises for an error."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    message |= {} if params is None else {"id": 1, "params": params}
    modern = params is not None and "_meta" in params
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN if modern else HANDSHAKE,
    }
    if modern:
        headers["Mcp-Method"] = method
        headers |= {"Mcp-Name": params["name"]} if params and "name" in params else {}
    if session:
        headers["Mcp-Session-Id"] = session
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(message), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if params is None:
        return session, None
    told = json.loads(text.partition("data: ")[2] if text.startswith("event:") else text)
    if "error" in told or told["result"].get("isError"):
        raise RuntimeError(text)
    return answer.getheader("Mcp-Session-Id") or session, told["result"]


def post(port: int, path: str, body: Any, method: str = "POST") -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, method=method)
    asked.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def held_bytes(pid: int) -> int:
    """What a process and all below it hold, memory that several share counted once."""
    total = 0
    for each in family(pid):
        lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def spent_ms(pid: int) -> float:
    """CPU time of a process and all below it, those included that have ended."""
    ticks = 0
    for each in family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> Iterator[int]:
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from family(int(child))

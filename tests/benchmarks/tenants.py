"""What one tenant's hostile environments do to another tenant's latency.

One hub, two tenants. One plays quick calls at a steady pace; then it does so again while the other
keeps 64 environments at their worst: endless loops, threads, floods of output and of answers,
crashes, memory bombs. Quiet and hostile times take turns, so that what else the machine does
strikes both.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.benchmarks.load import Plan
from tests.benchmarks.rows import Row
from tests.benchmarks.serving import PACKS, Hub, free_port, hub_call, process, request

ENVIRONMENTS = 64
ROUNDS = 3
ROUND_SECONDS = 8.0
CLIENTS = 4
PAUSE_SECONDS = 0.004
DEADLINE_SECONDS = 2.0

WORST = {
    "loop": "while True: pass",
    "threads": """
import threading
for _ in range(8):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
while True: pass
""",
    "output": "while True: print('x' * 100_000)",
    "answer": "return 'x' * 6_000_000",
    "rows": "return [{'n': n, 'text': 'row'} for n in range(60_000)]",
    "crash": "import os; os._exit(1)",
    "memory": """
held = []
while True: held.append(bytearray(1 << 20))
""",
    "sql": """
numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
return db.one(f"{numbers} SELECT max(i) FROM n")
""",
}
"""What the one tool of a hostile environment does."""


def run() -> Iterator[Row]:
    yield compared([measured() for _ in range(ROUNDS)])


def measured() -> tuple[float, float]:
    """The 99th percentile of one hub, quiet and then not, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="envhub-tenants-") as folder:
        packs = Path(folder) / "packs"
        names = [write_pack(packs, number) for number in range(ENVIRONMENTS)]
        with two_tenants(Path(folder), packs) as (one, other):
            episodes = one.create(CLIENTS)
            calls = [with_token(hub_call(each, one.port)[0], one.token) for each in episodes]
            attacks = [
                [with_token(attack(episode, other.port), other.token)]
                for episode in other.create_each(names)
            ]
            asyncio.run(latencies(calls, one.port, 2.0))
            quiet = asyncio.run(latencies(calls, one.port, ROUND_SECONDS))
            with attacked(attacks, other.port):
                time.sleep(1.0)  # until it is at its worst
                beside = asyncio.run(latencies(calls, one.port, ROUND_SECONDS))
    print(
        f"  p99 {p99(quiet):.2f} ms quiet ({len(quiet)} calls), {p99(beside):.2f} ms beside "
        f"{len(attacks)} hostile environments ({len(beside)} calls); medians "
        f"{statistics.median(quiet) * 1e3:.2f}, {statistics.median(beside) * 1e3:.2f}",
        file=sys.stderr,
    )
    return p99(quiet), p99(beside)


def compared(rounds: list[tuple[float, float]]) -> Row:
    quiet, beside = (statistics.median(values) for values in zip(*rounds, strict=True))
    return Row(
        name=f"p99 of a call beside {ENVIRONMENTS} hostile environments of another tenant",
        value=round(beside, 2),
        unit="ms",
        baseline=round(quiet, 2),
        ratio=round(beside / quiet, 2),
        target="<= 4",
    )


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000


# --- the tenants -------------------------------------------------------------------------------


@contextlib.contextmanager
def two_tenants(folder: Path, packs: Path) -> Iterator[tuple[Hub, Hub]]:
    port, data = free_port(), folder / "data"
    envhub = str(Path(sys.executable).with_name("envhub"))
    secrets = [
        subprocess.run(
            [envhub, "token", "create", name, "--data-dir", str(data)],
            check=True, capture_output=True, text=True,
        ).stdout.strip()
        for name in ("quiet", "hostile")
    ]  # fmt: skip
    command = [
        envhub, "serve", "--port", str(port), "--packs", str(PACKS), "--packs", str(packs),
        "--data-dir", str(data), "--durability", "none", "--log-level", "error",
    ]  # fmt: skip
    with process(command, f"http://127.0.0.1:{port}/healthz", mute=True) as pid:
        quiet, hostile = (Hub(port, pid, data, secret) for secret in secrets)
        yield quiet, hostile


def write_pack(folder: Path, number: int) -> str:
    """A hostile environment; gives its name."""
    kind = list(WORST)[number % len(WORST)]
    name = f"{kind}-{number}"
    pack = folder / name
    pack.mkdir(parents=True)
    (pack / "environment.toml").write_text(
        f'name = "{name}"\nversion = "1"\ntitle = "{kind}"\nsummary = "{kind}"\n'
        f"[limits]\ncall_seconds = {DEADLINE_SECONDS}\nmax_steps = 1000000\n"
        f"memory_bytes = {128 << 20}\nresult_bytes = 8000000\n"
    )
    (pack / "schema.sql").write_text("CREATE TABLE t (id INTEGER PRIMARY KEY);\n")
    body = "\n    ".join(WORST[kind].strip().splitlines())
    (pack / "tools.py").write_text(
        "from typing import Any\n\nfrom environments.authoring import Database, tool\n\n\n"
        f'@tool(read_only=True)\ndef attack(db: Database) -> Any:\n    """Do harm."""\n    {body}\n'
    )
    return name


# --- what they send ----------------------------------------------------------------------------


def attack(episode: str, port: int) -> str:
    params = {"name": "attack", "arguments": {}}
    version = "2025-11-25"
    return request(f"/episodes/{episode}/mcp", port, version, "tools/call", params)


def with_token(text: str, token: str) -> str:
    return text.replace("\r\n", f"\r\nAuthorization: Bearer {token}\r\n", 1)


@contextlib.contextmanager
def attacked(attacks: list[list[str]], port: int) -> Iterator[None]:
    """Every hostile environment is called again and again while the body runs."""
    plan = Plan(mode="calls", port=port, seconds=3600, connections=attacks)
    with subprocess.Popen(
        ["nice", "-n", "19", sys.executable, "-m", "tests.benchmarks.load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as load:
        assert load.stdin is not None
        load.stdin.write(msgspec.json.encode(plan))
        load.stdin.close()
        try:
            yield
        finally:
            load.kill()


async def latencies(calls: list[str], port: int, seconds: float) -> list[float]:
    """How long each call took, at a steady pace of one client for each of ``calls``."""
    ends = time.perf_counter() + seconds
    taken: list[float] = []

    async def client(call: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while time.perf_counter() < ends:
                started = time.perf_counter()
                writer.write(call)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                taken.append(time.perf_counter() - started)
                if not head.startswith(b"HTTP/1.1 200") or b'"isError":true' in body:
                    raise RuntimeError(body[:500].decode())
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            writer.close()

    await asyncio.gather(*(client(call.encode()) for call in calls))
    return taken

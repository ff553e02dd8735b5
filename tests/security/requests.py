"""Random requests against a hub: ``python -m tests.security.requests [COUNT] [--seed SEED]``.

A third each: requests that schemathesis draws from the hub's own description, with ids that exist
put in so that they get somewhere; MCP messages of both eras with something wrong in them; and raw
bytes, broken HTTP among them. No answer may be a failure of ours or name a path of this machine,
and the hub must live, answer, and hold no more than before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hub.api.openapi import describe
from hub.api.rest import PREFIX
from hub.wire import MAX_BATCH
from tests.end_to_end.api_reference import routes
from tests.security import http_requests, mcp_requests, rest_requests
from tests.security.request import Request
from tests.security.watched import Holds, Watched, watched

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 24
PATIENCE_SECONDS = 1.0
"""How long an answer is waited for: some requests ask for streams, or are not whole."""
SETTLE_SECONDS = 20
MEMORY_SLACK_BYTES = 24 << 20
OURS = re.compile(
    rb'\\*"code\\*": ?(-32603|\\*"(INTERNAL_ERROR|SNAPSHOT_FAULT|LEDGER_FAILED)\\*")'
    rb'|Traceback \(most recent|File \\*"[^"]*", line \d'
)
"""What tells of a fault of ours; the words alone may be a request's own, which is told of them."""
FULL = re.compile(
    rb'"code":-32603,"message":"the hub holds (\d+) episodes and may hold (\d+)"'
    rb',"data":{"kind":"infrastructure","code":"AT_CAPACITY"'
)
"""What MCP says where there is no room; its code is that of failures too."""
EPISODES = re.compile(rb'"(ep-[\w-]{6,})"')
GROUPS = re.compile(rb'"(gr-[\w-]{6,})"')
SESSION = re.compile(rb"mcp-session-id: ([^\r]+)")


class Fault(Exception):
    """The hub failed, or held on to something."""


class Known:
    """What exists at the hub, as far as its answers told."""

    def __init__(self) -> None:
        self.episodes: deque[str] = deque(["ep-1"], maxlen=30)
        self.groups: deque[str] = deque(["gr-1"], maxlen=10)
        self.sessions: deque[str] = deque(maxlen=10)

    def learn(self, answer: bytes) -> None:
        self.episodes.extend(found.decode() for found in EPISODES.findall(answer)[:5])
        self.groups.extend(found.decode() for found in GROUPS.findall(answer)[:5])
        self.sessions.extend(found.decode() for found in SESSION.findall(answer[:1000]))


class Fuzz:
    """Sends requests and judges the answers."""

    def __init__(self, hub: Watched, paths: list[Path]) -> None:
        self.known = Known()
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._hub = hub
        self._paths = [str(path).encode() for path in paths]

    async def send(self, request: Request) -> None:
        """Send one request, wait for its answer a while, and judge it."""
        answer = await self.ask(request)
        self.known.learn(answer)
        status = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "none"
        self.counts[f"{request.kind} {status}"] += 1
        named = [path for path in self._paths if path in answer]
        if (status[0] == "5" and status != "503") or is_ours(answer) or named:
            self.faults.append(f"{request.raw[:600]!r}\n  was answered {answer[:900]!r}")
        if not self._hub.alive:
            raise Fault(f"the hub is gone after {request.raw[:2000]!r}")

    async def ask(self, request: Request, patience_seconds: float = PATIENCE_SECONDS) -> bytes:
        """Its answer, as far as it comes in time."""
        answer = b""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._hub.port)
        except OSError:
            return answer
        try:
            async with asyncio.timeout(patience_seconds):
                for piece in request.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                while piece := await reader.read(65536):
                    answer += piece
                    if b"text/event-stream" in answer[:500] or len(answer) > 1 << 20:
                        break
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()
        return answer

    async def send_all(self, draw: Callable[[], Request], count: int) -> None:
        """Send ``count`` requests, a few at once."""
        left = iter(range(count))

        async def some() -> None:
            for _ in left:
                await self.send(draw())

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(some())

    async def settled(self, goal: Holds | None) -> Holds:
        """What the hub holds once it is at rest, at best no more than ``goal``."""
        ends = time.monotonic() + SETTLE_SECONDS
        before = self._hub.look()
        while True:
            await asyncio.sleep(0.5)
            now = self._hub.look()
            kept = (now.tasks, now.descriptors)
            if (goal is None and kept == (before.tasks, before.descriptors)) or (
                goal is not None and not more(now, goal)
            ):
                return now
            if time.monotonic() > ends:
                return now
            before = now


def is_ours(answer: bytes) -> bool:
    """Whether an answer tells of a fault of ours; a hub that is full has none."""

    def without(full: re.Match[bytes]) -> bytes:
        held, limit = (int(count) for count in full.groups())
        # less may be left than the next in the queue asks for
        return b"" if held + MAX_BATCH > limit else full[0]

    return OURS.search(FULL.sub(without, answer)) is not None


def more(now: Holds, before: Holds) -> str:
    """What there is more of, in words; empty if nothing."""
    if now.descriptors > before.descriptors:
        return f"{now.descriptors - before.descriptors} descriptors are left open"
    if len(now.tasks) > len(before.tasks):
        left = Counter(now.tasks) - Counter(before.tasks)
        return f"{len(now.tasks) - len(before.tasks)} tasks are left behind: {dict(left)}"
    return ""


async def run(count: int, seed: int, folder: Path, *options: str) -> tuple[Fuzz, list[Holds]]:
    """Send ``count`` requests. Returns the answers by kind, and what was held at rest: after a
    tenth, at half and at the end. Raises ``Fault``."""
    table = [route for routes_ in routes().values() for route in routes_]
    description = describe(table, PREFIX, "1")
    with watched(folder, *options) as hub:
        fuzz = Fuzz(hub, [folder, ROOT, Path(sys.prefix), Path.home()])
        chance = random.Random(seed)
        draws: list[Callable[[], Request]] = [
            rest_requests.Draws(description, chance, fuzz.known, count // 3).draw,
            mcp_requests.Draws(chance, fuzz.known).draw,
            http_requests.Draws(description, chance, fuzz.known).draw,
        ]

        def draw() -> Request:
            return chance.choice(draws)()

        held: list[Holds] = []
        await fuzz.send(Request.of("start", "POST", "/v1/episodes", {"environment": "shop"}))
        # what is made with the first of them stays
        for stream in (f"/episodes/{fuzz.known.episodes[-1]}/sse", "/v1/events?cursor=0"):
            await fuzz.send(Request.of("start", "GET", stream))
        for share in (count // 10, count // 2 - count // 10, count - count // 2):
            await fuzz.send_all(draw, share)
            first = held[0] if held else None
            held.append(await fuzz.settled(first))
        await _play(fuzz)
        code = hub.stop()
        log = hub.log.read_text().splitlines()
    said = [line for line in log if '"level":"error"' in line or "Traceback" in line]
    if code != 0 or said:
        fuzz.faults.append(
            f"the hub ended with {code} and said {[line[-1500:] for line in said[:5]]}"
        )
    return fuzz, held


def judge(fuzz: Fuzz, held: list[Holds]) -> None:
    """Raise ``Fault`` where the hub failed or kept something."""
    if fuzz.faults:
        told = "\n".join(fuzz.faults[:10])
        raise Fault(f"{len(fuzz.faults)} requests found a fault of ours, e.g.\n{told}")
    first, half, end = held
    if left := more(end, first):
        raise Fault(left)
    if end.resident_bytes - half.resident_bytes > MEMORY_SLACK_BYTES:
        grown = end.resident_bytes - half.resident_bytes
        raise Fault(f"memory has grown by {grown >> 20} MiB over the second half")


async def _play(fuzz: Fuzz) -> None:
    """The hub still does what it is for."""

    async def answer(path: str, body: Any) -> Any:
        told = await fuzz.ask(Request.of("end", "POST", path, body), patience_seconds=20)
        return json.loads(told.partition(b"\r\n\r\n")[2] or b"null")

    made = await answer("/v1/episodes", {"environment": "shop", "task": "buy-tea"})
    episode = f"/v1/episodes/{made['id']}"
    order = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
    told = [await answer(f"{episode}/call", order), await answer(f"{episode}/score", {})]
    if "reward" not in told[1] or told[1]["reward"]["value"] != 1:
        fuzz.faults.append(f"an episode was answered {told} after all that")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.security.requests", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--broken", action="store_true", help="against a hub with a fault")
    options = parser.parse_args()
    print(f"{options.count} random requests against a hub, seed {options.seed}", flush=True)
    broken = ["--broken"] if options.broken else []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        fuzz, held = asyncio.run(run(options.count, options.seed, Path(name), *broken))
    for what, many in sorted(fuzz.counts.items()):
        print(f"  {what:12} {many}")
    for when, holds in zip(("a tenth", "half", "all"), held, strict=True):
        print(
            f"after {when}: {holds.descriptors} descriptors, {len(holds.tasks)} tasks,"
            f" {holds.resident_bytes / (1 << 20):.1f} MiB"
        )
    print(f"{time.monotonic() - began:.0f} s")
    judge(fuzz, held)


if __name__ == "__main__":
    main()

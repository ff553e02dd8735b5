"""Packs written on the spot, and a sandbox to run them in."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from environments.catalogue import Pack, load_pack
from environments.sandbox.host import Moment, Sandbox, SandboxLimits, Transition
from snapshots import Branch, Snapshot, SnapshotStore

SCHEMA = """
CREATE TABLE items (sku TEXT PRIMARY KEY NOT NULL, on_hand INTEGER NOT NULL, note TEXT);
CREATE TABLE log (id TEXT PRIMARY KEY NOT NULL, at TEXT NOT NULL);
"""
DATA = "INSERT INTO items VALUES ('a', 5, NULL), ('b', 7, 'x');\n"
TOOLS = '''
from typing import Any
from environments.authoring import Database, ToolError, new_id, timestamp, tool

@tool(read_only=True)
def stock(db: Database, sku: str) -> dict:
    """How many there are."""
    row = db.one("SELECT * FROM items WHERE sku = ?", sku)
    if row is None:
        raise ToolError("NO_SUCH_ITEM", f"there is no {sku}", sku=sku)
    return row

@tool(read_only=False)
def take(db: Database, sku: str, quantity: int = 1) -> dict:
    """Take some away."""
    db.run("UPDATE items SET on_hand = on_hand - ? WHERE sku = ?", quantity, sku)
    left = db.scalar("SELECT on_hand FROM items WHERE sku = ?", sku)
    if left < 0:
        raise ToolError("OUT_OF_STOCK", f"{sku} is out of stock", left=left + quantity)
    db.insert("log", id=new_id("log"), at=timestamp())
    return {"left": left}
'''


@dataclass
class World:
    """A pack with its snapshot, and one episode of it."""

    sandbox: Sandbox
    pack: Pack
    snapshot: Snapshot
    branch: Branch
    moment: Moment

    async def call(self, tool: str, **arguments: Any) -> Transition:
        """Call, and commit what came of it as an episode does."""
        return self.accept(
            await self.sandbox.call(self.pack, self.branch, self.moment, tool, arguments)
        )

    def accept(self, transition: Transition) -> Transition:
        if transition.delta is not None:
            self.branch.commit(transition.delta, ())
        self.moment = transition.moment
        return transition

    def another(self) -> World:
        """Another episode of the same pack, from the start."""
        return World(
            self.sandbox, self.pack, self.snapshot, Branch(self.snapshot),
            Moment(self.pack.spec.clock.start_ms, self.moment.seed + 1, {}),
        )  # fmt: skip


class Packs:
    """Writes packs, and the snapshots they need."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = SnapshotStore(folder / "snapshots")

    def write(
        self, tools: str = "", manifest: str = "", *, name: str = "shop", **files: str
    ) -> Pack:
        """A pack whose ``tools.py`` has ``tools`` after the usual ones; ``events_jsonl=`` etc."""
        folder = self._folder / name
        folder.mkdir()
        head = f'name = "{name}"\nversion = "1"\ntitle = "Shop"\nsummary = "A shop"\n'
        contents = {
            "environment.toml": head + textwrap.dedent(manifest),
            "schema.sql": SCHEMA,
            "data.sql": DATA,
            "tools.py": TOOLS + textwrap.dedent(tools),
        }
        contents |= {key.replace("_", ".", 1): text for key, text in files.items()}
        for file, text in contents.items():
            (folder / file).write_text(text)
        return load_pack(folder)

    def world(self, sandbox: Sandbox, *arguments: str, **options: str) -> World:
        """An episode of such a pack, from its start."""
        pack = self.write(*arguments, **options)
        snapshot = self._store.build(pack.recipe())
        moment = Moment(pack.spec.clock.start_ms, 0, {})
        return World(sandbox, pack, snapshot, Branch(snapshot), moment)


Make = Callable[..., World]
LOOSE = ("landlock", "seccomp")
"""Layers that a sandbox is opened without where tools tell a test of themselves by files."""


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for another process to have done something."""
    with anyio.fail_after(seconds):
        while not true():  # noqa: ASYNC110 - there is no event that crosses processes
            await anyio.sleep(0.005)


@pytest.fixture(scope="session")
async def sandbox(anyio_backend: object) -> AsyncIterator[Sandbox]:
    """Shared by the tests that leave it in order."""
    limits = SandboxLimits(max_workers=8, workers_per_environment=2)
    async with Sandbox(limits) as opened:
        yield opened


@pytest.fixture
def packs(tmp_path: Path) -> Packs:
    return Packs(tmp_path)


@pytest.fixture
def make(sandbox: Sandbox, packs: Packs) -> Make:
    """``make(tools, manifest, name=..., **files)``: an episode of a pack with those tools."""

    def world(*arguments: str, **options: str) -> World:
        return packs.world(sandbox, *arguments, **options)

    return world


@pytest.fixture
def ended() -> list[str]:
    """Why workers of the ``lone`` sandbox ended, in order."""
    return []


@pytest.fixture
async def lone(ended: list[str]) -> AsyncIterator[Sandbox]:
    """A loose sandbox of one worker per environment that nobody else uses."""

    def note(kind: str, environment: str, **fields: object) -> None:
        if kind == "worker_ended":
            ended.append(str(fields["reason"]))

    async with Sandbox(SandboxLimits(workers_per_environment=1, without=LOOSE), note) as opened:
        yield opened

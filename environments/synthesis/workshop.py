"""Where what was written is put together and run: packs in the making, in the confined guest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.catalogue import MANIFEST, Catalogue
from environments.environment import Environment, Environments
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.spec import VERIFIERS, EnvironmentSpec, Task
from snapshots import SnapshotStore

NO_TOOLS: Final = '''"""Nothing yet: a pack needs a tool."""

from environments.authoring import tool


@tool(read_only=True)
def nothing() -> dict:
    """Nothing yet."""
    return {}
'''


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of a pack, as far as they are there."""

    spec: EnvironmentSpec
    schema: str = ""
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    tools: str = NO_TOOLS
    policy: str = ""
    tasks: tuple[Task, ...] = ()
    verifiers: str = ""

    def with_tasks(self, tasks: Iterable[Task], verifiers: str = "") -> Draft:
        return replace(self, tasks=tuple(tasks), verifiers=verifiers)

    def files(self) -> dict[str, bytes]:
        """The files of the pack by their names in it."""
        texts = {MANIFEST: manifest(self.spec)}
        if not self.spec.environments:
            texts |= {"schema.sql": self.schema, "tools.py": self.tools}
        for table, rows in (self.rows or {}).items():
            texts[f"data/{table}.jsonl"] = _lines(rows)
        if self.policy:
            texts["policy.md"] = self.policy
        if self.tasks:
            texts["tasks.jsonl"] = _lines(self.tasks)
        if self.verifiers:
            texts[VERIFIERS] = self.verifiers
        return {name: text.encode() for name, text in texts.items()}

    def write(self, folder: Path) -> None:
        for name, content in self.files().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


class Workshop:
    """Workers, and a place to build in. Make it with ``workshop``."""

    def __init__(self, scratch: Path, sandbox: Sandbox) -> None:
        self.store = SnapshotStore(scratch / "snapshots")
        self.sandbox = sandbox
        self._drafts = scratch / "drafts"

    def lay(self, draft: Draft, members: Sequence[Path] = ()) -> Path:
        """The folder of a draft, beside the packs that it mounts. It stays until the workshop
        closes: workers may load from it at any time."""
        content = msgspec.json.encode((sorted(draft.files().items()), list(map(str, members))))
        place = self._drafts / hashlib.sha256(content).hexdigest()[:24]
        folder = place / draft.spec.name
        if not place.exists():
            draft.write(folder)
            for member in members:
                (place / member.name).symlink_to(member.resolve())
        return folder

    async def opened(self, draft: Draft, members: Sequence[Path] = ()) -> Environment:
        """The environment that a draft makes; for a world, with the packs it mounts.

        Raises ``PackInvalid`` and ``EnvironmentFault`` saying what is wrong with it.
        """
        catalogue = Catalogue([self.lay(draft, members).parent])
        return await Environments(catalogue, self.store, self.sandbox).get(draft.spec.name)


@asynccontextmanager
async def workshop() -> AsyncIterator[Workshop]:
    """A workshop with workers of its own, gone when it is left."""
    with tempfile.TemporaryDirectory(prefix="envhub-synth-") as scratch:
        async with Sandbox(SandboxLimits()) as sandbox:
            yield Workshop(Path(scratch), sandbox)


def manifest(spec: EnvironmentSpec) -> str:
    """``environment.toml``. JSON's texts, numbers and lists are TOML's, too."""
    plain: dict[str, Any] = msgspec.to_builtins(spec)
    clock = plain.pop("clock", {})
    limits = plain.pop("limits", {})
    lines = [f"{name} = {_toml(value)}" for name, value in plain.items()]
    lines += ["", "[clock]", f"start = {spec.clock.start.isoformat()}"]
    lines += [f"{name} = {_toml(value)}" for name, value in clock.items() if name != "start"]
    if limits:
        lines += ["", "[limits]", *(f"{name} = {_toml(value)}" for name, value in limits.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _lines(items: Iterable[Any]) -> str:
    return "".join(msgspec.json.encode(item).decode() + "\n" for item in items)

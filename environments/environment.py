"""Every environment there is, built and opened on first use."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from environments.catalogue import SHIPPED, Catalogue, Pack, with_files_named
from environments.errors import PackInvalid, ToolTimedOut
from environments.opened import WAIT, Environment
from environments.sandbox.host import Description, Sandbox, SandboxLimits
from environments.users.script import User
from environments.verifier.judge import Judge
from environments.world import World, build_rows, rows_digest
from snapshots import Snapshot, SnapshotStore

__all__ = ["WAIT", "Environment", "Environments", "open_environments"]


class Environments:
    """The opened environments of a catalogue, each built and described on first use."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: SnapshotStore,
        sandbox: Sandbox,
        judge: Judge | None = None,
        user: User | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.store = store
        self.sandbox = sandbox
        self.judge = judge
        self.user = user
        self._open: dict[str, Environment | PackInvalid] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def get(self, name: str) -> Environment:
        """The environment called ``name``.

        Raises ``UnknownEnvironment``, or ``PackInvalid`` (again on every call: a broken pack stays
        broken until the catalogue is read anew).
        """
        found = self._open.get(name)
        if found is None:
            pack = self.catalogue.get(name)
            async with self._locks.setdefault(name, anyio.Lock()):
                found = self._open.get(name)
                if found is None:
                    try:
                        found = await self._load(pack)
                    except PackInvalid as error:
                        if isinstance(error.__cause__, ToolTimedOut):
                            raise  # it may be the machine that is slow today
                        found = error
                    self._open[name] = found
        if isinstance(found, PackInvalid):
            raise found.with_traceback(None)
        return found

    async def _load(self, pack: Pack) -> Environment:
        if pack.members:
            return await self._mount(pack)
        snapshot = await self._snapshot(pack)
        known = self.store.root / "descriptions" / f"{pack.digest}.json"
        if known.exists():
            description = msgspec.json.decode(known.read_bytes(), type=Description)
        else:
            description = await self.sandbox.describe(pack, snapshot)
            known.parent.mkdir(parents=True, exist_ok=True)
            part = known.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(description))
            part.replace(known)
        return Environment(pack, snapshot, description, self.sandbox, self.judge, self.user)

    async def _mount(self, pack: Pack) -> World:
        members = {member.name: await self.get(member.name) for member in pack.members}
        snapshots = {name: member.snapshot for name, member in members.items()}
        digest = rows_digest(snapshots.values())
        rows = self.store.find(digest)
        if rows is None:
            with tempfile.TemporaryDirectory(dir=self.store.root, prefix="build-") as folder:
                path = Path(folder) / "snapshot.sqlite"
                await anyio.to_thread.run_sync(build_rows, snapshots, path)
                rows = await anyio.to_thread.run_sync(self.store.admit, digest, path)
        return World(pack, members, rows)

    async def _snapshot(self, pack: Pack) -> Snapshot:
        digest = pack.recipe.digest
        found = self.store.find(digest)
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(dir=self.store.root, prefix="build-") as folder:
            path = Path(folder) / "snapshot.sqlite"
            try:
                await self.sandbox.build(pack, path)
            except PackInvalid as error:
                raise PackInvalid(with_files_named(error.message), hint=error.hint) from error
            return await anyio.to_thread.run_sync(self.store.admit, digest, path)


@asynccontextmanager
async def open_environments(
    packs: Sequence[Path] | Catalogue = (SHIPPED,),
    *,
    data_dir: Path | None = None,
    limits: SandboxLimits | None = None,
    judge: Judge | None = None,
    user: User | None = None,
) -> AsyncIterator[Environments]:
    """Environments with workers of their own and no server, for notebooks, tests and the CLI.

    ``packs`` are folders, each a pack or full of them, or a catalogue read before.
    ``data_dir`` keeps built snapshots between uses; without it they live as long as the context.
    ``judge`` judges the runs of tasks that want one, ``user`` answers in tasks that have one.
    """
    with tempfile.TemporaryDirectory(prefix="envhub-") as scratch:
        store = SnapshotStore((data_dir or Path(scratch)) / "snapshots")
        async with Sandbox(limits or SandboxLimits()) as sandbox:
            catalogue = packs if isinstance(packs, Catalogue) else Catalogue(packs)
            yield Environments(catalogue, store, sandbox, judge, user)

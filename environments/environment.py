"""Every environment there is, built and opened on first use."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from environments.catalogue import SHIPPED, Catalogue, Pack, with_files_named
from environments.errors import PackInvalid, ToolTimedOut
from environments.opened import WAIT, Environment
from environments.recent import Recent
from environments.sandbox.host import Description, Sandbox, SandboxLimits
from environments.users.script import User
from environments.verifier.judge import Judge
from environments.whole import write_whole
from environments.world import World, build_rows, rows_digest
from snapshots import Snapshot, SnapshotStore
from snapshots.store import BUILDER_VERSION

__all__ = ["WAIT", "Environment", "Environments", "open_environments"]


KEPT: Final = 128
"""How many environments are kept open that no episode plays."""


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a pack when it was opened first; kept by its digest."""

    snapshot: str
    builder: int = BUILDER_VERSION
    description: Description


def _read_known(file: Path) -> _Known | None:
    try:
        known = msgspec.json.decode(file.read_bytes(), type=_Known)
    except (OSError, msgspec.DecodeError):
        return None
    return known if known.builder == BUILDER_VERSION else None


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
        self._open: Recent[Environment] = Recent(KEPT)
        self._locks: dict[str, anyio.Lock] = {}

    async def get(self, name: str) -> Environment:
        """The environment called ``name``.

        Raises ``UnknownEnvironment``, or ``PackInvalid`` (again on every call: a broken pack stays
        broken until the catalogue is read anew).
        """
        found = self._open.get(name)
        if found is not None:
            return found
        self.catalogue.find(name)
        async with self._locks.setdefault(name, anyio.Lock()):
            found = self._open.get(name)
            if found is None:
                pack = await anyio.to_thread.run_sync(self.catalogue.get, name)
                try:
                    found = await self._load(pack)
                except PackInvalid as error:
                    if not isinstance(error.__cause__, ToolTimedOut):
                        self.catalogue.refuse(name, error)
                    raise  # and it may be the machine that is slow today
                self._open.put(name, found)
        return found

    async def _load(self, pack: Pack) -> Environment:
        if pack.members:
            return await self._mount(pack)
        file = self.store.root / "descriptions" / f"{pack.digest}.json"
        known = _read_known(file)
        snapshot = self.store.find(known.snapshot) if known else None
        if snapshot is None:
            snapshot = await self._snapshot(pack)
        if known is None:
            description = await self.sandbox.describe(pack, snapshot)
            known = _Known(snapshot=snapshot.digest, description=description)
            write_whole(file, msgspec.json.encode(known))
        return Environment(pack, snapshot, known.description, self.sandbox, self.judge, self.user)

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
        recipe = await anyio.to_thread.run_sync(pack.recipe)
        digest = recipe.digest
        found = self.store.find(digest)
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(dir=self.store.root, prefix="build-") as folder:
            path = Path(folder) / "snapshot.sqlite"
            try:
                await self.sandbox.build(pack, recipe, path)
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

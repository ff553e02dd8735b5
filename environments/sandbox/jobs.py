"""The kinds of worker there are, and what each is told when it starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from environments.catalogue import Pack
from environments.documents import BINDING
from environments.runtimes.source import SOURCE
from environments.sandbox import wire
from environments.sandbox.limits import SandboxLimits
from environments.sandbox.pool import Pool
from environments.spec import VERIFIERS
from snapshots.branch import Branch
from snapshots.pages import Snapshot

DOCUMENTED: Final = frozenset({"scenario", "state"})
"""The runtimes whose packs keep one document in their tables."""


def players(pack: Pack, snapshot: Snapshot, owner: Branch | None, limits: SandboxLimits) -> Pool:
    """Workers that run the pack's tools; only those of ``owner``'s episode, if one is given."""
    limit = 1 if owner is not None else limits.workers_per_environment
    pool = Pool(pack.spec.name, _loading_tools(pack, snapshot, limits), limit)
    if pack.spec.runtime == "fastapi":
        pool.breed = wire.Breed.IMPORTS
    pool.memory_bytes = pack.spec.limits.memory_bytes
    pool.owner = owner
    if pack.spec.isolation == "call":
        pool.single_use, pool.spares = True, 1
    elif owner is None:
        pool.depth = 16
    return pool


def scorers(pack: Pack, snapshot: Snapshot, limits: SandboxLimits) -> Pool:
    """Workers that judge, and never load the pack's code."""
    confinement = _confinement(pack, snapshot, limits, ())

    def load(id: int) -> wire.Request:
        return wire.LoadScorer(
            id=id,
            limits=confinement,
            snapshot_path=str(snapshot.path.absolute()),
            snapshot_digest=snapshot.digest,
        )

    return Pool(pack.spec.name, load, limits.workers_per_environment)


def examiners(pack: Pack, snapshot: Snapshot, folder: Path, limits: SandboxLimits) -> Pool:
    """Workers that run the verifiers a pack wrote itself; ``folder`` is where states lie that
    these want as files."""
    codes = (task.verifier.get("code", {}) for task in pack.tasks.values())
    names = {str(code.get("file", VERIFIERS)) for code in codes if isinstance(code, dict)}
    files = (str(pack.path.absolute() / name) for name in names if Path(name).name == name)
    documented = pack.spec.runtime in DOCUMENTED
    layout = (str(pack.path.absolute() / BINDING),) if documented else ()
    confinement = _confinement(pack, snapshot, limits, (*files, *layout, str(folder)))

    def load(id: int) -> wire.Request:
        return wire.LoadExaminer(
            id=id,
            limits=confinement,
            pack_path=str(pack.path.absolute()),
            snapshot_path=str(snapshot.path.absolute()),
            snapshot_digest=snapshot.digest,
            output_bytes=pack.spec.limits.output_bytes,
            documented=documented,
        )

    return Pool(pack.spec.name, load, limits.workers_per_environment)


def builders(pack: Pack, path: Path, limits: SandboxLimits) -> Pool:
    """Workers that write the database at ``path`` and go."""
    confinement = wire.WorkerLimits(
        memory_bytes=limits.build_memory_bytes,
        file_bytes=limits.build_file_bytes,
        niceness=limits.niceness,
        writable=(str(path.absolute().parent),),
        without=limits.without,
    )

    def load(id: int) -> wire.Request:
        return wire.LoadBuilder(id=id, limits=confinement)

    pool = Pool(pack.spec.name, load, 1)
    pool.single_use = True
    return pool


def probes(limits: SandboxLimits) -> Pool:
    """Workers that are confined like those of a pack and then do nothing."""
    confinement = wire.WorkerLimits(
        memory_bytes=limits.build_memory_bytes, niceness=limits.niceness, without=limits.without
    )

    def load(id: int) -> wire.Request:
        return wire.LoadBuilder(id=id, limits=confinement)

    return Pool("", load, 1)


def _confinement(
    pack: Pack, snapshot: Snapshot, limits: SandboxLimits, files: tuple[str, ...]
) -> wire.WorkerLimits:
    return wire.WorkerLimits(
        memory_bytes=pack.spec.limits.memory_bytes + snapshot.size_bytes,
        niceness=limits.niceness,
        readable=(str(snapshot.path.absolute()), *files),
        without=limits.without,
    )


def _loading_tools(
    pack: Pack, snapshot: Snapshot, limits: SandboxLimits
) -> Callable[[int], wire.Request]:
    spec = pack.spec
    # Of its pack a worker is shown the code alone: the tasks beside it hold the answers.
    shown = (SOURCE, BINDING) if spec.runtime in DOCUMENTED else (SOURCE,)
    files = tuple(str(pack.path.absolute() / name) for name in shown)
    confinement = _confinement(pack, snapshot, limits, files)

    def load(id: int) -> wire.Request:
        return wire.LoadTools(
            id=id,
            limits=confinement,
            pack_path=str(pack.path.absolute()),
            runtime=spec.runtime,
            snapshot_path=str(snapshot.path.absolute()),
            snapshot_digest=snapshot.digest,
            clock_ms=spec.clock.start_ms,
            allow_ddl=spec.allow_ddl,
            foreign_keys=spec.foreign_keys,
            keep_on_error=spec.on_error == "keep",
            step_ms=milliseconds(spec.clock.step_seconds),
            output_bytes=spec.limits.output_bytes,
            max_frame_bytes=limits.max_frame_bytes,
        )

    return load


def milliseconds(seconds: float) -> int:
    """Seconds as the clock counts them."""
    return round(seconds * 1000)

"""Many environments: by several processes, resumable, the same whatever was interrupted."""

from __future__ import annotations

import asyncio
import multiprocessing
import queue
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.errors import EnvhubError, InfrastructureFault
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.synthesis.blueprint import Blueprint
from environments.synthesis.blueprints import blueprints
from environments.synthesis.diversity import diversity
from environments.synthesis.drafts import LEVELS
from environments.synthesis.offline.fabricate import people
from environments.synthesis.offline.making import Bench, Made
from environments.whole import write_whole
from snapshots import SnapshotStore

NOTES: Final = ".synth"
"""Beside the packs: what came of each number, and what the run was asked for."""
_LIMITS: Final = SandboxLimits(workers_per_environment=1, max_workers=8, niceness=0)
_POLL_SECONDS = 0.5

Told = Callable[[Made], None]


class SynthesisRefused(EnvhubError):
    """The run cannot be begun as asked."""

    code = "SYNTHESIS_REFUSED"
    kind = "agent"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a run makes. The same seed, count and domains give the same packs."""

    seed: int
    domains: tuple[str, ...]

    def blueprint(self, number: int) -> tuple[Blueprint, int]:
        """The domain of environment ``number``, and which one of that domain it is."""
        every = blueprints()
        turn, place = divmod(number, len(self.domains))
        return every[self.domains[place]], turn


def synthesise(
    request: Request, count: int, into: Path, jobs: int, told: Told = lambda made: None
) -> list[Made]:
    """Make ``count`` environments in folder ``into``, as far as they are not there already.

    Each is whole or not there. Raises ``SynthesisRefused`` for unknown domains and for a folder
    that holds another run, ``FakerUnavailable`` before anything is written, and
    ``InfrastructureFault``.
    """
    unknown = set(request.domains) - set(blueprints())
    if unknown or not request.domains:
        raise SynthesisRefused(
            f"there is no blueprint of {', '.join(sorted(unknown)) or 'no domain'}",
            hint=f"domains: {', '.join(blueprints())}",
        )
    people()
    notes = into / NOTES
    notes.mkdir(parents=True, exist_ok=True)
    _claim(notes / "run.json", request)
    known = _known(notes, into)
    for made in known.values():
        if made.number < count:
            told(made)
    waiting = [number for number in range(count) if number not in known]
    shares = [waiting[place::jobs] for place in range(jobs)]
    work = [(request, share, into) for share in shares if share]
    for made in _worked(work):
        known[made.number] = made
        told(made)
    return [known[number] for number in range(count)]


def report_of(made: Sequence[Made]) -> dict[str, Any]:
    """Figures of a run, as plain data."""
    passed = [each for each in made if each.passed]
    return {
        "asked": len(made),
        "passed": len(passed),
        "rejected": {each.name: list(each.problems) for each in made if not each.passed},
        "domains": len({each.domain for each in passed}),
        "median": {
            what: _median([getattr(each.makeup, what) for each in passed])
            for what in ("tables", "tools", "rows", "tasks")
        },
        "difficulties": {
            level: sum(each.makeup.difficulties.get(level, 0) for each in passed)
            for level in LEVELS
        },
        "diversity": msgspec.to_builtins(diversity([(each.name, each.makeup) for each in passed])),
        "seconds": round(sum(each.seconds for each in made), 1),
    }


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2] if values else 0


def _claim(file: Path, request: Request) -> None:
    """Note what the folder holds, or refuse it if that is something else."""
    if not file.exists():
        write_whole(file, msgspec.json.encode(request))
        return
    try:
        there = msgspec.json.decode(file.read_bytes(), type=Request)
    except msgspec.DecodeError:
        there = None
    if there != request:
        raise SynthesisRefused(
            f"{file.parent.parent} holds a run with another seed or other domains",
            hint="choose another folder, or the same seed and domains to go on with that run",
        )


def _known(notes: Path, into: Path) -> dict[int, Made]:
    """What was made before and is still there."""
    found = {}
    for file in sorted(notes.glob("made-*.json")):
        with suppress(msgspec.DecodeError):
            made = msgspec.json.decode(file.read_bytes(), type=Made)
            if not made.passed or (into / made.name / "environment.toml").is_file():
                found[made.number] = made
    return found


# --- in processes of their own ------------------------------------------------------------------

Work = tuple[Request, Sequence[int], Path]


def _worked(work: Sequence[Work]) -> Iterator[Made]:
    """What the shares come to, as it comes; one share is done in this process."""
    if len(work) <= 1:
        for share in work:
            yield from _inline(share)
        return
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[Made | EnvhubError | str] = context.Queue()
    workers = [context.Process(target=_share, args=(*share, told), daemon=False) for share in work]
    try:
        for worker in workers:
            worker.start()
        yield from _gathered(workers, told, sum(len(share[1]) for share in work))
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
        for worker in workers:
            if worker.pid is not None:
                worker.join()


def _gathered(workers: Sequence[SpawnProcess], told: Any, count: int) -> Iterator[Made]:
    while count:
        ended = not any(worker.is_alive() for worker in workers)
        try:
            one = told.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if ended:  # before the wait: what the last of them told would have come in it
                raise InfrastructureFault(
                    "the processes that made environments ended early"
                ) from None
            continue
        if isinstance(one, str):
            raise InfrastructureFault(one)
        count -= 1
        yield one


def _inline(share: Work) -> Iterator[Made]:
    done: list[Made] = []
    asyncio.run(_make(share, done.append))
    yield from done


def _share(request: Request, numbers: Sequence[int], into: Path, told: Any) -> None:
    """A process's part of the run."""
    try:
        asyncio.run(_make((request, numbers, into), told.put))
    except EnvhubError as error:
        told.put(str(error))
    except KeyboardInterrupt:
        return


async def _make(share: Work, told: Told) -> None:
    request, numbers, into = share
    with tempfile.TemporaryDirectory(prefix="envhub-synth-") as scratch:
        async with Sandbox(_LIMITS) as sandbox:
            for number in numbers:
                store = SnapshotStore(Path(scratch) / f"snapshots-{number}")
                blueprint, turn = request.blueprint(number)
                folder = into / NOTES / f"making-{number}"
                made = await Bench(store, sandbox).make(blueprint, request.seed, turn, folder)
                made = msgspec.structs.replace(made, number=number)
                if made.passed:
                    shutil.rmtree(into / made.name, ignore_errors=True)
                    folder.replace(into / made.name)
                write_whole(into / NOTES / f"made-{number:05d}.json", msgspec.json.encode(made))
                shutil.rmtree(store.root, ignore_errors=True)
                told(made)

"""From sources to packs in a folder: each whole or not at all, in processes of their own."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from environments.catalogue import PACK_NAME, load_pack, pack_digest
from environments.check import CheckReport, Finding, checking, known_report
from environments.errors import EnvhubError, PackInvalid
from environments.importers.processes import Lost, spread
from environments.importers.source import ImportRefused, Source, WorldSource, Written
from environments.importers.trial import trying_out

ORIGIN: Final = ".import.json"
"""The file of an imported pack that says what it was made from. Its dot keeps it out of the pack's
digest: made anew with the same files, it is the same pack."""
WORKPLACE: Final = ".import"
"""Where packs lie in the target's folder until they are whole."""
_WRITE_SECONDS: Final = 600.0
_CHECK_SECONDS: Final = 1800.0

Outcome = Literal["imported", "imported with repairs", "refused", "lost"]
"""``refused`` for what is wrong with the source, ``lost`` for what went wrong here."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a pack was made from, and what is to be known of that; kept in its folder."""

    importer: str
    source: str
    """The digest of the source and of the importer's code."""
    digest: str
    """The pack's, as it was written."""
    repairs: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one environment."""

    name: str
    outcome: Outcome
    unchanged: bool = False
    """Whether it was there from before, made from the same source."""
    path: Path | None = None
    digest: str = ""
    """The pack's."""
    licence: str = ""
    provenance: str = ""
    repairs: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    reason: str = ""
    """Why there is no pack."""
    hint: str = ""
    check: Literal["", "passes", "fails"] = ""
    """What ``envhub check`` says; nothing where it was not asked."""
    problems: tuple[Finding, ...] = ()
    """The gates it does not pass; those that are not ``hard`` fail no pack."""

    @property
    def is_there(self) -> bool:
        """Whether there is a pack of it."""
        return self.outcome.startswith("imported")

    @property
    def sound(self) -> bool:
        """Whether there is a pack, and no check that it fails."""
        return self.is_there and self.check != "fails"


def import_sources(
    kind: str, sources: Sequence[Source], into: Path, *, jobs: int
) -> Generator[Imported]:
    """Write a pack for each source into the folder ``into``, worlds last, and say what became of
    each.

    A pack made from the same source by the same code is left as it is. A folder that nobody
    imported, or that was edited since, is never replaced: its source is refused. Ended halfway, by
    whatever, it leaves whole packs only. Raises ``ImportRefused`` where ``into`` is in use.
    """
    with workplace(into) as scratch:
        names: set[str] = set()
        alone: list[Source] = []
        worlds: list[Source] = []
        for source in sources:
            if source.name in names:
                yield _refusal(source.name, "another environment of this run has that name")
            else:
                (worlds if isinstance(source, WorldSource) else alone).append(source)
            names.add(source.name)
        bench = partial(_writing, kind, into, scratch)
        for waiting in (alone, worlds):
            for source, told in spread(
                bench, waiting, jobs=jobs, seconds=_WRITE_SECONDS, scratch=scratch
            ):
                yield _lost(source.name, told.reason) if isinstance(told, Lost) else told


def check_imported(
    found: Sequence[Imported], into: Path, kept: Path, *, jobs: int
) -> Generator[Imported]:
    """Check the packs that were imported into the folder ``into``, and add what was said of each.

    Reports are kept in the folder ``kept`` and taken from there, as ``envhub check`` does.
    """
    by_path = {each.path: each for each in found if each.path is not None}
    waiting = []
    for path, each in by_path.items():
        known = known_report(kept, path)
        if known is None:
            waiting.append(path)
        else:
            yield _judged(each, known)
    with workplace(into) as scratch:
        for path, told in spread(
            partial(_checking, kept), waiting, jobs=jobs, seconds=_CHECK_SECONDS, scratch=scratch
        ):
            yield _judged(by_path[path], told)


@contextmanager
def workplace(into: Path) -> Iterator[Path]:
    """A folder for what is not done yet, on the file system of ``into``, gone afterwards.

    Raises ``ImportRefused`` while another process has one there, or where nothing can be written.
    """
    base = into / WORKPLACE
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImportRefused(f"cannot write into {into}: {error.strerror}") from error
    with (base / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImportRefused(
                f"another import is writing into {into}",
                hint="wait for it, or choose another --into",
            ) from None
        for left in base.glob("run-*"):  # of one that was killed
            shutil.rmtree(left, ignore_errors=True)
        # by its whole path: workers that are given files in it stand in another folder
        scratch = Path(tempfile.mkdtemp(prefix="run-", dir=base.absolute()))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


# --- in a process of its own -----------------------------------------------------------------


@contextmanager
def _writing(kind: str, into: Path, scratch: Path) -> Iterator[Callable[[Source], Imported]]:
    with trying_out():
        yield partial(import_one, kind, into, scratch)


@contextmanager
def _checking(kept: Path) -> Iterator[Callable[[Path], CheckReport | Lost]]:
    with asyncio.Runner() as runner:
        opened = checking(kept)
        check = runner.run(opened.__aenter__())

        def one(path: Path) -> CheckReport | Lost:
            try:
                return runner.run(check(path))
            except Exception as error:  # noqa: BLE001 - one environment never stops the rest
                return Lost(f"{type(error).__name__}: {error}")

        try:
            yield one
        finally:
            runner.run(opened.__aexit__(None, None, None))


def import_one(kind: str, into: Path, scratch: Path, source: Source) -> Imported:
    """Make the pack of one source, whatever is wrong with it."""
    try:
        return _import(kind, into, scratch, source)
    except EnvhubError as error:
        told = _lost if error.kind == "infrastructure" else _refusal
        return told(source.name, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - one environment never stops the rest
        return _lost(
            source.name,
            f"the importer failed: {type(error).__name__}: {error}",
            "this is for the importer to mend, or to refuse with a reason",
        )


def _import(kind: str, into: Path, scratch: Path, source: Source) -> Imported:
    if not PACK_NAME.fullmatch(source.name):
        raise ImportRefused(f"{source.name!r} is no name for a pack")
    place = into / source.name
    mounted = _mounted(kind, source, into)
    digests = "".join(f"\n{name} {pack_digest(path)}" for name, path in mounted.items())
    words = f"{kind}\n{_code()}\n{source.digest}{digests}"
    made_from = hashlib.sha256(words.encode()).hexdigest()
    known = origin_of(place)
    if known is not None and known.source == made_from:
        return _told(place, known, unchanged=True)
    if place.exists():
        aside = "move it away, or import into another folder"
        if known is None:
            raise ImportRefused(f"{place} is there already and was not imported", hint=aside)
        if pack_digest(place) != known.digest:
            raise ImportRefused(
                f"{place} was edited since it was imported, and its source has changed", hint=aside
            )
    with tempfile.TemporaryDirectory(dir=scratch, prefix=f"{source.name}-") as temporary:
        folder = Path(temporary) / source.name
        folder.mkdir()
        for name, path in mounted.items():
            (folder.parent / name).symlink_to(path.resolve())
        written = source.write(folder)
        origin = _sealed(folder, kind, made_from, written)
        if place.exists():
            place.rename(Path(temporary) / "before")
        folder.rename(place)
    return _told(place, origin, unchanged=False)


def _mounted(kind: str, source: Source, into: Path) -> dict[str, Path]:
    """The packs there are of those that a source mounts."""
    wanted = source.mounts if isinstance(source, WorldSource) else ()
    origins = {name: origin_of(into / name) for name in wanted}
    return {name: into / name for name, of in origins.items() if of and of.importer == kind}


def _sealed(folder: Path, kind: str, made_from: str, written: Written) -> Origin:
    """Say in the folder of a pack what it was made from. Raises ``ImportRefused``."""
    try:
        name = load_pack(folder).name
    except PackInvalid as error:
        raise ImportRefused(
            f"what was written is no pack: {error.message}", hint=error.hint
        ) from error
    if name != folder.name:
        raise ImportRefused(f"what was written is called {name}, not {folder.name}")
    origin = Origin(
        importer=kind,
        source=made_from,
        digest=pack_digest(folder),
        repairs=written.repairs,
        weaknesses=written.weaknesses,
    )
    (folder / ORIGIN).write_bytes(msgspec.json.format(msgspec.json.encode(origin)) + b"\n")
    return origin


def origin_of(pack: Path) -> Origin | None:
    """What the pack in that folder was made from; ``None`` for one that was not imported."""
    try:
        return msgspec.json.decode((pack / ORIGIN).read_bytes(), type=Origin)
    except (OSError, msgspec.DecodeError):
        return None


def _told(place: Path, origin: Origin, *, unchanged: bool) -> Imported:
    pack = load_pack(place)
    return Imported(
        name=pack.name,
        outcome="imported with repairs" if origin.repairs else "imported",
        unchanged=unchanged,
        path=place,
        digest=pack.digest,
        licence=pack.spec.licence,
        provenance=pack.spec.provenance,
        repairs=origin.repairs,
        weaknesses=origin.weaknesses,
    )


def _judged(imported: Imported, told: CheckReport | Lost) -> Imported:
    if isinstance(told, Lost):
        problems: tuple[Finding, ...] = (Finding("the check ends", False, True, told.reason),)
    else:
        problems = tuple(finding for finding in told.findings if not finding.passed)
    failed = any(finding.hard for finding in problems)
    return msgspec.structs.replace(
        imported, check="fails" if failed else "passes", problems=problems
    )


def _refusal(name: str, reason: str, hint: str = "") -> Imported:
    return Imported(name=name, outcome="refused", reason=reason, hint=hint)


def _lost(name: str, reason: str, hint: str = "") -> Imported:
    return Imported(name=name, outcome="lost", reason=reason, hint=hint)


@cache
def _code() -> str:
    """A digest of the importers' code: what it makes of the same source may have changed."""
    total = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        total.update(file.read_bytes())
    return total.hexdigest()

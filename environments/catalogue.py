"""Find, hash and read packs. No code of a pack is run here, and of thousands few are kept.

A pack is a folder with ``environment.toml``, ``schema.sql``, ``tools.py`` and, as it needs,
``data.sql`` or ``data/*.jsonl`` and ``data/*.csv``, ``tasks.jsonl``, ``events.jsonl`` and
``policy.md``, ``faults.toml``. A world's pack names the environments it mounts instead of a schema,
data and tools of its own.
"""

from __future__ import annotations

import hashlib
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from environments.complaints import (
    files_in,
    invalid,
    line_of,
    lines_of,
    near,
    read_bytes,
    read_text,
)
from environments.datafiles import read_tables
from environments.errors import PackInvalid, UnknownEnvironment, UnknownTask
from environments.faults import NO_FAULTS, check_faults
from environments.recent import Recent
from environments.spec import ChangePolicy, EnvironmentSpec, Event, PackFaults, Spec, Task
from snapshots.store import Recipe

SHIPPED: Final = Path(__file__).parent / "packs"
"""The packs that come with the distribution."""

MANIFEST: Final = "environment.toml"
PACK_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
KEPT: Final = 128
"""How many packs are kept that nobody holds."""
_SCRIPTS = ("schema.sql", "data.sql")
_SCRIPT = re.compile(r"\bscript ([12])\b")
_S = TypeVar("_S", bound=Spec)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Pack:
    """A pack as it lies on disk. ``digest`` covers the names and bytes of all its files."""

    path: Path
    digest: str
    spec: EnvironmentSpec
    tasks: Mapping[str, Task]
    events: tuple[Event, ...]
    policy: str
    faults: PackFaults = NO_FAULTS
    members: tuple[Pack, ...] = ()
    """For a world that came out of a catalogue: the packs it mounts."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def imported(self) -> bool:
        """Whether it, or what it mounts, was made elsewhere, for another kind of host, and is taken
        as it is."""
        return self.spec.runtime != "native" or any(each.imported for each in self.members)

    def recipe(self) -> Recipe:
        """What its database is built from, read each time: it is large, and wanted once.

        Raises ``PackInvalid`` naming file and line, and where the files are no longer those of
        ``digest``.
        """
        if self.spec.environments:
            return Recipe(())
        recipe = _read_recipe(self.path, self.spec)
        if pack_digest(self.path) != self.digest:
            raise _changed(self.name)
        return recipe

    def task(self, task_id: str) -> Task:
        """The task of that id. Raises ``UnknownTask`` with close matches."""
        if task_id in self.tasks:
            return self.tasks[task_id]
        raise UnknownTask(
            f"environment {self.name} has no task {task_id!r}",
            hint=near(task_id, list(self.tasks)),
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """What is told of a pack that was read and not kept."""

    path: Path
    digest: str
    spec: EnvironmentSpec
    tasks: int
    """How many it has."""

    def fits(self, words: str = "", domain: str = "", tag: str = "") -> bool:
        """Whether name, title, summary, domain and tags hold all the words, and so on."""
        spec = self.spec
        text = " ".join((spec.name, spec.title, spec.summary, spec.domain, *spec.tags)).lower()
        return (
            all(word in text for word in words.lower().split())
            and domain in ("", spec.domain)
            and (not tag or tag in spec.tags)
        )


def load_pack(path: Path) -> Pack:
    """Read a pack whole, its rows as well. Raises ``PackInvalid`` naming file, line and word."""
    pack = read_pack(path)
    pack.recipe()
    return pack


def read_pack(path: Path) -> Pack:
    """Read a pack but for what its database is built from. Raises ``PackInvalid``."""
    if not (path / MANIFEST).is_file():
        raise PackInvalid(f"{path} is not a pack: it has no {MANIFEST}")
    spec = _read_spec(path / MANIFEST)
    for needed in () if spec.environments else (_SCRIPTS[0], "tools.py"):
        if not (path / needed).is_file():
            raise PackInvalid(f"{path.name}: has no {needed}")
    events = sorted(_read_lines(path / "events.jsonl", Event), key=lambda event: event.at_ms)
    policy = path / "policy.md"
    return Pack(
        path=path,
        digest=pack_digest(path),
        spec=spec,
        tasks=MappingProxyType({task.id: task for task in _read_lines(path / "tasks.jsonl", Task)}),
        events=tuple(events),
        policy=read_text(policy) if policy.is_file() else "",
        faults=_read_faults(path / "faults.toml"),
    )


def _changed(name: str) -> PackInvalid:
    return PackInvalid(
        f"the files of {name} have changed since it was read",
        hint="start anew what reads them; two versions of a pack never mix",
    )


def with_files_named(message: str) -> str:
    """What was said of building a pack, with its scripts called by the names of their files."""
    return _SCRIPT.sub(lambda found: _SCRIPTS[int(found.group(1)) - 1], message)


def _read_recipe(path: Path, spec: EnvironmentSpec) -> Recipe:
    schema = _read_script(path / _SCRIPTS[0])
    scripts = [schema]
    if (path / _SCRIPTS[1]).is_file():
        scripts.append(_read_script(path / _SCRIPTS[1]))
    return Recipe(
        scripts=tuple(scripts),
        rows=read_tables(path / "data", schema),
        clock_ms=spec.clock.start_ms,
        foreign_keys=spec.foreign_keys,
    )


def _read_script(path: Path) -> str:
    script = read_text(path)
    if "\0" in script:
        raise PackInvalid(f"{path.parent.name}/{path.name}: a NUL stands in it, where SQL ends")
    return script


def pack_digest(path: Path) -> str:
    """sha256 over relative names and bytes of a pack's files, see ``pack_files``."""
    total = hashlib.sha256()
    for name, file in pack_files(path):
        for part in (name.encode(), read_bytes(file)):
            total.update(len(part).to_bytes(8, "big"))
            total.update(part)
    return total.hexdigest()


def pack_files(path: Path) -> list[tuple[str, Path]]:
    """A pack's files by relative name, sorted; caches and dotfiles are left out. None where no
    folder is.

    Raises ``PackInvalid`` for a link that leads out of the pack, and what cannot be read.
    """
    if not path.is_dir():
        return []
    root = path.resolve()
    files = sorted((name, Path(entry.path), entry.is_symlink()) for name, entry in files_in(path))
    for name, file, link in files:
        if link and not file.resolve().is_relative_to(root):
            raise PackInvalid(f"{path.name}: {name} is a link that leads out of the pack")
    return [(name, file) for name, file, _ in files]


class Catalogue:
    """The packs under some folders, each root a pack or a folder of packs.

    To begin with only manifests are read. A pack is read when it is asked for, hashed then, and is
    what it was then for as long as there is this catalogue. One that cannot be read or opened is in
    ``invalid`` from when that is known, and hides no other. May be used by several threads.
    """

    def __init__(
        self, roots: Sequence[Path], invalid: Mapping[Path, PackInvalid] | None = None
    ) -> None:
        """``invalid`` are those that did not get so far as to be a folder."""
        self.invalid: dict[Path, PackInvalid] = dict(invalid or {})
        self._paths: dict[str, Path] = {}
        self._listed: dict[str, Listed] = {}
        self._listing = threading.Lock()
        self._packs: Recent[Pack] = Recent(KEPT)
        for root in roots:
            for path in _pack_folders(root):
                try:
                    self._add(_read_spec(path / MANIFEST).name, path)
                except PackInvalid as error:
                    self.invalid[path] = error

    def names(self) -> list[str]:
        """The names of the environments there are, sorted."""
        return sorted(name for name, path in self._paths.items() if path not in self.invalid)

    def get(self, name: str) -> Pack:
        """The pack of that name.

        Raises ``UnknownEnvironment`` (with close matches) and ``PackInvalid``.
        """
        pack = self._packs.get(name)
        if pack is None:
            pack = self._read(name)
            self._packs.put(name, pack)
        return pack

    def listed(self) -> list[Listed]:
        """What there is to tell of every environment, by name. Each is read once for it."""
        with self._listing:  # whoever else wants to know waits, rather than read them as well
            for name in self.names():
                if name not in self._listed:
                    with suppress(PackInvalid):  # it is in ``invalid`` now
                        self._read(name)
        return [self._listed[name] for name in self.names()]

    def refuse(self, name: str, error: PackInvalid) -> None:
        """Take an environment for broken from now on: nobody could open it."""
        self.invalid[self._paths[name]] = error

    def find(self, name: str) -> Path:
        """The folder of the pack of that name; nothing in it is read. Raises what ``get`` does."""
        path = self._paths.get(name)
        for broken, error in tuple(self.invalid.items()):
            if broken == path or (path is None and broken.name == name):
                raise error.with_traceback(None)
        if path is None:
            raise UnknownEnvironment(
                f"there is no environment {name!r}", hint=near(name, self.names())
            )
        return path

    def _read(self, name: str) -> Pack:
        path = self.find(name)
        try:
            pack = read_pack(path)
            pack = self._mounted(pack) if pack.spec.environments else pack
            listed = Listed(path, pack.digest, pack.spec, len(pack.tasks))
            if self._listed.setdefault(name, listed).digest != pack.digest:
                raise _changed(name)
        except PackInvalid as error:
            self.refuse(name, error)
            raise
        return pack

    def _mounted(self, pack: Pack) -> Pack:
        """A world with its members."""
        members = []
        for name in pack.spec.environments:
            try:
                members.append(self.get(name))
            except (UnknownEnvironment, PackInvalid) as error:
                raise PackInvalid(
                    f"{pack.name} cannot mount {name}: {error.message}", hint=error.hint
                ) from error
        return mount_packs(pack, members)

    def _add(self, name: str, path: Path) -> None:
        other = self._paths.setdefault(name, path)
        if other.resolve() != path.resolve():
            raise PackInvalid(
                f"two packs are named {name}: {other} and {path}", hint="rename one of them"
            )


def mount_packs(pack: Pack, members: Sequence[Pack]) -> Pack:
    """A world's pack with those it mounts: its digest covers theirs, what they schedule and ignore
    is scheduled and ignored in it. Raises ``PackInvalid``."""
    total = hashlib.sha256(pack.digest.encode())
    tables = list(pack.spec.changes.ignore_tables)
    columns = dict(pack.spec.changes.ignore_columns)
    for member in members:
        if member.members or member.spec.allow_ddl or "__" in member.name:
            raise PackInvalid(
                f"{pack.name} cannot mount {member.name}",
                hint="no world, no pack that changes its schema, no name with two underscores",
            )
        if member.spec.clock.start_ms != pack.spec.clock.start_ms:
            raise PackInvalid(f"{pack.name} and {member.name} begin at different times")
        total.update(member.digest.encode())
        ignored = member.spec.changes
        tables += [f"{member.name}__{table}" for table in ignored.ignore_tables]
        columns |= {f"{member.name}__{t}": names for t, names in ignored.ignore_columns.items()}
    changes = ChangePolicy(ignore_tables=tuple(tables), ignore_columns=columns)
    return replace(
        pack,
        digest=total.hexdigest(),
        spec=msgspec.structs.replace(pack.spec, changes=changes),
        events=tuple(sorted((e for m in members for e in m.events), key=lambda event: event.at_ms)),
        members=tuple(members),
    )


# --- reading ---------------------------------------------------------------------------------


def _pack_folders(root: Path) -> Iterator[Path]:
    if (root / MANIFEST).is_file():
        yield root
    elif root.is_dir():
        yield from sorted(path.parent for path in root.glob(f"*/{MANIFEST}"))
    else:
        raise PackInvalid(f"{root} is neither a pack nor a folder of packs")


def _read_toml(path: Path, kind: type[_S]) -> tuple[_S, str]:
    """The struct in a TOML file, and the file's text."""
    place, text = f"{path.parent.name}/{path.name}", read_text(path)
    try:
        return msgspec.convert(tomllib.loads(text), kind), text
    except msgspec.ValidationError as error:
        raise invalid(error, place, text, kind) from None
    except (ValueError, RecursionError) as error:  # not all of tomllib's are its TOMLDecodeError
        raise PackInvalid(f"{place}: {error}") from None


def _read_faults(path: Path) -> PackFaults:
    """``faults.toml``, or no faults of its own if there is no such file."""
    if not path.is_file():
        return NO_FAULTS
    faults, _ = _read_toml(path, PackFaults)
    try:
        check_faults(faults)
    except PackInvalid as error:
        raise PackInvalid(f"{path.parent.name}/{error.message}", hint=error.hint) from None
    return faults


def _read_spec(path: Path) -> EnvironmentSpec:
    place = f"{path.parent.name}/{path.name}"
    spec, text = _read_toml(path, EnvironmentSpec)
    if not PACK_NAME.fullmatch(spec.name):
        raise PackInvalid(
            f"{place}: line {line_of(text, 'name')}: name {spec.name!r} is not allowed",
            hint="start with a-z, then up to 39 of a-z 0-9 _ -",
        )
    return spec


def _read_lines(path: Path, kind: type[_S]) -> Iterator[_S]:
    """The structs in a JSON-lines file, none if there is no file; ids must be unique."""
    if not path.is_file():
        return
    seen: dict[str, int] = {}
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip():
            continue
        place = f"{path.parent.name}/{path.name}: line {number}"
        try:
            entry = msgspec.json.decode(line, type=kind)
        except msgspec.ValidationError as error:
            raise invalid(error, place, "", kind) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise PackInvalid(f"{place}: not JSON: {error}") from None
        name: str = entry.id  # type: ignore[attr-defined]
        if name in seen:
            raise PackInvalid(f"{place}: id {name!r} is already that of line {seen[name]}")
        seen[name] = number
        yield entry

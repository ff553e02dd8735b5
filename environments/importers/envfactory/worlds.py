"""Rows of RL data that are played on several servers: tasks of a world that mounts their packs."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.catalogue import Pack, load_pack
from environments.documents import encode, read_binding, statements
from environments.importers.documented import write_tasks
from environments.importers.envfactory.code import Code, read_source
from environments.importers.envfactory.loaded import Ends, load_rows, write_loadable
from environments.importers.envfactory.rows import read_rows
from environments.importers.envfactory.source import LICENCE
from environments.importers.envfactory.tasks import functions_of, golds_of
from environments.importers.gold import pack_rows, tried_out
from environments.importers.manifest import write_manifest
from environments.importers.naming import pack_name
from environments.importers.source import ImportRefused, Written
from environments.importers.stretches import Stretch
from environments.importers.trial import try_out
from environments.joint import joined, joined_tool
from environments.names import shortened
from environments.runtimes.source import SOURCE
from environments.spec import EnvironmentSpec, Limits

_OF_NONE: Final = "rows-of-no-server"
"""What the rows are told under that do not say where they are played."""
_TOLD: Final = 3
"""How many reasons a refusal has room for."""


class EnvFactoryWorld(msgspec.Struct, frozen=True):
    """A set of servers that rows of RL data are played on, other than one there is."""

    servers: tuple[str, ...]
    absent: tuple[str, ...]
    """Those that there is no file of."""
    rows: tuple[Stretch, ...]

    @property
    def name(self) -> str:
        return shortened("_".join(self.mounts)) or _OF_NONE

    @property
    def mounts(self) -> tuple[str, ...]:
        """See ``WorldSource.mounts``."""
        return tuple(sorted(map(pack_name, self.servers)))

    @property
    def digest(self) -> str:
        total = hashlib.sha256(f"{self.servers} {self.absent}".encode())
        for row in self.rows:
            total.update(row.read())
        return total.hexdigest()

    def write(self, folder: Path) -> Written:
        """See ``Source.write``."""
        packs = self._packs(folder.parent)
        rows, unread = read_rows(self.rows, self.servers)
        ends = {
            pack.name: _loaded(
                folder.parent, pack, {name: row.documents[server] for name, row in rows.items()}
            )
            for server, pack in packs.items()
        }
        golds, unmade = golds_of(rows, ends, _names(packs), _beginning(packs))
        write_manifest(folder, self._spec())
        tasks, elsewhere = tried_out(folder, golds)
        left_out = (*unread, *unmade, *elsewhere)
        if not tasks:
            more = f"; and {len(left_out) - _TOLD} more" if len(left_out) > _TOLD else ""
            raise ImportRefused(
                f"none of its rows ({len(self.rows)}) is a task: "
                f"{'; '.join(left_out[:_TOLD])}{more}"
            )
        write_tasks(folder, tasks)
        return Written(weaknesses=left_out)

    def _packs(self, folder: Path) -> dict[str, Pack]:
        """The packs of the servers. Raises ``ImportRefused`` where one is not there."""
        told = f"its rows of RL data ({len(self.rows)})"
        if not self.servers:
            raise ImportRefused(f"{told} do not say which servers they are played on")
        if self.absent:
            raise ImportRefused(f"{told} want {self.absent[0]}, which is not in envs/tools")
        if len({*self.mounts}) < len(self.servers):
            raise ImportRefused(f"{told} want servers whose packs have one name: {self.servers}")
        places = {server: folder / pack_name(server) for server in self.servers}
        for server, place in places.items():
            if not place.is_dir():
                raise ImportRefused(
                    f"{told} want {server}, of which there is no pack",
                    hint=f"see why {place.name} is refused, or import it as well",
                )
        return {server: load_pack(place) for server, place in places.items()}

    def _spec(self) -> EnvironmentSpec:
        titles = f"{', '.join(self.servers[:-1])} and {self.servers[-1]}"
        return EnvironmentSpec(
            name=self.name,
            version="1.0.0",
            title=titles,
            summary=f"{titles} side by side, for tasks that want them together.",
            tags=("envfactory",),
            licence=LICENCE,
            provenance="LARK-AI-Lab/EnvFactory: rows of its RL data",
            environments=self.mounts,
            limits=Limits(max_steps=50),
        )


def _loaded(
    beside: Path, pack: Pack, documents: Mapping[str, tuple[Any, Any]]
) -> Mapping[str, Ends]:
    """The documents of rows as the code of a pack has them, by row."""
    source = read_source(pack.path / SOURCE)
    with tempfile.TemporaryDirectory(dir=beside) as scratch:
        folder = Path(scratch) / pack.name
        folder.mkdir()
        write_loadable(folder, pack.spec, source, Code(source, pack.name))
        return try_out(folder, lambda environment: load_rows(environment, documents))


def _names(packs: Mapping[str, Pack]) -> dict[tuple[str, str], str]:
    """What the tools are called, by server and function."""
    return {
        (server, function): joined_tool(pack.name, tool)
        for server, pack in packs.items()
        for function, tool in functions_of(read_binding(pack.path)).items()
    }


def _beginning(packs: Mapping[str, Pack]) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """What makes statements of the documents, by pack, that a task begins with."""
    layouts = {pack.name: read_binding(pack.path).layout for pack in packs.values()}
    rows = {pack.name: pack_rows(pack, layouts[pack.name]) for pack in packs.values()}

    def initial(documents: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(
            statement
            for name, layout in layouts.items()
            for statement in statements(
                layout,
                rows[name],
                encode(layout, documents[name], rows[name]),
                joined(name, ""),
            )
        )

    return initial

"""EnvFactory: ``envs/tools/{C}.py`` with its metadata, scenarios and rows of its RL data.

Each file is a class that loads and saves its whole state as a document, and FastMCP functions over
one global instance of it: a pack with ``runtime = "scenario"`` and the file as it is. Rows that are
played on several of them are tasks of a world, one for each set of servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from environments.importers.envfactory.rows import find_rows
from environments.importers.envfactory.source import EnvFactorySource, tried_calls
from environments.importers.envfactory.worlds import EnvFactoryWorld
from environments.importers.source import ImportRefused

__all__ = ["EnvFactorySource", "EnvFactoryWorld", "sources", "tried_calls"]


def sources(path: Path) -> Iterator[EnvFactorySource | EnvFactoryWorld]:
    """The environments of a checkout of EnvFactory, or of its ``envs`` folder, then the worlds that
    rows of its RL data want. These are taken from JSON files under ``path`` that have such."""
    tools = next((path / at for at in ("envs/tools", "tools") if (path / at).is_dir()), None)
    if tools is None:
        raise ImportRefused(
            f"{path} has no envs/tools", hint="point at a checkout of EnvFactory, or its envs"
        )
    rows = find_rows(path)
    files = {file.stem: file for file in sorted(tools.glob("*.py")) if file.name[0] != "_"}
    for name, file in files.items():
        shared = [row for at, found in rows.items() if name in at and len(at) > 1 for row in found]
        yield EnvFactorySource(file, tuple(rows.get((name,), ())), tuple(shared))
    for servers, found in rows.items():
        absent = tuple(server for server in servers if server not in files)
        if absent or len(servers) != 1:
            yield EnvFactoryWorld(servers, absent, tuple(found))

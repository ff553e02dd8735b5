"""What every worker may read: the interpreter, its libraries, and the packages a pack may import.

Our own packages are not among them. All of them that a worker needs is in memory before it is
confined, and the shipped packs lie in there with their tasks and oracles.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from environments.sandbox.confine.landlock import LIST, READ, Grant

_OURS: Final = ("snapshots", "environments", "hub")
_SITES: Final = ("site-packages", "dist-packages")
_EXTRAS: Final = (
    "/dev/urandom", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/usr/lib/locale",
    "/usr/share/zoneinfo",
)  # fmt: skip


def shared_grants() -> list[Grant]:
    """The grants of this process, by what it has imported and mapped so far."""
    hidden = {str(Path(__file__).resolve().parents[3] / name) for name in _OURS}
    hidden |= {str(Path(path).resolve()) for path in sys.path if path.endswith(_SITES)}
    trees = {*map(os.path.realpath, _EXTRAS), *_standard_library(), *_libraries()}
    tops = [path for path in sorted(trees) if not any(_within(path, tree) for tree in trees)]
    granted = [grant for path in tops for grant in _without(path, hidden)]
    return granted + [Grant(path, READ) for path in sorted(_packages())]


def _within(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _without(path: str, hidden: Collection[str]) -> Iterator[Grant]:
    """Grants on all beneath ``path`` but what is hidden: a grant cannot be taken back below."""
    if path in hidden or path.endswith(_SITES):
        return
    if not any(_within(secret, path) for secret in hidden):
        yield Grant(path, READ)
        return
    yield Grant(path, LIST)
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            yield from _without(entry.path, hidden)


def _standard_library() -> Iterator[str]:
    for kind in ("stdlib", "platstdlib"):
        folder = Path(sysconfig.get_path(kind))
        if (folder / "os.py").exists() or (folder / "lib-dynload").exists():
            yield str(folder.resolve())


def _libraries() -> Iterator[str]:
    """The folders that shared libraries were mapped from; their like may be wanted later."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        folder = Path("/" + line.partition("/")[2]).parent
        if ".so" in line and not _is_beside(folder):
            yield str(folder.resolve())


def _packages() -> set[str]:
    """What has been imported from beside the standard library, package by package."""
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and "." not in name and name not in _OURS and _is_beside(Path(file)):
            path = Path(file).resolve()
            found.add(str(path.parent if hasattr(module, "__path__") else path))
    return found


def _is_beside(path: Path) -> bool:
    """Whether it is none of the standard library's."""
    return not set(_SITES).isdisjoint(path.parts)

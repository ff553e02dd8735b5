"""Environments of others, made into packs once; nothing of theirs is patched at run time.

An importer is a module with ``sources(path)``; see ``source``. ``IMPORTERS`` says which there are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from environments.importers.source import Importer, ImportRefused

IMPORTERS: Final[dict[str, str]] = {
    "awm": "environments.importers.awm",
    "envfactory": "environments.importers.envfactory",
    "envscaler": "environments.importers.envscaler",
    "json-db": "environments.importers.json_db",
}
"""The formats there are, each with its module, which is imported when it is asked for."""


def importer(kind: str) -> Importer:
    """The function that finds the sources of a format. Raises ``ImportRefused`` for no format."""
    if kind not in IMPORTERS:
        raise ImportRefused(f"no format is called {kind!r}", hint=f"known: {', '.join(IMPORTERS)}")
    found: Importer = import_module(IMPORTERS[kind]).sources
    return found

"""A first pack to grow from: small, whole, and passing its own check."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from environments.catalogue import MANIFEST, PACK_NAME
from environments.errors import AgentError

TEMPLATE: Final = Path(__file__).parent / "template"


def new_pack(name: str, parent: Path) -> Path:
    """Write a pack called ``name`` into ``parent`` and return its folder.

    Raises ``AgentError`` for a name that is not allowed or a folder that is already there.
    """
    if not PACK_NAME.fullmatch(name):
        raise AgentError(
            f"{name!r} is not a name for an environment",
            hint="start with a-z, then up to 39 of a-z 0-9 _ -",
        )
    path = parent / name
    if path.exists():
        raise AgentError(f"{path} is already there", hint="choose another name or folder")
    shutil.copytree(TEMPLATE, path, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    manifest = path / MANIFEST
    title = name.replace("-", " ").replace("_", " ").capitalize()
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(
        text.replace("{{name}}", name).replace("{{title}}", title), encoding="utf-8"
    )
    return path

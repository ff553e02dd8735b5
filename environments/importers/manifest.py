"""The ``environment.toml`` of a pack that an importer writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from environments.catalogue import MANIFEST
from environments.names import shortened
from environments.spec import EnvironmentSpec

_SUMMARY_CHARACTERS = 300


def pack_name(name: str) -> str:
    """A pack's name for an environment whose name has only ``a-z0-9_-`` in it."""
    return shortened(name if name[:1].isalpha() else f"env_{name}")


def licence_of(folder: Path) -> str:
    """The first line of the licence that lies with an import's files, or above them."""
    for place in (folder, folder.parent):
        for file in sorted(place.glob("LICEN[CS]E*")):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line.strip() for line in lines if line.strip()), file.name)
    return "not stated with the files"


def summary_of(text: str) -> str:
    """The first sentence of a description, or as much of it as a list has room for."""
    first = " ".join(text.split()).partition(". ")[0].rstrip(".")
    if len(first) <= _SUMMARY_CHARACTERS:
        return first
    return first[: _SUMMARY_CHARACTERS - 4].rpartition(" ")[0] + " ..."


def write_manifest(folder: Path, spec: EnvironmentSpec) -> None:
    """Write what of ``spec`` is no default, tables last, as TOML has it."""
    told: dict[str, Any] = msgspec.to_builtins(spec)
    flat = {name: value for name, value in told.items() if not isinstance(value, dict)}
    lines = [f"{name} = {_literal(value)}" for name, value in flat.items()]
    for name, table in told.items():
        if isinstance(table, dict) and table:
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_literal(value)}" for key, value in table.items()]
    (folder / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        inside = (f"{json.dumps(key)} = {_literal(item)}" for key, item in value.items())
        return "{ " + ", ".join(inside) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

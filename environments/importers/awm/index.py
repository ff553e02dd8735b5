"""Where each environment lies in AWM's files: one pass over them, a line at a time."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from environments.importers.source import ImportRefused

FILES: Final[Mapping[str, str]] = {
    "scenario": "gen_scenario.jsonl",
    "tasks": "gen_tasks.jsonl",
    "db": "gen_db.jsonl",
    "sample": "gen_sample.jsonl",
    "spec": "gen_spec.jsonl",
    "envs": "gen_envs.jsonl",
    "verifier": "gen_verifier.jsonl",
    "pure_code": "gen_verifier.pure_code.jsonl",
}
"""What lies in which file; only ``envs`` must be there."""
_NAMED: Final = re.compile(rb'^\s*\{\s*"(?:scenario|name)"\s*:\s*("(?:[^"\\]|\\.)*")')


def normalised(name: str) -> str:
    """A scenario's name as AWM's files are joined by it; they disagree in case and punctuation."""
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", name.lower())).strip("_")


class Row(NamedTuple):
    """One line of a file."""

    offset: int
    length: int


@dataclass(slots=True)
class Entry:
    """All lines of one environment, by kind, in the order of the files."""

    title: str
    rows: dict[str, list[Row]] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)


def find_folder(path: Path) -> Path:
    """The folder of AWM's files at ``path``: that one, its ``outputs``, or that of a file in it.

    Raises ``ImportRefused``.
    """
    for folder in (path, path / "outputs", path.parent if path.is_file() else path):
        if (folder / FILES["envs"]).is_file():
            return folder
    files = ", ".join(FILES.values())
    raise ImportRefused(f"{path} has no {FILES['envs']}", hint=f"name the folder that has {files}")


def read_index(folder: Path) -> dict[str, Entry]:
    """The environments of a folder by normalised name, in the order of ``gen_envs.jsonl``."""
    entries: dict[str, Entry] = {}
    kinds = sorted(FILES, key=lambda kind: kind != "envs")
    for kind in kinds:
        for title, row, digest in _lines(folder / FILES[kind]):
            entry = entries.setdefault(normalised(title), Entry(title))
            entry.rows.setdefault(kind, []).append(row)
            entry.digest.update(kind.encode() + digest)
    return entries


def read_row(folder: Path, kind: str, row: Row) -> dict[str, Any]:
    """The object on one line. Raises ``ImportRefused``."""
    with (folder / FILES[kind]).open("rb") as file:
        file.seek(row.offset)
        line = file.read(row.length)
    try:
        read = json.loads(line)
    except ValueError as error:
        raise ImportRefused(
            f"{FILES[kind]}, byte {row.offset}: not JSON: {error}", hint="is the file whole?"
        ) from None
    if not isinstance(read, dict):
        raise ImportRefused(f"{FILES[kind]}, byte {row.offset}: no object")
    return read


def _lines(file: Path) -> Iterator[tuple[str, Row, bytes]]:
    """Each line's scenario, place and digest; a line without a scenario is named by its number."""
    if not file.is_file():
        return
    offset = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                title = _title(line) or f"{file.stem} line {number}"
                yield title, Row(offset, len(line)), hashlib.sha256(line).digest()
            offset += len(line)


def _title(line: bytes) -> str | None:
    named = _NAMED.match(line)
    try:
        if named:
            return str(json.loads(named[1]))
        whole = json.loads(line)
        return str(whole.get("scenario") or whole["name"])
    except (ValueError, KeyError, AttributeError):
        return None

"""Files that are there whole or not at all, whatever ends the writer."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and move it there; folders are made that are missing.

    A reader finds the old content or the new one. Raises ``OSError``, and the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)

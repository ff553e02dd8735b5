"""A format of this test's own: JSON files, each an environment, some with a trap in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from environments.importers.source import ImportRefused, Written
from environments.scaffold import new_pack


class Plain(msgspec.Struct, frozen=True):
    """One file; what it says is done when it is written."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem.partition(".")[0]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def write(self, folder: Path) -> Written:
        said = msgspec.json.decode(self.path.read_bytes())
        if "refuses" in said:
            raise ImportRefused(said["refuses"], hint="write it anew")
        if "dies" in said:
            os._exit(9)
        folder.rmdir()
        new_pack(said.get("called", self.name), folder.parent).rename(folder)
        (folder / "policy.md").write_text(said.get("policy", ""))
        if "waits" in said:  # until somebody listens, and then for ever: half of it is written
            (folder / "tools.py").unlink()
            with Path(said["waits"]).open("w") as fifo:
                fifo.write("here")
            os.read(os.pipe()[0], 1)
        return Written(tuple(said.get("repairs", ())), tuple(said.get("weaknesses", ())))


def sources(path: Path) -> Iterator[Plain]:
    if not path.is_dir():
        raise ImportRefused(f"{path} is no folder of JSON files")
    yield from map(Plain, sorted(path.glob("*.json")))

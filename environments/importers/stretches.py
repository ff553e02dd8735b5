"""Where the entries of large files of JSON are, so that each is read by itself later on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

_SPACE: Final = " \t\r\n,:"


class Stretch(msgspec.Struct, frozen=True):
    """One entry of a file."""

    file: Path
    start: int
    end: int

    def read(self) -> bytes:
        with self.file.open("rb") as file:
            file.seek(self.start)
            return file.read(self.end - self.start)

    def value(self) -> Any:
        """Raises ``ValueError`` for what is no JSON."""
        return json.loads(self.read())


def stretches(file: Path) -> Iterator[tuple[str, Stretch]]:
    """The entries of a file, each with its key: JSON lines, an array (keys are ``""``) or an
    object. What is broken is the end of it."""
    if file.suffix == ".jsonl":
        start = 0
        with file.open("rb") as lines:
            for line in lines:
                if line.strip():
                    yield "", Stretch(file, start, start + len(line))
                start += len(line)
        return
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    decoder, at, offset = json.JSONDecoder(), len(text) - len(text.lstrip()), 0
    if text[at : at + 1] not in ("[", "{"):
        return
    keyed = text[at] == "{"
    offset, at = at + 1, at + 1  # white space is one byte
    key, named = "", not keyed
    while True:
        while text[at : at + 1] in _SPACE and at < len(text):
            at, offset = at + 1, offset + 1
        try:
            found, end = decoder.raw_decode(text, at)
        except ValueError:
            return
        size = len(text[at:end].encode("utf-8", "surrogatepass"))
        if named:
            yield key, Stretch(file, offset, offset + size)
        else:
            key = str(found)
        named = not keyed or not named
        at, offset = end, offset + size


def holds(file: Path, mark: bytes, sniffed_bytes: int = 1 << 20) -> bool:
    """Whether the first of it has ``mark`` in it."""
    with file.open("rb") as opened:
        return mark in opened.read(sniffed_bytes)

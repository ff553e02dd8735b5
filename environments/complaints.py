"""Files of a pack, read; what is wrong with one, in words that help to mend it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from environments.errors import PackInvalid
from environments.spec import Spec

_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r"`\$(?:\.([^`]*))?`")


def files_in(folder: Path | str, before: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The files below a folder by relative name; links to folders are not followed.

    Raises ``PackInvalid`` for what cannot be looked at.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith((".", "__pycache__")):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from files_in(entry.path, f"{before}{entry.name}/")
                elif entry.is_file():
                    yield f"{before}{entry.name}", entry
    except OSError as error:
        at = Path(error.filename)
        place = f"{at.parent.name}/{at.name}"
        raise PackInvalid(f"{place} cannot be read: {error.strerror}") from None


def read_bytes(path: Path) -> bytes:
    """What is in a file. Raises ``PackInvalid`` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        place = f"{path.parent.name}/{path.name}"
        raise PackInvalid(f"{place} cannot be read: {error.strerror}") from None


def read_text(path: Path) -> str:
    """The text in a file. Raises ``PackInvalid`` where it cannot be read or is none."""
    place = f"{path.parent.name}/{path.name}"
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PackInvalid(f"{place} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PackInvalid(f"{place}: byte {error.start} is not UTF-8") from None


def lines_of(path: Path) -> list[str]:
    """The lines in a file. Only a newline ends one: JSON may have Unicode's other separators in a
    string. Raises what ``read_text`` raises."""
    return read_text(path).split("\n")


def invalid(error: msgspec.ValidationError, place: str, text: str, kind: type[Spec]) -> PackInvalid:
    """What msgspec says of a file at ``place``, with the line and what was meant."""
    message = str(error)
    unknown, at = _UNKNOWN_FIELD.search(message), _AT.search(message)
    path = at.group(1) if at and at.group(1) else ""
    word = unknown.group(1) if unknown else path.rsplit(".", 1)[-1]
    line = line_of(text, word) if text and word else 0
    hint = near(word, _fields(kind, path)) if unknown else ""
    return PackInvalid(f"{place}: {f'line {line}: ' if line else ''}{message}", hint=hint)


def _fields(kind: Any, path: str) -> list[str]:
    """The fields of the struct at a path like ``clock`` or ``oracle[...]``."""
    for part in filter(None, re.sub(r"\[[^]]*\]", "", path).split(".")):
        field = {f.encode_name: f.type for f in msgspec.structs.fields(kind)}.get(part)
        inner = getattr(field, "__args__", (field,))[0]
        if not (isinstance(inner, type) and issubclass(inner, msgspec.Struct)):
            return []
        kind = inner
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def line_of(text: str, word: str) -> int:
    """The number of the line that begins with ``word``; 0 if there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"\s*\[?{re.escape(word)}\b", line):
            return number
    return 0


def near(word: str, known: Sequence[str]) -> str:
    """A hint at what was meant by ``word``, or at what there is."""
    near = get_close_matches(word, known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = ", ".join(sorted(known)[:12])
    return f"known: {shown}{', ...' if len(known) > 12 else ''}" if known else ""

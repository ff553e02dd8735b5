"""What is wrong with a file of a pack, in words that help to mend it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from environments.errors import PackInvalid
from environments.spec import Spec

_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r"`\$(?:\.([^`]*))?`")


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

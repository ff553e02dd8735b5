"""Names: such as clients take, and what they name in the singular."""

from __future__ import annotations

import hashlib
import re
from typing import Final

CHARACTERS: Final = 40
_SUFFIX_CHARACTERS: Final = 6
_PLURALS: Final = (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"))


def tool_name(text: str) -> str:
    """What a tool is called for an operation or a function: its name, what clients do not allow
    made ``_``; if that changed it, or it has more than 40 characters, see ``shortened``."""
    return shortened(re.sub(r"[^A-Za-z0-9_-]", "_", text), text)


def shortened(name: str, original: str = "") -> str:
    """``name`` if it has at most 40 characters and is the ``original``; else its first 33, ``_``,
    and the first six hexadecimal digits of the SHA-256 of the original, so that two stay two."""
    original = original or name
    if name == original and len(name) <= CHARACTERS:
        return name
    mark = hashlib.sha256(original.encode()).hexdigest()[:_SUFFIX_CHARACTERS]
    return f"{name[: CHARACTERS - _SUFFIX_CHARACTERS - 1]}_{mark}"


def singular(noun: str) -> str:
    """One of what a regular English plural names: ``entries`` gives ``entry``. What is no plural
    stays as it is."""
    for plural, one in _PLURALS:
        if noun.endswith(plural) and len(noun) > len(plural) + 1:
            return noun.removesuffix(plural) + one
    return noun if noun.endswith(("ss", "us", "is")) else noun.removesuffix("s")

"""Paths into JSON: what a call was given, and what it answered.

``items.0.sku`` goes by names and positions; ``*`` stands for any item; ``$`` is the whole value.
A path that leads nowhere leads to null, as an argument left out is an argument of null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from environments.assertions.matchers import Bindings, Matcher, parse_plain
from environments.assertions.values import show
from environments.assertions.words import Scope

WHOLE: Final = "$"
Paths = Mapping[str, Matcher]


def parse_paths(source: Mapping[str, Any], place: str, scope: Scope) -> Paths:
    """Compile matchers by path. Raises ``PackInvalid``."""
    return {
        path: parse_plain(matcher, f"{place}.{path}", scope) for path, matcher in source.items()
    }


def misfits(paths: Paths, value: Any, bindings: Bindings) -> Iterator[str]:
    """What is not as the paths have it, one phrase each."""
    for path, matcher in paths.items():
        found = list(_picked(value, path.split(".") if path != WHOLE else []))
        if any(matcher.fits(item, bindings) for item in found):
            continue
        named = "the result" if path == WHOLE else path
        shown = ", ".join(show(item) for item in found[:5]) or "nothing"
        yield f"{named} is {shown}, expected {matcher.describe(bindings)}"


def describe(paths: Paths, bindings: Bindings) -> str:
    return " and ".join(f"{path} {matcher.describe(bindings)}" for path, matcher in paths.items())


def _picked(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    if step == "*" and isinstance(value, (list, dict)):
        for item in value if isinstance(value, list) else value.values():
            yield from _picked(item, rest)
    elif isinstance(value, dict):
        yield from _picked(value.get(step), rest)
    elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        yield from _picked(value[int(step)], rest)
    else:
        yield None

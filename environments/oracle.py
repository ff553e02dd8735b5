"""Playing the calls known to solve a task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from environments.episode import Episode
from environments.errors import PackInvalid
from environments.spec import OracleCall
from environments.trajectory import Step

_REFERENCE = re.compile(r"\$\{(\d+)((?:\.[^.{}]+)*)\}")


def resolve_oracle(call: OracleCall, results: Sequence[Any]) -> dict[str, Any]:
    """The arguments of an oracle call, ``${N.path}`` replaced by what call N answered.

    ``results`` are those of the calls before it. Raises ``PackInvalid`` naming a reference that
    leads nowhere.
    """
    resolved: dict[str, Any] = _resolved(call.arguments, results)
    return resolved


async def play_oracle(episode: Episode) -> list[Step]:
    """Play the oracle of the episode's task to its end, errors and all, and return its steps.

    Raises ``PackInvalid`` for a reference that leads nowhere, and whatever ``Episode.call`` does.
    """
    steps: list[Step] = []
    for call in episode.task.oracle if episode.task else ():
        arguments = resolve_oracle(call, [step.result for step in steps])
        steps.append(await episode.call(call.tool, arguments))
    return steps


def _resolved(value: Any, results: Sequence[Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved(item, results) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_resolved(item, results) for item in value]
    if isinstance(value, str) and (reference := _REFERENCE.fullmatch(value)):
        return _followed(reference, results)
    return value


def _followed(reference: re.Match[str], results: Sequence[Any]) -> Any:
    number, path = int(reference.group(1)), reference.group(2).split(".")[1:]
    if number >= len(results):
        raise PackInvalid(
            f"oracle reference {reference.group()}: there is no call {number} before this one",
            hint="calls are counted from 0",
        )
    value = results[number]
    for part in path:
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            there = (
                f"keys {', '.join(value)}"
                if isinstance(value, Mapping)
                else f"a list of {len(value)}"
                if isinstance(value, list)
                else f"{value!r}"
            )
            raise PackInvalid(
                f"oracle reference {reference.group()}: there is no {part!r} in call {number}'s "
                f"answer",
                hint=f"there is {there}",
            ) from None
    return value

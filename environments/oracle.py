"""Playing the calls known to solve a task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from environments.environment import WAIT
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.spec import OracleCall
from environments.trajectory import Step

HONEST: Final = frozenset({"latency", "concurrent_mutation"})
"""Faults under which the agent is told what the tool really answered."""
REFERENCE: Final = re.compile(r"\$\{(\d+)((?:\.[^.{}]+)*)\}")
"""What an argument refers to an earlier answer by: the number of its call, and the way into it."""


def resolve_oracle(call: OracleCall, results: Sequence[Any]) -> dict[str, Any]:
    """The arguments of an oracle call, ``${N.path}`` replaced by what call N answered.

    ``results`` are those of the calls before it. Raises ``PackInvalid`` naming a reference that
    leads nowhere.
    """
    resolved: dict[str, Any] = _resolved(call.arguments, results)
    return resolved


class OracleRun(NamedTuple):
    """The steps an oracle took, and the answer it gave (none where it gave up before the end)."""

    steps: list[Step]
    answer: str | None


async def play_oracle(episode: Episode, retries: int = 0) -> OracleRun:
    """Play the oracle of the episode's task to its end, errors that belong to it and all.

    A call that an injected fault spoiled is put right up to ``retries`` times: repeated, after a
    wait or under a parameter's new name where the fault asks for it; a write that went through all
    the same is not, and its answer is looked up in the record, as an agent would look for it in the
    data. With no retries left the oracle gives up.

    Raises ``PackInvalid`` for a reference that leads nowhere, and whatever ``Episode.call`` does.
    """
    run = OracleRun([], episode.task.answer if episode.task else None)
    results: list[Any] = []
    for call in episode.task.oracle if episode.task else ():
        arguments = resolve_oracle(call, results)
        done, result = await _persist(episode, run.steps, (call.tool, arguments), retries)
        if not done:
            return run._replace(answer=None)
        results.append(result)
    return run


async def _persist(
    episode: Episode, steps: list[Step], call: tuple[str, dict[str, Any]], retries: int
) -> tuple[bool, Any]:
    """Whether the call got through in the end, and what it answered."""
    tool, arguments = call
    for _ in range(retries + 1):
        step = await episode.call(tool, arguments)
        steps.append(step)
        fault = step.fault
        if fault is None or fault.kind in HONEST:
            return True, step.result
        if fault.ran and not episode.tools[tool].read_only:
            return True, fault.result
        if fault.kind == "renamed_parameter":
            old, new = fault.about["old"], fault.about["new"]
            arguments = {new if name == old else name: arguments[name] for name in arguments}
        elif step.error is not None and WAIT in episode.tools:
            seconds = step.error.details.get("retry_after_seconds")
            if seconds is not None:
                steps.append(await episode.call(WAIT, {"seconds": seconds}))
    return False, None


def _resolved(value: Any, results: Sequence[Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved(item, results) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_resolved(item, results) for item in value]
    if isinstance(value, str) and (reference := REFERENCE.fullmatch(value)):
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

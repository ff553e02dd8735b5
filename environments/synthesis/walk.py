"""Walks: calls made one after the other, whose arguments come from earlier answers.

Executed in an episode of the real guest, a walk is an oracle; works with any pack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from environments.episode import Episode
from environments.errors import PackInvalid
from environments.oracle import REFERENCE, resolve_oracle
from environments.spec import OracleCall
from environments.trajectory import Step
from snapshots import Changeset


class DeadEnd(Exception):
    """A walk that leads nowhere: a call answered otherwise than it should, a row is not unique."""


class Walk:
    """Calls made in an episode, one after the other, as an oracle in the making.

    Arguments may refer to earlier answers by ``${N.path}``. The episode is shared between walks:
    each begins where the episode began and is undone at its end.
    """

    def __init__(self, episode: Episode, mark: str) -> None:
        self.episode = episode
        self.mark = mark
        self.calls: list[OracleCall] = []
        self.steps: list[Step] = []

    async def call(
        self, tool: str, arguments: Mapping[str, Any], expect_error: str | None = None
    ) -> Step:
        """Raises ``DeadEnd`` if it does not end as expected, ``PackInvalid`` if it crashes."""
        call = OracleCall(tool=tool, arguments=dict(arguments), expect_error=expect_error)
        resolved = resolve_oracle(call, [step.result for step in self.steps])
        step = await self.episode.call(tool, resolved)
        if step.error is not None and step.error.kind == "environment":
            raise PackInvalid(f"{tool} {resolved}: {step.error.message}")
        code = step.error.code if step.error else None
        if code != expect_error or step.truncated:
            raise DeadEnd(f"{tool} answered {code or 'too much'}")
        self.calls.append(call)
        self.steps.append(step)
        return step

    def changes(self) -> Changeset:
        """What the agent has changed, net."""
        return self.episode.changes(since=self.mark, actor="agent")

    async def undo(self) -> None:
        await self.episode.rewind(self.mark)

    def place_of(self, number: int, key: str, value: Any) -> str | None:
        """A reference to the list item of answer ``number`` whose ``key`` is ``value``, without
        the key: ``${3.results.0`` gives a reference once a field and ``}`` follow."""
        result = self.steps[number].result
        rows = result.get("results", ()) if isinstance(result, Mapping) else result
        inside = ".results" if isinstance(result, Mapping) else ""
        for index, row in enumerate(rows or ()):
            if isinstance(row, Mapping) and row.get(key) == value:
                return f"${{{number}{inside}.{index}"
        return None


def needed_places(calls: Sequence[OracleCall], writes: Sequence[int]) -> list[int]:
    """The places of the calls that write or feed one that does."""
    kept = set(writes)
    for number in reversed(range(len(calls))):
        if number in kept:
            kept |= {int(found) for found in _referred(calls[number].arguments)}
    return sorted(kept)


def needed(calls: Sequence[OracleCall], writes: Sequence[int]) -> list[OracleCall]:
    """The calls that write or feed one that does, with their references counted anew."""
    kept = needed_places(calls, writes)
    order = {number: place for place, number in enumerate(kept)}
    return [
        msgspec.structs.replace(
            calls[number], arguments=_renumbered(calls[number].arguments, order)
        )
        for number in order
    ]


def shape_of(calls: Sequence[OracleCall]) -> str:
    """What oracles have in common that differ in values only: tools, names of arguments, and
    whether an argument comes from an earlier answer."""
    return "; ".join(map(_call_shape, calls))


def _call_shape(call: OracleCall) -> str:
    arguments = ", ".join(_argument_shape(*item) for item in sorted(call.arguments.items()))
    return f"{call.tool}({arguments})" + (f" -> {call.expect_error}" if call.expect_error else "")


def _argument_shape(name: str, value: Any) -> str:
    return f"{name}=${{}}" if next(_referred(value), None) is not None else name


def _referred(arguments: Any) -> Iterator[str]:
    if isinstance(arguments, str) and (found := REFERENCE.fullmatch(arguments)):
        yield found.group(1)
    elif isinstance(arguments, Mapping):
        for value in arguments.values():
            yield from _referred(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _referred(value)


def _renumbered(value: Any, order: Mapping[int, int]) -> Any:
    if isinstance(value, str) and (found := REFERENCE.fullmatch(value)):
        return f"${{{order[int(found.group(1))]}{found.group(2)}}}"
    if isinstance(value, Mapping):
        return {name: _renumbered(each, order) for name, each in value.items()}
    if isinstance(value, list):
        return [_renumbered(each, order) for each in value]
    return value

"""Tools as a graph: which answers feed which arguments; walks on it, executed, are oracles.

Works on any pack: it needs the tools' schemas, what they answer, and an episode to call them in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from environments.episode import Episode
from environments.oracle import resolve_oracle
from environments.spec import OracleCall, ToolSpec
from environments.synthesis.blueprint import singular_of
from environments.trajectory import Step
from snapshots import Changeset

_REFERENCE = re.compile(r"\$\{(\d+)((?:\.[^.{}]+)*)\}")
_SHORTEST = 3
"""Text shorter than this is taken for a word, not for an id that came from an answer."""


class DeadEnd(Exception):
    """A walk that leads nowhere: a call answered otherwise than it should, a row is not unique."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What ``producer`` answers at ``path`` can be given to ``consumer`` as ``argument``."""

    producer: str
    path: str
    """With ``*`` for any item of a list: ``results.*.id``."""
    consumer: str
    argument: str


class ToolGraph:
    """The edges between the tools of an environment."""

    def __init__(self, edges: Sequence[Edge]) -> None:
        self.edges = tuple(edges)
        self._into: dict[tuple[str, str], list[Edge]] = {}
        for edge in edges:
            self._into.setdefault((edge.consumer, edge.argument), []).append(edge)

    @classmethod
    def of(cls, tools: Mapping[str, ToolSpec], answers: Mapping[str, Sequence[Any]]) -> ToolGraph:
        """From schemas and some answers of each tool.

        A leaf ``member_id`` feeds arguments called so; a leaf ``id`` in an answer about members
        feeds ``member_id``; types must agree.
        """
        edges: dict[Edge, None] = {}
        for producer, given in answers.items():
            leaves = {path: value for answer in given for path, value in leaves_of(answer)}
            for path, value in leaves.items():
                for name in _names(producer, path):
                    for consumer, spec in tools.items():
                        part = spec.input_schema.get("properties", {}).get(name)
                        if part is not None and _fits(value, part):
                            edges[Edge(producer, path, consumer, name)] = None
        return cls(list(edges))

    def into(self, tool: str, argument: str) -> Sequence[Edge]:
        """What may be given to a tool as this argument."""
        return self._into.get((tool, argument), ())


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths into an answer and what is there, ``*`` for any item of a list."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves_of(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves_of(inner, f"{path}.*" if path else "*")
    elif value is not None:
        yield path, value


def _names(tool: str, path: str) -> Iterator[str]:
    """The arguments that a leaf of an answer may be meant for."""
    parts = [part for part in path.split(".") if part != "*"]
    leaf = parts[-1] if parts else ""
    yield leaf
    if leaf == "id":
        about = parts[-2] if len(parts) > 1 and parts[-2] != "results" else tool
        for word in (about, about.partition("_")[2]):
            if word:
                yield f"{word}_id"
                yield f"{singular_of(word)}_id"


def _fits(value: Any, part: Mapping[str, Any]) -> bool:
    kinds = {one.get("type") for one in (part, *part.get("anyOf", ()))}
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int):
        return bool(kinds & {"integer", "number"})
    return ("number" if isinstance(value, float) else "string") in kinds


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
        """Raises ``DeadEnd`` if it does not end as expected."""
        call = OracleCall(tool=tool, arguments=dict(arguments), expect_error=expect_error)
        resolved = resolve_oracle(call, [step.result for step in self.steps])
        step = await self.episode.call(tool, resolved)
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


def linked(calls: Sequence[OracleCall], results: Sequence[Any]) -> list[OracleCall]:
    """The calls with each literal that an earlier answer held replaced by a reference to it.

    Only ids count as such: values of keys that are or end with ``id``.
    """
    known: dict[Any, str] = {}
    done: list[OracleCall] = []
    for number, call in enumerate(calls):
        arguments = {
            name: known.get(value, value) if _is_id(value) else value
            for name, value in call.arguments.items()
        }
        done.append(
            OracleCall(
                tool=call.tool,
                arguments=arguments,
                expect_error=call.expect_error,
                optional=call.optional,
            )
        )
        for path, value in _indexed(results[number]):
            if path.rsplit(".", 1)[-1].endswith("id") and _is_id(value):
                known.setdefault(value, f"${{{number}.{path}}}")
    return done


def needed(calls: Sequence[OracleCall], writes: Sequence[int]) -> list[OracleCall]:
    """The calls that write or feed one that does, with their references counted anew."""
    kept = set(writes)
    for number in reversed(range(len(calls))):
        if number in kept:
            kept |= {int(found) for found in _referred(calls[number].arguments)}
    order = {number: place for place, number in enumerate(sorted(kept))}
    return [
        OracleCall(
            tool=calls[number].tool,
            arguments={
                name: _renumbered(value, order) for name, value in calls[number].arguments.items()
            },
            expect_error=calls[number].expect_error,
            optional=calls[number].optional,
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
    return f"{name}=${{}}" if isinstance(value, str) and _REFERENCE.fullmatch(value) else name


def _is_id(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and len(value) >= _SHORTEST
    )


def _indexed(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items: Iterator[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        if path:
            yield path, value
        return
    for key, inner in items:
        yield from _indexed(inner, f"{path}.{key}" if path else str(key))


def _referred(arguments: Mapping[str, Any]) -> Iterator[str]:
    for value in arguments.values():
        if isinstance(value, str) and (found := _REFERENCE.fullmatch(value)):
            yield found.group(1)


def _renumbered(value: Any, order: Mapping[int, int]) -> Any:
    if isinstance(value, str) and (found := _REFERENCE.fullmatch(value)):
        return f"${{{order[int(found.group(1))]}{found.group(2)}}}"
    return value

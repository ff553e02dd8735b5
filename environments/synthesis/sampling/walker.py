"""Walks through the graph of tools: from what one answers to what the next takes, as it happens.

A walk is made backwards and forwards: a tool is chosen, what it takes is had from earlier answers,
or from tools that answer with it, which are called first; what was answered leads to the next one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from environments.environment import Environment
from environments.errors import PackInvalid
from environments.spec import ToolSpec
from environments.synthesis.sampling.describing import LABELS, Thing
from environments.synthesis.sampling.graph import Leaf, Parameter, ToolGraph, leaves_of, only_asks
from environments.synthesis.sampling.tables import Kind, Scalar, Tables, tokens_of
from environments.synthesis.sampling.values import SEARCHES, Values, fits
from environments.synthesis.walk import DeadEnd, Walk, needed
from environments.trajectory import Step

_TRIES: Final = 8
_SIDEWAYS: Final = 3
"""Tools that are tried before a walk ends where it is."""
_DEEPEST: Final = 3
_OPTIONAL: Final = 0.25
_LOOKED_FOR: Final = 3
CUTS: Final = frozenset({
    "page", "limit", "offset", "cursor", "sort", "order", "size", "per", "per_page", "page_size",
    "sort_by", "order_by", "max_results",
})  # fmt: skip
"""Parameters about how answers are cut, not about what is wanted."""


class Given(NamedTuple):
    """A value that a call was given."""

    parameter: Parameter
    value: Any
    thing: Thing | None = None
    """Where it comes from, if from an earlier answer."""
    kind: Kind | None = None
    """What it names, if it names anything."""


class Move(NamedTuple):
    """A call of a walk, and what it was given."""

    number: int
    tool: ToolSpec
    given: tuple[Given, ...]


class Walker:
    """Makes walks in one environment. Which tools have been called how often is remembered, so that
    the next walks go where none went yet."""

    def __init__(
        self, environment: Environment, graph: ToolGraph, tables: Tables, dice: random.Random
    ) -> None:
        self.graph = graph
        self._used: Counter[str] = Counter()
        self._tables = tables
        self._dice = dice
        self._values = Values(graph, tables, environment.pack.spec.clock.start, dice)
        self._broken: Counter[str] = Counter()

    async def changing(self, walk: Walk, length: int) -> list[Move]:
        """Calls that change something, about ``length`` with those they need; the moves that were
        meant. Raises ``DeadEnd``."""
        moves: list[Move] = []
        failed = 0
        while len(needed(walk.calls, [move.number for move in moves])) < length:
            able = [tool for tool in self.graph.tools.values() if not only_asks(tool)]
            done = {move.tool.name for move in moves}
            able = [tool for tool in able if tool.name not in done]
            if moves:
                able = [tool for tool in able if self._led_to(walk, tool)]
            if not able:
                break
            tool = self._rarest(able)
            try:
                moves.append(await self._move(walk, tool, length - len(moves)))
            except DeadEnd:
                failed += 1
                if not moves or failed == _SIDEWAYS:
                    break
        if not moves:
            raise DeadEnd("nothing could be changed")
        return moves

    async def asking(self, walk: Walk, length: int) -> Move:
        """Calls that read, the last of them for what is asked about. Raises ``DeadEnd``."""
        able = [tool for tool in self.graph.tools.values() if tool.read_only]
        if length > 1:
            able = [tool for tool in able if self._kinds(tool.name)] or able
        if not able:
            raise DeadEnd("nothing answers a question")
        return await self._move(walk, self._rarest(able), length)

    # One call ------------------------------------------------------------------------------------

    async def _move(self, walk: Walk, tool: ToolSpec, depth: int) -> Move:
        """Call a tool with what it needs; several attempts with other values."""
        self._used[tool.name] += 1
        refused = DeadEnd(f"nothing can be given to {tool.name}")
        for _ in range(_TRIES):
            given = tuple(await self._arguments(walk, tool, min(depth, _DEEPEST), ()))
            try:
                await self._call(walk, tool.name, assembled(given))
            except DeadEnd as error:
                refused = error
                continue
            return Move(len(walk.calls) - 1, tool, given)
        raise refused

    async def _call(self, walk: Walk, tool: str, arguments: Mapping[str, Any]) -> Step:
        """One call. A tool that crashes is called no more: that is the pack's to mend."""
        if self._broken[tool]:
            raise DeadEnd(f"{tool} is broken")
        try:
            return await walk.call(tool, arguments)
        except PackInvalid as error:
            self._broken[tool] += 1
            raise DeadEnd(error.message) from error

    async def _read(self, walk: Walk, tool: str, arguments: Mapping[str, Any]) -> int:
        """The call that reads this: an earlier one, where nothing has changed since."""
        for number in reversed(range(len(walk.calls))):
            step = walk.steps[number]
            if any(change.changes for change in step.changes):
                break
            if step.tool == tool and walk.calls[number].arguments == arguments:
                return number
        await self._call(walk, tool, arguments)
        return len(walk.calls) - 1

    async def _arguments(
        self,
        walk: Walk,
        tool: ToolSpec,
        depth: int,
        above: tuple[str, ...],
        wanted: Mapping[str, Any] | None = None,
    ) -> list[Given]:
        """What a tool is given; where a row is ``wanted``, such as finds it."""
        given: list[Given] = []
        for one in self.graph.parameters[tool.name]:
            kind = self.graph.takes.get((tool.name, one.name))
            found = None if wanted is None or kind is not None else self._finding(one, wanted)
            if found is not None and (one.required or self._dice.random() < 0.6):
                given.append(Given(one, self._values.as_taken(one, found)))
                continue
            if not one.required and not self._optional(tool, one):
                continue
            try:
                given.append(await self._given(walk, one, kind, depth, (*above, tool.name), given))
            except DeadEnd:
                if one.required:
                    raise
        return given

    def _finding(self, one: Parameter, wanted: Mapping[str, Any]) -> Scalar | None:
        """A value by which a search may find the row."""
        value = wanted.get(one.path[-1])
        if value is None and SEARCHES & {*tokens_of(one.path[-1])}:
            value = next((wanted[name] for name in LABELS if name in wanted), None)
        return value if value is not None and fits(value, one) else None

    def _optional(self, tool: ToolSpec, one: Parameter) -> bool:
        """Whether an argument that may be left out is given: searches are left wide."""
        if one.name in CUTS or len(one.path) > 1 or tool.read_only:
            return False
        return self._dice.random() < _OPTIONAL

    async def _given(
        self,
        walk: Walk,
        one: Parameter,
        kind: Kind | None,
        depth: int,
        above: tuple[str, ...],
        others: Sequence[Given],
    ) -> Given:
        if kind is None:
            return Given(one, self._values.of(one))
        taken = [each.value for each in others]
        try:
            thing = await self._thing(walk, kind, depth, above, taken)
        except DeadEnd:
            if not kind.table or len(above) > 1:
                raise
            return Given(one, self._unread(one, kind, taken), kind=kind)  # who asks has to say it
        return Given(one, thing.leaf.value, thing, kind)

    def _unread(self, one: Parameter, kind: Kind, taken: Sequence[Any]) -> Any:
        values = [row[kind.column] for row in self._tables[kind.table].rows]
        values = [value for value in values if value not in taken and fits(value, one)]
        if not values:
            raise DeadEnd(f"there is no {kind.table}")
        return self._dice.choice(values)

    async def _thing(
        self, walk: Walk, kind: Kind, depth: int, above: tuple[str, ...], taken: Sequence[Any]
    ) -> Thing:
        """A thing of a kind out of an answer, which is asked for if there is none."""
        known = [thing for thing in self._known(walk, kind) if thing.leaf.value not in taken]
        if known and (self._dice.random() < 0.7 or depth <= 0):
            return self._dice.choice(known)
        makers = [
            self.graph.tools[name] for name in self.graph.producers(kind) if name not in above
        ]
        makers = [tool for tool in makers if tool.read_only and not self._broken[tool.name]]
        makers = [tool for tool in makers if depth > 1 or not self._kinds(tool.name)]
        self._dice.shuffle(makers)
        makers.sort(key=lambda tool: len(self._kinds(tool.name)) > 0 and self._dice.random() < 0.5)
        for tool in makers[:3]:
            for wanted in (None, *self._some_rows(kind)):
                try:
                    given = await self._arguments(walk, tool, depth - 1, above, wanted)
                    number = await self._read(walk, tool.name, assembled(given))
                except DeadEnd:
                    continue
                new = [thing for thing in self._known(walk, kind) if thing.call == number]
                found = [thing for thing in new if thing.leaf.value not in taken]
                if wanted is not None:  # what was looked for is said of this row, of no other
                    found = [one for one in found if one.leaf.value == wanted[kind.column]]
                if found:
                    return self._dice.choice(found)
        if known:
            return self._dice.choice(known)
        raise DeadEnd(f"no tool answers with a {kind.column} of {kind.table}")

    def _some_rows(self, kind: Kind) -> Sequence[Mapping[str, Any]]:
        """Rows to look for where a search wants to know what for."""
        rows = self._tables[kind.table].rows if kind.table else ()
        return self._dice.sample(rows, min(len(rows), _LOOKED_FOR))

    def _known(self, walk: Walk, kind: Kind) -> Iterator[Thing]:
        """The things of a kind that the answers so far name."""
        for number, step in enumerate(walk.steps):
            for leaf in leaves_of(step.result):
                if self.graph.gives.get((step.tool, leaf.field)) == kind and _can_be_told(leaf):
                    yield Thing(kind, leaf, number)

    def _kinds(self, tool: str) -> list[Kind]:
        """What a tool cannot do without."""
        return [
            self.graph.takes[tool, one.name]
            for one in self.graph.parameters[tool]
            if one.required and (tool, one.name) in self.graph.takes
        ]

    def _led_to(self, walk: Walk, tool: ToolSpec) -> bool:
        """Whether an answer so far is something that the tool takes."""
        return any(next(self._known(walk, kind), None) for kind in self._kinds(tool.name))

    def _rarest(self, tools: Sequence[ToolSpec]) -> ToolSpec:
        return min(tools, key=lambda tool: self._used[tool.name] + self._dice.random())


def _can_be_told(leaf: Leaf) -> bool:
    """Whether it says anything, and a reference can lead to it."""
    return leaf.value != "" and not any(set(str(part)) & set(".{}") for part in leaf.path)


def assembled(given: Sequence[Given]) -> dict[str, Any]:
    """The arguments of a call; what comes from an earlier answer refers to it."""
    arguments: dict[str, Any] = {}
    for each in given:
        value = each.value if each.thing is None else reference(each.thing)
        one = each.parameter
        if len(one.path) == 1:
            whole = one.listed and each.thing is not None
            arguments[one.path[0]] = [value] if whole else value
            continue
        holder = arguments.setdefault(one.path[0], [{}] if one.listed else {})
        (holder[0] if one.listed else holder)[one.path[1]] = value
    return arguments


def reference(thing: Thing) -> str:
    """How an oracle refers to it."""
    return f"${{{thing.call}{''.join(f'.{part}' for part in thing.leaf.path)}}}"

"""The graph of a pack's tools: which of them answers with what which other takes.

As in EnvFactory, a link goes from a field of an answer to a parameter where both name the same kind
of thing: by their names, their types, the keys of the tables, and the values that were seen; where
somebody embeds texts, also by what they mean. What tools answer is known from calls that were made.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from environments.check.probes import resolved
from environments.check.randomly import Pools, arguments_for
from environments.check.runs import oracle_plan, play, side_by_side
from environments.environment import WAIT, Environment
from environments.episode import Episode
from environments.spec import ToolSpec
from environments.synthesis.alike import Embed, cosine
from environments.synthesis.sampling.naming import JSON_TYPES, Naming, can_name
from environments.synthesis.sampling.tables import Kind, Scalar, Tables, tokens_of
from environments.trajectory import Step

_TRIES: Final = 14
_ORACLES: Final = 40
_READING: Final = frozenset({"get", "list", "search", "find", "view", "show", "read"})
_MEANT: Final = 0.8
"""The cosine from which a field means what a parameter takes."""
_VALUES: Final = 40


class Parameter(NamedTuple):
    """A scalar that a tool takes."""

    tool: str
    path: tuple[str, ...]
    """The name of the argument; where that is an object, the name in it as well."""
    schema: Mapping[str, Any]
    """Its part of the tool's schema, references resolved; of a list, that of an item."""
    required: bool
    listed: bool
    """Whether the argument is a list of such values, or of such objects."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def used(self, arguments: Mapping[str, Any]) -> list[Any]:
        """What stands under it in a call."""
        values = [arguments[self.path[0]]] if self.path[0] in arguments else []
        values = [one for each in values for one in (each if isinstance(each, list) else [each])]
        for name in self.path[1:]:
            values = [one[name] for one in values if isinstance(one, Mapping) and name in one]
        return values


class Leaf(NamedTuple):
    """A scalar of an answer."""

    path: tuple[str | int, ...]
    value: Scalar
    holder: Mapping[str, Any]
    """The object that it stands in."""

    @property
    def field(self) -> tuple[str, ...]:
        """Its place whichever item of a list it is in."""
        return tuple("*" if isinstance(part, int) else part for part in self.path)


class Link(NamedTuple):
    """What tool ``source`` answers in ``field`` is what ``target`` takes as ``parameter``."""

    source: str
    field: tuple[str, ...]
    target: str
    parameter: str
    kind: Kind


@dataclass(slots=True)
class Seen:
    """The calls of a tool that were answered without an error."""

    arguments: list[Mapping[str, Any]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    writes: int = 0
    """How many of them changed rows."""
    meant: int = 0
    """How many of them, the first, somebody meant: they are of an oracle."""


@dataclass(frozen=True, slots=True)
class ToolGraph:
    """What is known of an environment's tools."""

    tools: Mapping[str, ToolSpec]
    parameters: Mapping[str, tuple[Parameter, ...]]
    takes: Mapping[tuple[str, str], Kind]
    """By tool and parameter, what it names."""
    gives: Mapping[tuple[str, tuple[str, ...]], Kind]
    """By tool and field of its answer, what that names."""
    seen: Mapping[str, Seen]
    pools: Pools
    """Values out of the database, by the names that parameters have."""

    @property
    def links(self) -> list[Link]:
        """Every edge, in the order of the tools."""
        return [
            Link(source, place, target, parameter, kind)
            for (source, place), kind in self.gives.items()
            for (target, parameter), wanted in self.takes.items()
            if wanted == kind and source != target
        ]

    def producers(self, kind: Kind) -> list[str]:
        """The tools whose answers name things of a kind."""
        return list(dict.fromkeys(tool for (tool, _), given in self.gives.items() if given == kind))


async def tool_graph(
    environment: Environment, tables: Tables, seed: int = 0, embed: Embed | None = None
) -> ToolGraph:
    """Look at the tools: by the oracles that there are, and by calls tried on an episode.

    Raises what ``Episode.start`` does.
    """
    tools = {name: tool for name, tool in environment.tools.items() if name != WAIT}
    parameters = {name: tuple(_parameters(tool)) for name, tool in tools.items()}
    naming = Naming(tables)
    seen = await _played(environment)
    pools = _pools(tables, _taken(parameters, seen, naming), parameters)
    await _try_all(environment, seen, pools, random.Random(f"{environment.name} {seed} looking"))
    tools = {name: _as_seen(tool, seen[name]) for name, tool in tools.items()}
    takes = _taken(parameters, seen, naming)
    gives: dict[tuple[str, tuple[str, ...]], Kind] = {}
    for tool in tools:
        for place, leaves in _fields(seen[tool].results).items():
            kind = naming.of_field(tool, place, [leaf.value for leaf in leaves])
            if kind is not None:
                gives[tool, place] = kind
    if embed is not None:
        takes |= await _meant(parameters, takes, gives, seen, embed)
    return ToolGraph(tools, parameters, takes, gives, seen, pools)


def _as_seen(tool: ToolSpec, seen: Seen) -> ToolSpec:
    """A tool that does not say that it only reads, but is called so and never did anything else."""
    reads = only_asks(tool) and not seen.writes
    return msgspec.structs.replace(tool, read_only=True) if reads and seen.results else tool


def only_asks(tool: ToolSpec) -> bool:
    """Whether nobody would call a tool to have something changed, even if it notes that it was."""
    return tool.read_only or bool(_READING & {*tokens_of(tool.name.rpartition("__")[2])[:2]})


def _taken(
    parameters: Mapping[str, Sequence[Parameter]], seen: Mapping[str, Seen], naming: Naming
) -> dict[tuple[str, str], Kind]:
    takes: dict[tuple[str, str], Kind] = {}
    for tool, each in parameters.items():
        for one in each:
            used = [value for call in seen[tool].arguments for value in one.used(call)]
            kind = naming.of_parameter(tool, one.path[-1], one.schema, used)
            if kind is not None:
                takes[tool, one.name] = kind
    return takes


def _pools(
    tables: Tables,
    takes: Mapping[tuple[str, str], Kind],
    parameters: Mapping[str, Sequence[Parameter]],
) -> Pools:
    """Values for what tools take: of the rows that it names, else of columns of its name."""
    pools: dict[str, list[Any]] = defaultdict(list)
    for table in tables:
        for column in table.columns:
            pools[column] += tables.values(table.name, column)
    for tool, each in parameters.items():
        for one in each:
            kind = takes.get((tool, one.name))
            if kind is not None and kind.table:
                pools[one.path[-1]] += tables.values(*kind)
            elif one.path[-1] not in pools:
                pools[one.path[-1]] += tables.named(tokens_of(one.path[-1]))
    return {name: values[:: len(values) // _VALUES + 1] for name, values in pools.items()}


def leaves_of(result: Any) -> Iterator[Leaf]:
    """Every scalar of an answer that stands in an object; what is null or true or false names
    nothing and is left out."""
    pending: deque[tuple[tuple[str | int, ...], Any, Mapping[str, Any] | None]]
    pending = deque([((), result, None)])
    while pending:
        path, value, holder = pending.popleft()
        match value:
            case Mapping():
                pending += [((*path, str(key)), each, value) for key, each in value.items()]
            case list():
                pending += [((*path, at), each, holder) for at, each in enumerate(value)]
            case bool() | None:
                pass
            case _ if holder is not None:
                yield Leaf(path, value, holder)


# --- what is seen ----------------------------------------------------------------------------


async def _played(environment: Environment) -> dict[str, Seen]:
    """What tools answered in the oracles of the pack's tasks."""
    seen: dict[str, Seen] = defaultdict(Seen)
    tasks = [task for task in environment.pack.tasks.values() if task.oracle][:_ORACLES]

    async def played(place: int) -> Any:
        return (await play(environment, tasks[place], oracle_plan(tasks[place]))).steps

    for steps in await side_by_side(range(len(tasks)), played):
        for step in steps:
            if step.error is None:
                _add(seen, step)
                seen[step.tool].meant += 1
    return seen


async def _try_all(
    environment: Environment, seen: dict[str, Seen], pools: Pools, dice: random.Random
) -> None:
    """Call each tool that nobody has called yet with arguments that fit its schema, readers first:
    what they answer is what others may take."""
    answered: dict[str, list[Any]] = defaultdict(list)
    for one in seen.values():
        for result in one.results:
            for leaf in leaves_of(result):
                answered[str(leaf.path[-1])].append(leaf.value)
    episode = await Episode.start(environment, horizon=1_000_000)
    mark = await episode.mark()
    tools = [tool for tool in environment.tools.values() if tool.name != WAIT]
    for tool in sorted(tools, key=lambda tool: not tool.read_only):
        bare: list[dict[str, Any]] = [{}] if _lists_all(tool) else []
        for _ in range(_TRIES):
            if len(seen[tool.name].results) >= (3 if tool.read_only else 1) and not bare:
                break
            arguments = bare.pop() if bare else arguments_for(tool, dice, pools, answered)
            step = await episode.call(tool.name, arguments)
            if step.error is None:
                _add(seen, step)
                for leaf in leaves_of(step.result):
                    answered[str(leaf.path[-1])].append(leaf.value)
            elif step.error.kind == "environment":
                break
            await episode.rewind(mark)
    await episode.close()


def _add(seen: dict[str, Seen], step: Step) -> None:
    seen[step.tool].arguments.append(step.arguments)
    seen[step.tool].results.append(step.result)
    seen[step.tool].writes += any(change.changes for change in step.changes)


def _lists_all(tool: ToolSpec) -> bool:
    """Whether a tool can be asked for nothing in particular."""
    return tool.read_only and not tool.input_schema.get("required")


def _fields(results: Iterable[Any]) -> dict[tuple[str, ...], list[Leaf]]:
    fields: dict[tuple[str, ...], list[Leaf]] = defaultdict(list)
    for result in results:
        for leaf in leaves_of(result):
            if len(fields[leaf.field]) < _VALUES:
                fields[leaf.field].append(leaf)
    return fields


def _parameters(tool: ToolSpec) -> Iterator[Parameter]:
    """What a tool takes, the scalars of an object each by itself; deeper ones are passed over."""
    root = tool.input_schema
    for name, needed, part in _properties(root, root):
        schema, listed = part, part.get("type") == "array"
        if listed:
            schema = resolved(part.get("items", {}), root)
        if schema.get("type") != "object":
            yield Parameter(tool.name, (name,), schema, needed, listed)
            continue
        for inner, also, deeper in _properties(schema, root):
            yield Parameter(tool.name, (name, inner), deeper, needed and also, listed)


def _properties(
    schema: Mapping[str, Any], root: Mapping[str, Any]
) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        yield name, name in required, resolved(part, root)


# --- what means the same ----------------------------------------------------------------------


async def _meant(
    parameters: Mapping[str, Sequence[Parameter]],
    takes: Mapping[tuple[str, str], Kind],
    gives: Mapping[tuple[str, tuple[str, ...]], Kind],
    seen: Mapping[str, Seen],
    embed: Embed,
) -> dict[tuple[str, str], Kind]:
    """For parameters whose name says nothing, what the field that means the same names."""
    open_ones = [
        one
        for each in parameters.values()
        for one in each
        if (one.tool, one.name) not in takes and can_name(one.schema)
    ]
    places = list(gives)
    if not open_ones or not places:
        return {}
    asked = [
        f"{' '.join(tokens_of(one.name))}: {one.schema.get('description', '')}" for one in open_ones
    ]
    told = [" ".join(tokens_of(f"{tool} {' '.join(place)}")) for tool, place in places]
    vectors = await embed([*asked, *told])
    found: dict[tuple[str, str], Kind] = {}
    for one, vector in zip(open_ones, vectors, strict=False):
        close = [
            (cosine(vector, other), place)
            for other, place in zip(vectors[len(asked) :], places, strict=True)
            if _takes(one, seen, place)
        ]
        best = max(close, default=(0.0, None), key=lambda item: item[0])
        if best[1] is not None and best[0] >= _MEANT:
            found[one.tool, one.name] = gives[best[1]]
    return found


def _takes(one: Parameter, seen: Mapping[str, Seen], place: tuple[str, tuple[str, ...]]) -> bool:
    leaves = _fields(seen[place[0]].results).get(place[1], ())
    return all(isinstance(leaf.value, JSON_TYPES[str(one.schema["type"])]) for leaf in leaves)

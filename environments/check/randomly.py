"""Random runs: a policy that knows nothing but the tools must earn next to nothing.

It is no fool: its arguments fit the schemas and are mostly real ones, drawn from the database, from
what earlier calls answered and from the schema's choices; its answer is something it has read.
"""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from environments.check.probes import resolved, sample
from environments.check.report import Finding, finding
from environments.check.runs import judged_as, side_by_side
from environments.environment import WAIT, Environment
from environments.episode import Episode
from environments.errors import AgentError
from environments.names import singular
from environments.replay import first_difference
from environments.spec import Task, ToolSpec

RUNS: Final = 50
STEPS: Final = 8
MOST: Final = 0.02
"""The mean reward that random runs of a task may have."""
_VALUES: Final = 60
_REPLAYED: Final = 8
_LOOKED_AT: Final = 5000
_LEAVES: Final = 400

Pools = Mapping[str, Sequence[Any]]
"""Values by the name of what they are values of."""


async def random_runs(
    environment: Environment, tasks: Sequence[Task], broken: frozenset[str] = frozenset()
) -> Finding:
    """50 seeded random runs from where the tasks begin; each is held against each of the tasks.
    Tools known to be ``broken`` are not called."""
    tools = [tool for tool in environment.tools.values() if tool.name not in {WAIT, *broken}]
    pools = known_values(environment)
    starts: dict[tuple[str, ...], list[Task]] = defaultdict(list)
    for task in tasks:
        starts[task.initial].append(task)
    every = [(alike, seed) for alike in starts.values() for seed in range(RUNS)]

    expected = {task.id: frozenset(_expected(task.verifier)) for task in tasks}

    async def earned(item: tuple[list[Task], int]) -> list[tuple[str, float | None]]:
        alike, seed = item
        episode = await Episode.start(environment, task=alike[0].id, seed=seed, horizon=STEPS)
        answer = await wander(episode, tools, pools)
        changed = frozenset(episode.changes(actor="agent").tables)
        return [
            (task.id, (await judged_as(environment, task, episode.attempt(task, answer))).value)
            for task in alike
            if changed & expected[task.id] or _looks_beyond_changes(task.verifier)
        ]

    sums: dict[str, float] = dict.fromkeys((task.id for task in tasks), 0.0)
    unset: list[str] = []
    for rewards in await side_by_side(every, earned):
        for task_id, value in rewards:
            sums[task_id] += value or 0.0
            if value is None and task_id not in unset:
                unset.append(task_id)
    problems = [
        f"task {task_id}: {RUNS} random runs score {total / RUNS:.3f} on average"
        for task_id, total in sums.items()
        if total / RUNS > MOST
    ]
    problems += [f"task {task_id}: a random run could not be scored" for task_id in unset]
    best = max(sums.values(), default=0.0) / RUNS
    note = f"{len(every)} runs, the best mean of a task is {best:.3f}"
    hard = not environment.pack.imported
    return finding("random runs score next to nothing", problems, note=note, hard=hard)


async def replays_at_random(environment: Environment, broken: frozenset[str]) -> Finding:
    """Random runs, each in a worker that served others before and in one of its own: for packs
    without oracles, whose code may keep things that are no rows."""
    tools = [tool for tool in environment.tools.values() if tool.name not in {WAIT, *broken}]
    pools = known_values(environment)

    async def differs(seed: int) -> str:
        played = []
        for place in (environment, environment.isolated()):
            episode = await Episode.start(place, seed=seed, horizon=STEPS)
            await wander(episode, tools, pools)
            played.append([msgspec.structs.replace(each, latency_ms=0.0) for each in episode.steps])
            await episode.close()
        if len(played[0]) != len(played[1]):
            return f"seed {seed}: {len(played[0])} steps, and {len(played[1])} in a fresh worker"
        for used, fresh in zip(*played, strict=True):
            if different := first_difference(msgspec.to_builtins(used), msgspec.to_builtins(fresh)):
                return f"seed {seed}: {used.tool} goes otherwise in a fresh worker: {different}"
        return ""

    problems = [each for each in await side_by_side(range(_REPLAYED), differs) if each]
    if problems:
        problems.insert(0, 'its code keeps something between calls: set isolation = "call"')
    return finding("replay is identical", problems, note=f"{_REPLAYED} random runs")


def _expected(verifier: Mapping[str, Any]) -> Iterator[str]:
    """The tables in which some way to pass expects changes. A run that made none in these is worth
    no more than doing nothing, which is a gate of its own."""
    yield from (str(entry["table"]) for entry in verifier.get("expect", ()))
    for group in [*verifier.get("all_of", ()), *verifier.get("any_of", ())]:
        yield from _expected(group)


def _looks_beyond_changes(verifier: Mapping[str, Any]) -> bool:
    """Whether other things count than the changes expected."""
    if {"answer", "trace", "probe", "state", "code", "judge"} & verifier.keys():
        return True
    groups = [*verifier.get("all_of", ()), *verifier.get("any_of", ())]
    return any(map(_looks_beyond_changes, groups))


async def wander(episode: Episode, tools: Sequence[ToolSpec], pools: Pools) -> str | None:
    """Call some of ``tools`` at random by the episode's seed; returns the answer to end with."""
    dice = random.Random(f"{episode.environment.name} {episode.seed}")
    seen: dict[str, list[Any]] = defaultdict(list)
    for _ in range(dice.randint(2, STEPS) if tools else 0):
        tool = dice.choice(tools)
        try:
            step = await episode.call(tool.name, arguments_for(tool, dice, pools, seen))
        except AgentError:
            break
        for name, value in list(_leaves(step.result))[:_LEAVES]:
            seen[name].append(value)
            seen[""].append(value)
    return str(dice.choice(seen[""])) if seen[""] and dice.random() < 0.8 else None


def arguments_for(tool: ToolSpec, dice: random.Random, pools: Pools, seen: Pools) -> dict[str, Any]:
    """Arguments that fit the tool's schema as far as a value can be found or made up."""
    schema = tool.input_schema
    required = schema.get("required", ())
    return {
        name: _value(name, part, schema, dice, (seen, pools))
        for name, part in schema.get("properties", {}).items()
        if name in required or dice.random() < 0.3
    }


def _value(
    name: str,
    part: Mapping[str, Any],
    root: Mapping[str, Any],
    dice: random.Random,
    pools: tuple[Pools, Pools],
) -> Any:
    part = resolved(part, root)
    if part.get("enum"):
        return dice.choice(part["enum"])
    kind = part.get("type")
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "array":
        return [_value(singular(name), part.get("items", {}), root, dice, pools)]
    if kind == "object":
        inner = part.get("properties", {})
        return {key: _value(key, value, root, dice, pools) for key, value in inner.items()}
    seen, known = pools
    fitting = [value for value in seen.get(name, ()) if _fits(value, part)]
    if not fitting or dice.random() < 0.3:
        fitting = [value for value in known.get(name, ()) if _fits(value, part)] or fitting
    if fitting and dice.random() < 0.9:
        return dice.choice(fitting)
    if kind == "integer":
        low = part.get("minimum", 0)
        return dice.randint(int(low), int(min(part.get("maximum", low + 20), low + 20)))
    made = {"type": "object", "properties": {name: part}, "required": [name], **_definitions(root)}
    return sample(made)[name]


def _definitions(root: Mapping[str, Any]) -> dict[str, Any]:
    return {"$defs": root["$defs"]} if "$defs" in root else {}


def _fits(value: Any, part: Mapping[str, Any]) -> bool:
    match part.get("type"):
        case "string":
            return isinstance(value, str)
        case "integer":
            low, high = part.get("minimum", value), part.get("maximum", value)
            return type(value) is int and low <= value <= high
        case "number":
            return type(value) in (int, float)
        case _:
            return value is not None


def known_values(environment: Environment, most: int | None = _VALUES) -> Pools:
    """Values of the database by column, and by ``<table's singular>_<key column>``; of each column
    about ``most`` from all over it, or all that there are."""
    looked_at = -1 if most is None else _LOOKED_AT
    pools: dict[str, list[Any]] = defaultdict(list)
    with closing(sqlite3.connect(environment.snapshot.uri, uri=True)) as connection:
        for table, info in environment.tables.items():
            for column in info.columns:
                quoted = [name.replace('"', '""') for name in (column, table)]
                values = [
                    value
                    for (value,) in connection.execute(
                        'SELECT DISTINCT "{}" FROM "{}" LIMIT {}'.format(*quoted, looked_at)
                    )
                    if value is not None and not isinstance(value, bytes)
                ]
                if most is not None:
                    values = values[:: len(values) // most + 1]
                pools[column] += values
                if (column,) == info.key:
                    pools[f"{singular(table)}_{column}"] += values
    return pools


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, singular(name))
    elif value is not None:
        yield name, value

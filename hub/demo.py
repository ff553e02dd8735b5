"""``envhub demo``: one group of episodes of one task, played by scripted policies over real MCP.

A hub is started on a free port in a process of its own; the official ``mcp`` client plays; rewards
come from the hub's REST API. Nothing is simulated.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import msgspec
from mcp import Client
from mcp.types import TextContent

from environments.catalogue import SHIPPED, Catalogue, Pack
from environments.errors import InfrastructureFault, PackInvalid
from environments.oracle import resolve_oracle
from environments.spec import Task

RANDOM_CALLS = 8


# --- policies --------------------------------------------------------------------------------


@dataclass(slots=True)
class Player:
    """What a policy has: the episode's tools, its task, what it has seen, and its own dice."""

    client: Client
    task: Task
    tools: dict[str, Any]
    read_only: frozenset[str]
    dice: random.Random
    results: list[Any] = field(default_factory=list)

    async def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Call a tool and remember what it answered, errors too."""
        result = await self.client.call_tool(tool, arguments)
        value: Any = result.structured_content
        if value is None and result.content and isinstance(result.content[0], TextContent):
            text = result.content[0].text
            with contextlib.suppress(json.JSONDecodeError):
                text = json.loads(text)
            value = text
        self.results.append(value)


Policy = Callable[[Player], Awaitable[str | None]]
"""Plays to its end and returns the final answer, if it gives one."""


async def oracle(player: Player) -> str | None:
    """The calls known to solve the task."""
    for call in player.task.oracle:
        await player.call(call.tool, resolve_oracle(call, player.results))
    return player.task.answer


async def nothing(player: Player) -> str | None:
    """Looks at nothing, touches nothing, says nothing."""
    return None


async def at_random(player: Player) -> str | None:
    """Any tool, any arguments that its schema takes."""
    for _ in range(RANDOM_CALLS):
        name = player.dice.choice(sorted(player.tools))
        schema = player.tools[name]
        await player.call(name, sample(schema, schema, player.dice, list(words(player.results))))
    return "done"


async def greedy_wrong(player: Player) -> str | None:
    """Looks where it should, acts on the first other thing of the kind, and calls it done."""
    for call in player.task.oracle:
        right = resolve_oracle(call, player.results)
        wrong = right
        if call.tool not in player.read_only:
            wrong = mistaken(right, list(words(player.results)))
        await player.call(call.tool, wrong)
        if wrong != right:
            break
    return player.task.answer


POLICIES: tuple[tuple[str, Policy], ...] = (
    ("oracle", oracle),
    ("nothing", nothing),
    ("random", at_random),
    ("greedy-wrong", greedy_wrong),
)


def words(values: Iterable[Any]) -> Iterator[str]:
    """Every text in JSON values, in the order one reads them."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from words(value.values())
        elif isinstance(value, list):
            yield from words(value)


def mistaken(arguments: dict[str, Any], seen: list[str]) -> dict[str, Any]:
    """The arguments with one of them wrong: another id of the same kind, else one more of it."""
    for name, value in arguments.items():
        kind = re.match(r"[A-Za-z]+-", value) if isinstance(value, str) else None
        others = [word for word in seen if kind and word.startswith(kind[0]) and word != value]
        if others:
            return {**arguments, name: others[0]}
    for name, value in arguments.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {**arguments, name: value + 1}
    return arguments


def sample(
    schema: dict[str, Any], root: dict[str, Any], dice: random.Random, seen: list[str]
) -> Any:
    """A random value that a JSON Schema of a tool's arguments takes."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return sample(root["$defs"][name], root, dice, seen)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if "anyOf" in schema:
        return sample(dice.choice(schema["anyOf"]), root, dice, seen)
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            properties = schema.get("properties", {}).items()
            return {
                name: sample(inner, root, dice, seen)
                for name, inner in properties
                if name in required or dice.random() < 0.3
            }
        case "array":
            return [sample(schema.get("items", {}), root, dice, seen)]
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            return dice.randint(int(low), int(min(schema.get("maximum", low + 20), low + 20)))
        case "boolean":
            return dice.random() < 0.5
        case "null":
            return None
    return dice.choice(seen or ["laptop", "open", "A-1"])


# --- the run ---------------------------------------------------------------------------------


class Played(msgspec.Struct, frozen=True):
    """What came of one episode."""

    policy: str
    episode: str
    reward: float | None
    reason: str
    steps: int
    changes: dict[str, Any]
    milliseconds: float

    @property
    def row_changes(self) -> int:
        kinds = ("added", "removed", "changed")
        return sum(len(table.get(kind, ())) for table in self.changes.values() for kind in kinds)


async def play_group(address: str, pack: Pack, task: Task) -> list[Played]:
    """Eight episodes of one task at once, two of each policy."""
    async with httpx2.AsyncClient(base_url=address, timeout=60) as rest:
        entries = [
            {"environment": pack.name, "task": task.id, "seed": 1} for _ in range(2 * len(POLICIES))
        ]
        created = (await _post(rest, "/v1/episodes/batch", {"episodes": entries}))["results"]
        tools = (await rest.get(f"/v1/environments/{pack.name}")).json()["tools"]
        read_only = frozenset(tool["name"] for tool in tools if tool["read_only"])
        played: list[Played | None] = [None] * len(entries)

        async def play(index: int) -> None:
            played[index] = await _play(
                rest, address, created[index]["episode"], index, task, read_only
            )

        async with anyio.create_task_group() as group:
            for index in range(len(entries)):
                group.start_soon(play, index)
        return [episode for episode in played if episode is not None]


async def _play(
    rest: httpx2.AsyncClient,
    address: str,
    episode: dict[str, Any],
    index: int,
    task: Task,
    read_only: frozenset[str],
) -> Played:
    name, policy = POLICIES[index // 2]
    started = time.perf_counter()
    async with Client(address + episode["mcp"]) as client:
        listed = (await client.list_tools()).tools
        tools = {tool.name: tool.input_schema for tool in listed}
        player = Player(client, task, tools, read_only, random.Random(index))
        answer = await policy(player)
    milliseconds = (time.perf_counter() - started) * 1000
    path = f"/v1/episodes/{episode['id']}"
    reward = (await _post(rest, f"{path}/score", {"answer": answer}))["reward"]
    changes = (await rest.get(f"{path}/changes", params={"actor": "agent"})).json()["changes"]
    return Played(
        policy=name,
        episode=episode["id"],
        reward=reward["value"],
        reason=reward.get("reason", ""),
        steps=len(player.results),
        changes=changes,
        milliseconds=milliseconds,
    )


async def _post(rest: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = await rest.post(path, json=body)
    if response.is_error:
        raise InfrastructureFault(f"the hub refused {path}: {response.text}")
    answer: dict[str, Any] = response.json()
    return answer


def choose(environment: str, task: str | None) -> tuple[Pack, Task]:
    """The pack and its task; by default the task with the longest oracle."""
    pack = Catalogue((SHIPPED,)).get(environment)
    if task is not None:
        return pack, pack.task(task)
    if not pack.tasks:
        raise PackInvalid(f"environment {environment} has no tasks")
    return pack, max(pack.tasks.values(), key=lambda entry: len(entry.oracle))

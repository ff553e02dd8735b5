"""Writing packs as Agent World Model's files, one line an environment in each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from environments.catalogue import Pack
from environments.environment import WAIT, Environment, Environments
from environments.errors import EnvhubError, FaultKind, PackInvalid
from environments.exporters.awm.code import COUNTERS, full_code
from environments.exporters.awm.tables import tables_of
from environments.exporters.awm.verifiers import pure_code
from environments.importers.awm.database import scripts_of
from environments.importers.awm.index import FILES
from environments.spec import Task, ToolSpec


class ExportRefused(EnvhubError):
    """A pack cannot be told in another format; the message says why."""

    code = "EXPORT_REFUSED"
    kind: FaultKind = "environment"


class Exported(msgspec.Struct, frozen=True):
    """What became of one pack."""

    name: str
    tools: int
    tasks: int
    left_out: tuple[str, ...]
    """What the format has no word for; each entry is one line for a person."""


Lines = dict[str, list[dict[str, Any]]]
"""Of each kind of file."""


async def export(environments: Environments, names: Sequence[str]) -> tuple[Lines, list[Exported]]:
    """The lines that tell the packs of these names, and what became of each.

    Raises ``ExportRefused`` naming the pack, and ``PackInvalid``.
    """
    lines: Lines = {kind: [] for kind in FILES if kind != "verifier"}
    told = []
    for name in names:
        environment = await environments.get(name)
        try:
            told.append(await _export(environment, lines))
        except PackInvalid as error:
            raise ExportRefused(f"{name}: {error.message}", hint=error.hint) from error
    return lines, told


def require_exportable(pack: Pack) -> None:
    """Raise ``PackInvalid`` for a kind of pack that cannot be told in AWM's files."""
    if pack.spec.environments or pack.spec.runtime not in ("native", "fastapi"):
        raise PackInvalid(
            f"{pack.name}: only packs with tools in Python over tables can be told in AWM's files",
            hint="export the environments that a world mounts, each by itself",
        )


def write(lines: Lines, into: Path) -> None:
    """Write the files into the folder ``into``, in place of those that are there."""
    into.mkdir(parents=True, exist_ok=True)
    for kind, rows in lines.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (into / FILES[kind]).write_text(text, encoding="utf-8")


async def _export(environment: Environment, lines: Mapping[str, list[dict[str, Any]]]) -> Exported:
    pack = environment.pack
    require_exportable(pack)
    left_out = ["its events: nothing happens by itself there"] if pack.events else []
    tables, samples = tables_of(environment.snapshot)
    if pack.spec.runtime == "native":
        tables.append({"name": "envhub_counters", "ddl": COUNTERS, "indexes": []})
    repairs = scripts_of(tables, samples, pack.spec.clock.start_ms).repairs
    if repairs:
        raise PackInvalid(f"its rows cannot be inserted one by one: {repairs[0]}")
    tasks: list[Task] = []
    verifiers: list[tuple[int, Task, str]] = []
    for task in pack.tasks.values():
        if why := _beyond(task, environment):
            left_out.append(f"task {task.id}: {why}")
            continue
        try:
            code = await pure_code(environment, task)
        except PackInvalid as error:
            left_out.append(f"the verifier of task {task.id}: {error.message}")
        else:
            verifiers.append((len(tasks), task, code))
        tasks.append(task)
    scenario = pack.name
    lines["scenario"].append({"name": scenario, "description": pack.policy or pack.spec.summary})
    lines["tasks"].append({"scenario": scenario, "tasks": [task.instruction for task in tasks]})
    lines["db"].append({"scenario": scenario, "db_schema": {"tables": tables}})
    lines["sample"].append({"scenario": scenario, "sample_data": {"tables": samples}})
    lines["spec"].append({"scenario": scenario, "api_spec": _specification(environment)})
    lines["envs"].append({"scenario": scenario, "full_code": full_code(pack)})
    lines["pure_code"] += [
        {
            "scenario": scenario,
            "task_idx": index,
            "task": task.instruction,
            "verification": {"code": code, "raw_response": ""},
        }
        for index, task, code in verifiers
    ]
    return Exported(scenario, len(_own_tools(environment)), len(tasks), tuple(left_out))


def _beyond(task: Task, environment: Environment) -> str:
    """What of a task the format has no word for."""
    if task.initial:
        return "it begins in a state of its own"
    if task.user is not None:
        return "a user is asked in it"
    waits = environment.pack.events and any(call.tool == WAIT for call in task.oracle)
    return "it waits for what happens by itself" if waits else ""


def _own_tools(environment: Environment) -> list[ToolSpec]:
    """Those that its code declares."""
    waits = environment.pack.events
    return [tool for name, tool in environment.tools.items() if not (waits and name == WAIT)]


def _specification(environment: Environment) -> dict[str, Any]:
    examples = _examples(environment.pack.tasks.values())
    endpoints = [_endpoint(tool, examples.get(tool.name, {})) for tool in _own_tools(environment)]
    return {"api_groups": [{"group_name": environment.name, "endpoints": endpoints}]}


def _endpoint(tool: ToolSpec, example: Mapping[str, Any]) -> dict[str, Any]:
    required = tool.input_schema.get("required", ())
    place = "query" if tool.read_only else "body"
    return {
        "path": f"/tools/{tool.name}",
        "method": "GET" if tool.read_only else "POST",
        "summary": tool.title,
        "description": tool.description,
        "operation_id": tool.name,
        "request_params": {
            name: {
                "type": about.get("type", "string"),
                "param_type": place,
                "required": name in required,
                "description": about.get("description", ""),
                "example": example.get(name),
            }
            for name, about in tool.input_schema.get("properties", {}).items()
        },
        "response": {},
        "required_tables": [],
    }


def _examples(tasks: Iterable[Task]) -> dict[str, Mapping[str, Any]]:
    """Arguments that oracles give, by tool; those that refer to earlier results are no examples."""
    found: dict[str, Mapping[str, Any]] = {}
    for task in tasks:
        for call in task.oracle:
            if not any(str(value).startswith("${") for value in call.arguments.values()):
                found.setdefault(call.tool, call.arguments)
    return found

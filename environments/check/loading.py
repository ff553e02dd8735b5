"""From a folder to an environment that can be played, noting at which stage it fails."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import jsonschema_rs
import msgspec

from environments.assertions import Assertions, TableInfo
from environments.catalogue import SHIPPED, Catalogue, Pack, load_pack, with_files_named
from environments.check.report import Finding, finding
from environments.environment import Environment, Environments
from environments.errors import EnvhubError, EnvironmentFault, PackInvalid
from environments.sandbox.host import Description, Sandbox
from environments.spec import Task, ToolSpec
from environments.verifier import read_plan
from environments.verifier.judge import Judge
from snapshots import Snapshot, SnapshotsError, SnapshotStore

_FORBIDDEN_AT_ROOT = ("oneOf", "anyOf", "allOf", "$ref")


async def load(
    path: Path,
    store: SnapshotStore,
    sandbox: Sandbox,
    findings: list[Finding],
    judge: Judge | None = None,
) -> Environment | None:
    """The environment of the pack at ``path``, its tasks those whose verifiers parse; ``None``
    where it cannot be read, built or loaded. Adds a finding for each stage tried.

    Without a ``judge`` tasks are tried by the rest of their verifiers, and left out if none is.
    """
    try:
        pack = load_pack(path)
    except PackInvalid as error:
        findings.append(finding("files are read", [str(error)]))
        return None
    note = f"{len(pack.tasks)} tasks, {len(pack.events)} events"
    findings.append(finding("files are read", [], note=note))
    if pack.spec.environments:
        return await _mount(path, Environments(_around(path), store, sandbox, judge), findings)
    snapshot = await _build(pack, store, sandbox, findings)
    if snapshot is None:
        return None
    try:
        description = await sandbox.describe(pack, snapshot)
    except EnvironmentFault as error:
        findings.append(finding("tools load", [str(error)]))
        return None
    none = [] if description.tools else ["tools.py declares no tool"]
    findings.append(finding("tools load", none, note=f"{len(description.tools)} tools"))
    broken = [problem for tool in description.tools for problem in schema_problems(tool)]
    findings.append(finding("tool schemas are valid", broken))
    if broken:
        return None
    tasks = _parsed(pack, description, findings)
    if judge is None:
        tasks = _judgeless(tasks, description, findings)
    sound = replace(pack, tasks=MappingProxyType(tasks))
    try:
        return Environment(sound, snapshot, description, sandbox, judge)
    except EnvhubError as error:
        findings.append(finding("environment opens", [str(error)]))
        return None


def _around(path: Path) -> Catalogue:
    """The packs that a world in folder ``path`` may mount: those beside it, and the shipped."""
    return Catalogue((path.resolve().parent, SHIPPED))


async def _mount(
    path: Path, environments: Environments, findings: list[Finding]
) -> Environment | None:
    """The world at ``path``. What it mounts is checked as packs of their own."""
    try:
        world = await environments.get(load_pack(path).name)
    except EnvhubError as error:
        findings.append(finding("environment opens", [str(error)]))
        return None
    note = f"{len(world.tools)} tools of {', '.join(world.pack.spec.environments)}"
    findings.append(finding("environments are mounted", [], note=note))
    return world


async def _build(
    pack: Pack, store: SnapshotStore, sandbox: Sandbox, findings: list[Finding]
) -> Snapshot | None:
    recipe = pack.recipe()
    with tempfile.TemporaryDirectory(dir=store.root, prefix="check-") as folder:
        try:
            file = Path(folder) / "snapshot.sqlite"
            await sandbox.build(pack, recipe, file)
            snapshot = store.admit(recipe.digest, file, foreign_keys=pack.spec.foreign_keys)
        except (EnvironmentFault, SnapshotsError) as error:
            findings.append(finding("schema and data are valid", [with_files_named(str(error))]))
            return None
    rows = sum(len(table.rows) for table in recipe.rows)
    note = f"{snapshot.size_bytes // 1024} KiB" + (f", {rows} rows in data files" if rows else "")
    findings.append(finding("schema and data are valid", [], note=note))
    return snapshot


def _parsed(pack: Pack, description: Description, findings: list[Finding]) -> dict[str, Task]:
    tools = {tool.name: tool for tool in description.tools}
    sound, problems = {}, []
    for task in pack.tasks.values():
        try:
            Assertions.parse(task.verifier, description.tables, tools)
            read_plan(task, pack)
        except PackInvalid as error:
            problems.append(f"task {task.id}: {error}")
        else:
            sound[task.id] = task
    problems.extend(_ignored_typos(pack, description.tables))
    findings.append(finding("verifiers parse", problems, note=f"{len(sound)} verifiers"))
    return sound


def _judgeless(
    tasks: Mapping[str, Task], description: Description, findings: list[Finding]
) -> dict[str, Task]:
    """The tasks without their judge; those that are nothing without one are left out and noted."""
    kept, left_out = {}, []
    for task in tasks.values():
        if "judge" in task.verifier:
            rest = {word: part for word, part in task.verifier.items() if word != "judge"}
            task = msgspec.structs.replace(task, verifier=rest)
            try:
                Assertions.parse(rest, description.tables)
                read_plan(task)
            except PackInvalid:
                left_out.append(f"task {task.id} is decided by a judge alone, and none is set")
                continue
        kept[task.id] = task
    if left_out:
        findings.append(finding("tasks need no judge", left_out, hard=False))
    return kept


def _ignored_typos(pack: Pack, tables: Mapping[str, TableInfo]) -> Iterator[str]:
    """Names in ``[changes]`` that no table or column has: they would ignore nothing."""
    ignored = pack.spec.changes
    for table in (*ignored.ignore_tables, *ignored.ignore_columns):
        if table not in tables:
            yield f"environment.toml: changes names an unknown table {table!r}"
    for table, columns in ignored.ignore_columns.items():
        for column in columns:
            if table in tables and column not in tables[table].columns:
                yield f"environment.toml: changes names an unknown column {table}.{column}"


def schema_problems(tool: ToolSpec) -> Iterator[str]:
    """Why clients would refuse the tool's input schema: not a plain object, or no schema at all."""
    schema = tool.input_schema
    if schema.get("type") != "object":
        yield f"tool {tool.name}: the root of its input schema is not an object"
    for key in _FORBIDDEN_AT_ROOT:
        if key in schema:
            yield f"tool {tool.name}: its input schema has {key} at the root"
    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        yield f"tool {tool.name}: its input schema is not valid: {error}"

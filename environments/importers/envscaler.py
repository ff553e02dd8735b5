"""EnvScaler: classes whose attributes are the state, scenarios with checklists of functions.

A class is a pack with ``runtime = "state"`` and its code as it is; a scenario is a task that begins
with its own document and is judged by its own checklist.
"""

from __future__ import annotations

import ast
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import msgspec

from environments.documents import Binding, BoundTool, from_text
from environments.environment import Environment
from environments.episode import Episode
from environments.importers.documented import Documented
from environments.importers.manifest import licence_of, summary_of, write_manifest
from environments.importers.naming import pack_name
from environments.importers.readonly import Looks
from environments.importers.source import ImportRefused, Written
from environments.importers.stretches import Stretch, holds, stretches
from environments.importers.trial import LONG, opens, try_out
from environments.names import tool_name
from environments.runtimes.source import SOURCE
from environments.spec import EnvironmentSpec, Limits, Task

_CLASS: Final = b'"env_class_code"'
_CHECKS: Final = b'"checklist_with_func"'
_LARGE: Final = 8 << 20
_BEGIN: Final = "envhub_begin"
_BEGINNING: Final = '''


from environments.authoring import tool as _envhub_tool
from environments.documents import to_text as _envhub_text
from environments.runtimes.likeness import shared as _envhub_shared


@_envhub_tool(read_only=True)
def envhub_begin(config: dict) -> str:
    """The attributes of an instance that begins with this configuration."""
    import copy

    config = copy.deepcopy(config)
    try:
        instance = OF_CLASS(config)
    except TypeError:
        instance = OF_CLASS()
    for name, value in config.items():
        setattr(instance, name, value)
    kept = {
        name: value
        for name, value in vars(instance).items()
        if not (name.startswith("__") and name.endswith("__"))
    }
    return _envhub_text([kept, _envhub_shared(kept)])
'''
"""What is added to the code to see how it begins, in the sandbox and never in the pack."""


class EnvScalerSource(msgspec.Struct, frozen=True):
    """One environment, and the scenarios that are played in it."""

    name: str
    environment: Stretch
    scenarios: tuple[Stretch, ...]

    @property
    def digest(self) -> str:
        total = hashlib.sha256()
        for each in (self.environment, *self.scenarios):
            total.update(each.read() + b"\0")
        return total.hexdigest()

    def write(self, folder: Path) -> Written:
        """See ``Source.write``."""
        item = _object(self.environment)
        code, of_class = str(item.get("env_class_code", "")), str(item.get("env_class_name", ""))
        tree = _parsed(code, of_class)
        tools, lost = _tools(item, tree)
        scenarios = [_object(each) for each in self.scenarios]
        started = _started(code, of_class, scenarios)
        documents = [begun.document for begun in started if not begun.problem]
        weaknesses = [
            f"task {_task_id(scenario)} is left out: {begun.problem}"
            for scenario, begun in zip(scenarios, started, strict=False)
            if begun.problem
        ]
        if not documents:
            raise ImportRefused(f"it begins with no configuration: {started[-1].problem}")
        if any(begun.shared for begun in started):
            weaknesses.append("it begins with entries that are one object in two places: here, two")
        pack = Documented(
            spec=self._spec(item),
            source=code,
            binding=Binding(of_class=of_class, tools=tools),
            policy=_policy(item),
        ).bound_to(documents)
        tasks = [
            _task(pack, scenario, begun.document)
            for scenario, begun in zip(scenarios, started, strict=False)
            if not begun.problem
        ]
        pack = msgspec.structs.replace(pack, tasks=tuple(tasks))
        pack.write(folder)
        try_out(folder, opens)
        repairs = [f"tool {t.function} is called {t.name}" for t in tools if t.function != t.name]
        unjudged = sum(not task.verifier.get("code", {}).get("checks") for task in tasks)
        if unjudged:
            weaknesses.append(f"{unjudged} tasks have no check: a judge decides")
        if not tasks:
            weaknesses.append("there are no tasks for it")
        return Written(tuple(repairs), (*lost, *weaknesses))

    def _spec(self, item: Mapping[str, Any]) -> EnvironmentSpec:
        summary = str(item.get("environment_summary") or f"{self.name}, from EnvScaler.")
        file = self.environment.file
        return EnvironmentSpec(
            name=self.name,
            version="1.0.0",
            title=str(item.get("env_class_name") or self.name),
            summary=summary_of(summary),
            tags=("envscaler",),
            licence=licence_of(file.parent),
            provenance=f"EnvScaler: {item.get('env_id') or self.name}, {file.name}",
            runtime="state",
            on_error="keep",
            limits=Limits(max_steps=50),
        )


def sources(path: Path) -> Iterator[EnvScalerSource]:
    """The environments in the files of JSON at ``path``, a file or a folder: those with classes,
    and those with scenarios, by ``env_id``."""
    files = [path] if path.is_file() else sorted(path.rglob("*.json*")) if path.is_dir() else []
    environments: dict[str, Stretch] = {}
    scenarios: dict[str, list[Stretch]] = {}
    for file in files:
        is_class, is_task = holds(file, _CLASS), holds(file, _CHECKS)
        for key, at in stretches(file) if is_class or is_task else ():
            item = at.value()
            if not isinstance(item, dict):
                continue
            env_id = str(item.get("env_id") or key)
            if "env_class_code" in item:
                environments.setdefault(env_id, at)
            if "checklist_with_func" in item:
                scenarios.setdefault(env_id, []).append(at)
    if not environments:
        raise ImportRefused(
            f"{path} has no environments of EnvScaler",
            hint='point at its files of JSON: one has "env_class_code", one the scenarios',
        )
    for env_id, at in environments.items():
        yield EnvScalerSource(pack_name(env_id), at, tuple(scenarios.get(env_id, ())))


class Begun(msgspec.Struct, frozen=True):
    """What a scenario begins with, or why it does not."""

    document: Any = None
    problem: str = ""
    shared: bool = False
    """Whether parts of it are the same object."""


def _started(code: str, of_class: str, scenarios: Sequence[Mapping[str, Any]]) -> list[Begun]:
    """How each scenario begins; without any, how one without a configuration does."""
    configs = [dict(scenario.get("init_config") or {}) for scenario in scenarios] or [{}]

    async def begin(environment: Environment) -> list[Begun]:
        found: list[Begun] = []
        episode = await Episode.start(environment, horizon=LONG)
        for config in configs:
            step = await episode.call(_BEGIN, {"config": config})
            if step.error is not None:
                found.append(Begun(problem=" ".join(step.error.message.split())[:300]))
            else:
                document, shared = from_text(step.result)
                found.append(Begun(document=document, shared=bool(shared)))
        await episode.close()
        return found

    with tempfile.TemporaryDirectory() as place:
        trial = Path(place) / "trial"
        trial.mkdir()
        limits = Limits(result_bytes=_LARGE)
        spec = EnvironmentSpec(
            name=trial.name, version="1.0.0", title="Trial", summary="Trial", limits=limits
        )
        write_manifest(trial, spec)
        (trial / "schema.sql").write_text("CREATE TABLE empty (id INTEGER PRIMARY KEY);\n")
        added = _BEGINNING.replace("OF_CLASS", of_class)
        (trial / SOURCE).write_text(code + added, encoding="utf-8")
        return try_out(trial, begin)


# --- what is in them ----------------------------------------------------------------------------


def _object(at: Stretch) -> dict[str, Any]:
    found = at.value()
    if not isinstance(found, dict):
        raise ImportRefused(f"{at.file.name}: an entry is no object")
    return found


def _parsed(code: str, of_class: str) -> ast.Module:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise ImportRefused(f"{of_class}:{error.lineno}: {error.msg}") from error
    if not any(isinstance(node, ast.ClassDef) and node.name == of_class for node in tree.body):
        raise ImportRefused(f"its code has no class {of_class!r}")
    return tree


def _tools(item: Mapping[str, Any], tree: ast.Module) -> tuple[tuple[BoundTool, ...], list[str]]:
    """The methods that are tools, and those that are told and are not there."""
    of_class = item["env_class_name"]
    methods = {
        node.name
        for held in tree.body
        if isinstance(held, ast.ClassDef) and held.name == of_class
        for node in held.body
        if isinstance(node, ast.FunctionDef)
    }
    writing = {
        operation.get("operation_name")
        for operation in item.get("operation_list") or ()
        if isinstance(operation, dict) and operation.get("operation_type") != "query"
    }
    looks = Looks(tree)
    found, lost = [], []
    for each in item.get("tools") or ():
        told = each.get("function", each) if isinstance(each, dict) else {}
        name = str(told.get("name", ""))
        if name not in methods:
            lost.append(f"tool {name!r} is left out: {of_class} has no such method")
            continue
        found.append(
            BoundTool(
                name=tool_name(name),
                function=name,
                read_only=name not in writing and looks.only(name),
                description=str(told.get("description") or ""),
                input_schema=_schema(told.get("parameters")),
            )
        )
    if not found:
        raise ImportRefused(f"{of_class} has none of the tools it is said to have")
    return tuple(found), lost


def _schema(parameters: Any) -> dict[str, Any] | None:
    """The schema that is told, if it is one that clients take."""
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        return None
    if {"oneOf", "anyOf", "allOf", "$ref"} & parameters.keys():
        return None
    try:
        jsonschema_rs.validator_for(parameters)
    except (jsonschema_rs.ValidationError, ValueError):
        return None
    return {"properties": {}, **parameters}


def _policy(item: Mapping[str, Any]) -> str:
    rules = item.get("constraints_rules")
    listed = "\n".join(f"- {rule}" for rule in rules) if isinstance(rules, list) else ""
    return "\n\n".join(filter(None, (str(item.get("environment_introduction") or ""), listed)))


def _task_id(scenario: Mapping[str, Any]) -> str:
    told = str(scenario.get("task_id") or "")
    config = repr(scenario.get("init_config"))
    return told or hashlib.sha256(f"{scenario.get('task')}{config}".encode()).hexdigest()[:12]


def _task(pack: Documented, scenario: Mapping[str, Any], document: Any) -> Task:
    checks = [
        {"item": str(check.get("check_item", "")), "code": check["check_func"]}
        for check in scenario.get("checklist_with_func") or ()
        if isinstance(check, dict) and isinstance(check.get("check_func"), str)
    ]
    asked = str(scenario.get("task") or "")
    code = {"kind": "envscaler", "checks": checks, "raising": "fails"}
    return Task(
        id=_task_id(scenario),
        instruction=asked,
        verifier={"code": code, "reward": "fraction"} if checks else {"judge": {"rubric": asked}},
        initial=pack.initial(document),
    )

"""Stages ``specification`` and ``tools``: which tools there are to be, then their code, loaded and
tried in the confined guest."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from environments.authoring import TOOL_NAME
from environments.check.loading import schema_problems
from environments.check.probing import judge, probe
from environments.environment import Environment
from environments.errors import EnvironmentFault, PackInvalid
from environments.spec import Spec
from environments.synthesis.mending import Job, pretty
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.scenario import MEMBER_CHARACTERS
from environments.synthesis.stages.shapes import Specification, Text
from environments.synthesis.stages.stage import Bench, Product, Stage

LONGEST_PREFIX: Final = MEMBER_CHARACTERS + 2
"""Of a tool's name in a world: its environment's name and two underscores."""
_THERE: Final = "import the standard library, pydantic and environments.authoring only"
_IMPORTED: Final = frozenset({"pydantic", "environments"})


class Code(Spec, frozen=True, kw_only=True):
    code: Text
    """The whole of tools.py."""


# --- what there is to be ---------------------------------------------------------------------


async def specify(bench: Bench) -> Product:
    question = prompt(
        "specification",
        title=bench.scenario.title,
        summary=bench.scenario.summary,
        tasks=bench.made["tasks.json"].decode(),
        schema=bench.made["schema.sql"].decode(),
        least=bench.wanted.least_tools,
    )

    async def prove(made: Specification) -> Sequence[str]:
        return list(_unfit(made, bench.wanted.least_tools))

    made, repairs = await bench.make(Job(Specification, question, prove, pretty))
    return Product(pretty(made).encode(), repairs)


def _unfit(made: Specification, least: int) -> Iterator[str]:
    names = [tool.name for tool in made.tools]
    longest = 40 - LONGEST_PREFIX
    for tool in made.tools:
        if not TOOL_NAME.fullmatch(tool.name) or not tool.name.isidentifier():
            yield f"{tool.name!r} is no name of a tool: a-z 0-9 _"
        if len(tool.name) > longest:
            yield f"{tool.name} is longer than {longest} characters"
        for name in tool.parameters:
            if not name.isidentifier():
                yield f"{tool.name}: {name!r} is no name of a parameter"
        if not tool.read_only and not tool.errors:
            yield f"{tool.name} changes records and never refuses: say which errors it answers with"
    yield from (
        f"two tools are called {name}" for name in sorted({*names}) if names.count(name) > 1
    )
    if len(names) < least:
        yield f"there are {len(names)} tools; at least {least}"
    for kind in (True, False):
        if not any(tool.read_only is kind for tool in made.tools):
            yield f"no tool {'reads' if kind else 'changes'} anything"


# --- what they are ---------------------------------------------------------------------------


async def write(bench: Bench) -> Product:
    question = prompt(
        "tools",
        title=bench.scenario.title,
        schema=bench.made["schema.sql"].decode(),
        specification=bench.made["specification.json"].decode(),
    )
    job = Job(Code, question, lambda made: tool_problems(bench, made.code), lambda made: made.code)
    made, repairs = await bench.make(job)
    return Product(f"{made.code.strip()}\n".encode(), repairs)


async def tool_problems(bench: Bench, code: str) -> Sequence[str]:
    """What is wrong with the code: it does not load, is not what was specified, or a tool crashes,
    writes where it should read, or leaves something behind where it refuses."""
    if problems := list(_unsound(code)):
        return problems
    planned = bench.read("specification.json", Specification)
    try:
        environment = await bench.workshop.opened(replace(bench.draft, tools=code))
        if problems := list(_otherwise(planned, environment)):
            return problems
        found = judge(environment, await probe(environment, []))
    except (PackInvalid, EnvironmentFault) as error:
        return [str(error)]
    return [
        f"{one.name}: {line}" for one in found if not one.passed for line in one.detail.splitlines()
    ]


def _unsound(code: str) -> Iterator[str]:
    """What is plain from the text. It is no defence: the guest is; but it tells more."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield f"tools.py is no Python: {error}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            root = name.split(".")[0]
            if root not in _IMPORTED and root not in sys.stdlib_module_names:
                yield f"line {node.lineno}: there is no {name}; {_THERE}"


def _otherwise(planned: Specification, environment: Environment) -> Iterator[str]:
    """Where the tools are not those of the specification."""
    for plan in planned.tools:
        tool = environment.tools.get(plan.name)
        if tool is None:
            yield f"the tool {plan.name} of the specification is missing"
            continue
        if tool.read_only is not plan.read_only:
            yield f"{plan.name} is declared read_only={tool.read_only}, specified {plan.read_only}"
        parameters = {*tool.input_schema.get("properties", {})}
        if parameters != {*plan.parameters}:
            there, wanted = ", ".join(sorted(parameters)), ", ".join(sorted(plan.parameters))
            yield f"{plan.name} takes ({there}), specified is ({wanted})"
        yield from schema_problems(tool)
    for name in environment.tools.keys() - {plan.name for plan in planned.tools}:
        yield f"the tool {name} is not in the specification"


SPECIFICATION: Final = Stage("specification", "specification.json", specify)
TOOLS: Final = Stage("tools", "tools.py", write)

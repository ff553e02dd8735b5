"""The pack tried out: which tools only look, and which rows are tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import BadResult
from environments.importers.documented import Documented
from environments.importers.envfactory.loaded import Loaded
from environments.importers.envfactory.rows import Row
from environments.importers.gold import UNJUDGED, Gold, judged
from environments.importers.trial import LONG, try_out
from environments.spec import OracleCall, Task


def without_writers(
    pack: Documented, folder: Path, tried: Sequence[tuple[str, Mapping[str, Any]]]
) -> Documented:
    """The pack, its tools declared read-only only where calling them wrote nothing."""
    names = _names(pack)

    async def writers(environment: Environment) -> set[str]:
        episode = await Episode.start(environment, horizon=LONG)
        found = set()
        for function, arguments in tried:
            tool = names.get(function, "")
            if tool and environment.tools[tool].read_only:
                step = await episode.call(tool, arguments)
                if step.error is not None and step.error.code == BadResult.code:
                    found.add(tool)
        await episode.close()
        return found

    pack.write(folder)
    wrong = try_out(folder, writers)
    tools = tuple(
        msgspec.structs.replace(bound, read_only=bound.read_only and bound.name not in wrong)
        for bound in pack.binding.tools
    )
    binding = msgspec.structs.replace(pack.binding, tools=tools)
    return msgspec.structs.replace(pack, binding=binding)


def with_tasks(
    pack: Documented, folder: Path, rows: Mapping[str, Row], loaded: Loaded
) -> tuple[Documented, list[str]]:
    """The pack with a task for each row whose calls lead where it says; and why others do not."""
    golds, left_out = [], []
    names = _names(pack)
    for name, row in rows.items():
        documents = loaded.rows[name]
        unknown = [function for function, _ in row.calls if function not in names]
        if isinstance(documents, str):
            left_out.append(f"task {name} is left out: {documents}")
        elif unknown or not row.calls:
            which = f"no tool is called {unknown[0]}" if unknown else "it has no calls"
            left_out.append(f"task {name} is left out: {which}")
        else:
            calls = tuple(OracleCall(tool=names[f], arguments=a) for f, a in row.calls)
            task = Task(
                id=name,
                instruction=row.said,
                verifier=UNJUDGED,
                oracle=calls,
                initial=pack.initial(documents[0]),
                difficulty="easy" if len(calls) < 3 else "medium" if len(calls) < 6 else "hard",
                split=row.split,
            )
            golds.append(Gold(task=task, document=documents[0], final=documents[1]))
    if not golds:
        return pack, left_out
    msgspec.structs.replace(pack, tasks=tuple(gold.task for gold in golds)).write(folder)
    told = try_out(folder, lambda trial: judged(trial, pack.binding.layout, golds))
    tasks = []
    for gold, found in zip(golds, told, strict=True):
        if isinstance(found, str):
            left_out.append(f"task {gold.task.id} is left out: {found}")
        else:
            tasks.append(found)
    return msgspec.structs.replace(pack, tasks=tuple(tasks)), left_out


def _names(pack: Documented) -> dict[str, str]:
    """What the tools are called, by what the code calls them."""
    return {bound.function: bound.name for bound in pack.binding.tools}


def calls_of(rows: Mapping[str, Row]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for row in rows.values():
        yield from row.calls

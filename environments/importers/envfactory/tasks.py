"""The pack tried out: which tools only look, and which rows are tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from environments.documents import Binding
from environments.environment import Environment
from environments.episode import Episode
from environments.errors import BadResult
from environments.importers.documented import Documented
from environments.importers.envfactory.loaded import Ends
from environments.importers.envfactory.rows import Row
from environments.importers.gold import UNJUDGED, Gold
from environments.importers.trial import LONG, try_out
from environments.spec import OracleCall, Task


def without_writers(
    pack: Documented, folder: Path, tried: Sequence[tuple[str, Mapping[str, Any]]]
) -> Documented:
    """The pack, its tools declared read-only only where calling them wrote nothing."""
    names = functions_of(pack.binding)

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


def golds_of(
    rows: Mapping[str, Row],
    ends: Mapping[str, Mapping[str, Ends]],
    names: Mapping[tuple[str, str], str],
    initial: Callable[[Mapping[str, Any]], tuple[str, ...]],
) -> tuple[list[Gold], list[str]]:
    """A task for each row whose calls can be made; and why others are none.

    ``ends`` has what became of the documents of rows by pack; ``names`` what tools are called, by
    server and function; ``initial`` makes statements of the documents a task begins with, by pack.
    """
    golds, left_out = [], []
    for name, row in rows.items():
        of_packs = {pack: found[name] for pack, found in ends.items()}
        problems = [found for found in of_packs.values() if isinstance(found, str)]
        problems += [
            f"no tool is called {function}"
            for server, function, _ in row.calls
            if (server, function) not in names
        ]
        if not row.calls:
            problems.append("it has no calls")
        if problems:
            left_out.append(f"task {name} is left out: {problems[0]}")
            continue
        calls = tuple(OracleCall(tool=names[s, f], arguments=a) for s, f, a in row.calls)
        documents = {pack: found[0] for pack, found in of_packs.items()}
        task = Task(
            id=name,
            instruction=row.said,
            verifier=UNJUDGED,
            oracle=calls,
            initial=initial(documents),
            difficulty="easy" if len(calls) < 3 else "medium" if len(calls) < 6 else "hard",
            split=row.split,
        )
        finals = {pack: found[1] for pack, found in of_packs.items()}
        golds.append(Gold(task=task, documents=documents, finals=finals))
    return golds, left_out


def functions_of(binding: Binding) -> dict[str, str]:
    """What the tools are called, by what the code calls them."""
    return {bound.function: bound.name for bound in binding.tools}


def calls_of(rows: Mapping[str, Row], server: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The calls that rows make of one server: function and arguments."""
    for row in rows.values():
        for called, function, arguments in row.calls:
            if called == server:
                yield function, arguments

"""Scenarios and rows as the documents they are once the original's code has loaded them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.importers.documented import Documented
from environments.importers.envfactory.code import LOAD, SAVE, Code
from environments.importers.trial import LONG
from environments.spec import Clock, EnvironmentSpec, Limits

CLOCK: Final = "current_time"
"""A field that many classes were given after their scenarios had been written."""
_LARGE: Final = 4 << 20
"""What a scenario may take in JSON."""
_SETTLES: Final = 4
"""How often a document is loaded and saved to see it settle."""


Ends = tuple[Any, Any] | str
"""The documents that a row begins and ends with, or why it has none."""


class Loaded(msgspec.Struct, frozen=True):
    """What became of scenarios and rows once they were loaded."""

    documents: list[Any]
    """Those there are, of scenarios first."""
    problems: list[str]
    """Why a scenario did not load, or nothing, one for each."""
    empty: bool = False
    """Whether none did, and the document is that of an empty one."""
    repaired: bool = False
    """Whether some had to be told what time it is."""
    rows: Mapping[str, Ends] = msgspec.field(default_factory=dict)
    """What became of the documents of each row."""


def write_loadable(folder: Path, spec: EnvironmentSpec, source: str, code: Code) -> None:
    """Write a pack of that code which loads and saves what it is given."""
    large = msgspec.structs.replace(spec, limits=Limits(result_bytes=_LARGE))
    Documented(spec=large, source=source, binding=code.binding(with_state=True)).write(folder)


async def load_all(
    environment: Environment, scenarios: Sequence[Any], rows: Mapping[str, tuple[Any, Any]]
) -> Loaded:
    documents, problems = [], []
    repaired = False
    for scenario in scenarios:
        document, problem = await _loaded(environment, scenario)
        if CLOCK in problem and CLOCK not in scenario:
            document, problem = await _loaded(environment, {**scenario, CLOCK: start()})
            repaired = repaired or not problem
        problems.append(problem)
        if not problem:
            documents.append(document)
    of_rows = await load_rows(environment, rows)
    for ends in of_rows.values():
        if not isinstance(ends, str):
            documents += [document for document in ends if document is not None]
    empty = not documents
    if empty:
        saved = await _saved(environment)
        for each in ({}, saved, {**saved, CLOCK: start()}):
            document, problem = await _loaded(environment, each)
            if not problem:
                documents = [document]
                break
            problems.append(problem)
    return Loaded(documents, problems, empty=empty, repaired=repaired, rows=of_rows)


async def load_rows(
    environment: Environment, rows: Mapping[str, tuple[Any, Any]]
) -> dict[str, Ends]:
    """What the documents of rows are once they were loaded: that of the beginning, and that of the
    end if there is one."""
    found: dict[str, Ends] = {}
    for name, (initial, final) in rows.items():
        begun, problem = await _loaded(environment, initial)
        ended = None
        if not problem and final is not None:
            ended, problem = await _loaded(environment, final)
        found[name] = problem or (begun, ended)
    return found


async def _saved(environment: Environment) -> dict[str, Any]:
    """What an instance saves that never loaded anything."""
    episode = await Episode.start(environment, horizon=LONG)
    step = await episode.call(SAVE, {})
    await episode.close()
    return step.result if isinstance(step.result, dict) else {}


def start() -> str:
    """When packs begin, as these documents write it."""
    return Clock().start.strftime("%Y-%m-%dT%H:%M:%S")


async def _loaded(environment: Environment, scenario: Any) -> tuple[Any, str]:
    """The document that a scenario is once it was loaded, or why it cannot be.

    Loaded again it is the same: defaults are in it, and numbers are of the type they are read as.
    """
    document = scenario
    for _ in range(_SETTLES):
        episode = await Episode.start(environment, horizon=LONG)
        step = await episode.call(LOAD, {"scenario": document})
        if step.error is None:
            step = await episode.call(SAVE, {})
        await episode.close()
        if step.error is not None:
            return None, " ".join(step.error.message.split())[:300]
        if json.dumps(step.result) == json.dumps(document):
            break
        document = step.result
    return document, ""

"""Scenarios and rows as the documents they are once the original's code has loaded them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.importers.envfactory.code import LOAD, SAVE
from environments.importers.envfactory.rows import Row
from environments.importers.trial import LONG
from environments.spec import Clock

CLOCK: Final = "current_time"
"""A field that many classes were given after their scenarios had been written."""
_SETTLES: Final = 4
"""How often a document is loaded and saved to see it settle."""


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
    rows: dict[str, tuple[Any, Any] | str] = msgspec.field(default_factory=dict)
    """Of each row the documents it begins and ends with, or why it has none."""


async def load_all(
    environment: Environment, scenarios: Sequence[Any], rows: Mapping[str, Row]
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
    of_rows: dict[str, tuple[Any, Any] | str] = {}
    for name, row in rows.items():
        initial, problem = await _loaded(environment, row.initial)
        final = None
        if not problem and row.final is not None:
            final, problem = await _loaded(environment, row.final)
        of_rows[name] = problem or (initial, final)
        if not problem:
            documents += [initial] if final is None else [initial, final]
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

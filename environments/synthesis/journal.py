"""The record of a run of synthesis: one line for each environment that was tried.

``record.jsonl`` in the folder of the run. What a report is made of; it does not matter to it how
the environment was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from environments.errors import AgentError
from environments.synthesis.makeup import Makeup
from environments.trajectory import Record
from environments.whole import write_whole

RECORD: Final = "record.jsonl"
ON_TASKS: Final = frozenset({"tasks", "oracle", "verifier", "walks", "check"})
"""Stages that count tasks."""


class RecordInvalid(AgentError):
    """A line of a record is none."""

    code = "SYNTHESIS_RECORD_INVALID"


class Repair(Record, frozen=True, kw_only=True):
    """Something that was made wrong, and made again."""

    problems: tuple[str, ...]
    """What came of executing it."""
    changed: str
    """What is different in the next attempt, as a unified diff."""
    of: str = ""
    """Which part of the stage it was, a task's id for example."""


class Rejection(Record, frozen=True, kw_only=True):
    """Something that was given up."""

    what: str
    """A task's id, or a name."""
    reason: str


class StageOutcome(Record, frozen=True, kw_only=True):
    """One stage of one environment."""

    stage: str
    passed: bool = True
    into: int = 0
    """How many things came into the stage: tasks, where it works on tasks (those that are wanted,
    where it makes them); else 1."""
    out_of: int = 0
    """How many of them left it."""
    seconds: float = 0.0
    repairs: tuple[Repair, ...] = ()
    rejected: tuple[Rejection, ...] = ()


class EnvironmentRecord(Record, frozen=True, kw_only=True):
    """What became of one environment."""

    name: str
    outcome: Literal["passed", "rejected", "unfinished"]
    title: str = ""
    domain: str = ""
    reason: str = ""
    """Why it was rejected."""
    digest: str = ""
    """Of the pack, where there is one."""
    stages: tuple[StageOutcome, ...] = ()
    """In the order in which they were gone through."""
    makeup: Makeup = Makeup()
    """Of the pack, where there is one."""


def write_record(folder: Path, records: Iterable[EnvironmentRecord]) -> Path:
    """Write the record of the run in ``folder``, whole or not at all."""
    path = folder / RECORD
    write_whole(path, b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return path


def read_record(folder: Path) -> Iterator[EnvironmentRecord]:
    """The record of the run in ``folder``. Raises ``RecordInvalid``, naming the line."""
    path = folder / RECORD
    if not path.is_file():
        raise RecordInvalid(f"{folder} is no folder of a run: it has no {RECORD}")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield msgspec.json.decode(line, type=EnvironmentRecord)
            except msgspec.DecodeError as error:
                raise RecordInvalid(f"{path}, line {number}: {error}") from None


class Funnel(NamedTuple):
    """One stage over all environments."""

    stage: str
    into: int
    passed: int
    tasks_into: int
    tasks_passed: int
    repairs: int
    seconds: float


def funnel(records: Iterable[EnvironmentRecord]) -> list[Funnel]:
    """What came into each stage and what left it, in the order in which stages come first."""
    stages: dict[str, Funnel] = {}
    for record in records:
        for one in record.stages:
            before = stages.get(one.stage, Funnel(one.stage, 0, 0, 0, 0, 0, 0.0))
            on_tasks = one.stage in ON_TASKS
            stages[one.stage] = Funnel(
                one.stage,
                before.into + 1,
                before.passed + one.passed,
                before.tasks_into + (one.into if on_tasks else 0),
                before.tasks_passed + (one.out_of if on_tasks else 0),
                before.repairs + len(one.repairs),
                round(before.seconds + one.seconds, 3),
            )
    return list(stages.values())

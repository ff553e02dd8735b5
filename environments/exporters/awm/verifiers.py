"""A task's verifier as AWM's pure code: the rows that its oracle changes, in two databases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from environments.assertions import TableInfo
from environments.environment import Environment
from environments.episode import Episode
from environments.errors import AgentError, PackInvalid
from environments.oracle import play_oracle
from environments.spec import Task

_CODE: Final = Path(__file__).with_name("verifier.txt")
_SEEDS: Final = (0, 1)
_ANY: Final = None


async def pure_code(environment: Environment, task: Task) -> str:
    """The source of ``verify_task_completion`` for a task.

    What differs between two runs of the oracle by seed, and times that the run made, may be any.
    Raises ``PackInvalid`` for a task whose oracle says nothing of how it is solved.
    """
    runs = [await _changes(environment, task, seed) for seed in _SEEDS]
    if not any(runs) and task.answer is None:
        raise PackInvalid("its oracle changes nothing and gives no answer")
    expected = {
        name: _patterns(table, [run.get(name, {}) for run in runs])
        for name, table in environment.tables.items()
    }
    code = _CODE.read_text(encoding="utf-8")
    told = repr(json.dumps(expected, ensure_ascii=False, sort_keys=True))
    return code.replace("<<EXPECTED>>", told).replace("<<ANSWER>>", repr(json.dumps(task.answer)))


async def _changes(environment: Environment, task: Task, seed: int) -> dict[str, Any]:
    """What the oracle changes, times of this run left open."""
    episode = await Episode.start(
        environment, task=task.id, seed=seed, horizon=len(task.oracle) + 1
    )
    try:
        await play_oracle(episode)
        start = environment.pack.spec.clock.start_ms
        opened: dict[str, Any] = _opened(episode.changes().to_json(), start, episode.clock_ms)
    except AgentError as error:
        raise PackInvalid(f"its oracle cannot be played: {error.message}") from error
    finally:
        await episode.close()
    return opened


def _opened(value: Any, start_ms: int, end_ms: int) -> Any:
    if isinstance(value, dict):
        return _ANY if "$blob" in value else {
            key: _opened(item, start_ms, end_ms) for key, item in value.items()
        }  # fmt: skip
    if isinstance(value, list):
        return [_opened(item, start_ms, end_ms) for item in value]
    return _ANY if isinstance(value, str) and _is_within(value, start_ms, end_ms) else value


def _is_within(text: str, start_ms: int, end_ms: int) -> bool:
    """Whether a text is a time of the run's own."""
    if len(text) < len("2026-01-01 00:00"):
        return False
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        return False
    at = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000
    return start_ms <= at <= end_ms


def _patterns(table: TableInfo, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What must be found of a table: rows added, removed and changed."""
    first, second = ([*_rows(run, "added")] for run in runs)
    added = [_common(row, _nearest(row, second)) for row in first]
    return {
        "key": list(table.key),
        "added": added,
        "removed": [*_rows(runs[0], "removed")],
        "changed": [*_changed(table.key, runs)],
    }


def _rows(run: Mapping[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    for row in run.get(kind, ()):
        yield {name: value for name, value in row.items() if name != "_rowid_"}


def _changed(key: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    others = {_key(key, change): change["after"] for change in runs[1].get("changed", ())}
    for change in runs[0].get("changed", ()):
        place = _key(key, change)
        yield {**_common(change["after"], others.get(place, {})), "": place}


def _key(key: Sequence[str], change: Mapping[str, Any]) -> str:
    return json.dumps([change["key"][name] for name in key])


def _nearest(row: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    def alike(other: Mapping[str, Any]) -> int:
        return sum(other.get(name) == value for name, value in row.items())

    return max(others, key=alike, default={})


def _common(row: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if other.get(name) == value else _ANY for name, value in row.items()}

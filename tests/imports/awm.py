"""AWM's real environments: every endpoint with its specification's example, and every verifier."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from environments.environment import Environment, open_environments
from environments.episode import Episode
from environments.importers.awm import AwmSource, sources
from environments.importers.awm.index import read_row
from environments.names import tool_name

_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*)?(?:Z|[+-]\d\d:\d\d)?")
_CODE = re.compile(r"\d{12,}")
"""What is numbered by the time in milliseconds."""
Call = tuple[str, dict[str, Any], dict[str, Any]]
"""Tool, arguments, and the same as a request."""


def compare_all(path: Path, names: Sequence[str]) -> int:
    """Print what holds for each environment at ``path``; 0 if all of it does."""
    total = asyncio.run(_compare_all(path, names))
    sys.stdout.write(f"\n{json.dumps(total, indent=1)}\n")
    return int(any(count for what, count in total.items() if what.startswith("differ")))


async def _compare_all(path: Path, names: Sequence[str]) -> Counter[str]:
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for source in sources(path):
            if names and source.name not in names:
                continue
            folder = Path(scratch) / source.name
            folder.mkdir()
            await asyncio.to_thread(source.write, folder)
        async with open_environments([Path(scratch)]) as environments:
            for source in sources(path):
                if source.name not in environments.catalogue.names():
                    continue
                began = time.perf_counter()
                environment = await environments.get(source.name)
                loaded = time.perf_counter() - began
                counts = await _compare(source, environment, Path(scratch))
                total.update(counts)
                told = ", ".join(f"{what} {count}" for what, count in counts.items())
                sys.stdout.write(f"{source.name}: built and loaded in {loaded:.2f} s; {told}\n")
    return total


async def _compare(source: AwmSource, environment: Environment, scratch: Path) -> Counter[str]:
    counts: Counter[str] = Counter(environments=1, tools=len(environment.tools))
    calls = [call for call in _examples(source) if call[0] in environment.tools]
    counts["endpoints in the specification"] = len(list(_examples(source)))
    episode = await Episode.start(environment, horizon=1000)
    steps = [await episode.call(tool, arguments) for tool, arguments, _ in calls]
    counts["calls that changed rows"] = sum(bool(step.changes) for step in steps)
    with tempfile.TemporaryDirectory(dir=scratch) as temporary:
        folder = Path(temporary)
        start = await Episode.start(environment)
        ours = (folder / "ours-initial.db", folder / "ours-final.db")
        start.branch.flatten(ours[0])
        episode.branch.flatten(ours[1])
        told = _original(source, folder, [call[2] for call in calls], ours)
        for (tool, _, _), step, answer in zip(calls, steps, told["answers"], strict=True):
            counts["calls"] += 1
            status = answer["status"]
            counts["failed inside, there and here"] += status == 500 and step.error is not None
            same = (
                _masked(step.result) == _masked(answer["body"])
                if step.error is None
                else status >= 400
            )
            if not same:
                counts["differ: answers"] += 1
                said = step.error.message if step.error else json.dumps(step.result)
                sys.stdout.write(f"  {tool}: {said[:300]}\n    there {json.dumps(answer)[:300]}\n")
        different = [
            name
            for name, rows in _rows(folder / "final.db").items()
            if _rows(ours[1]).get(name) != rows
        ]
        counts["differ: tables"] += len(different)
        if different:
            sys.stdout.write(f"  tables: {different}\n")
    await _judge(environment, (start, episode), told["verdicts"], counts)
    return counts


async def _judge(
    environment: Environment,
    played: tuple[Episode, Episode],
    told: dict[str, list[str]],
    counts: Counter[str],
) -> None:
    """Hold our verdicts against those on plain files: ours flattened, and the original's own."""
    idle, done = played
    for number, task in enumerate(environment.pack.tasks.values()):
        counts["verifiers"] += 1
        for name, episode in (("idle", idle), ("ours", done), ("own", done)):
            reward = await environment.score(task, episode.attempt(task, ""))
            verdict = "complete" if reward.value == 1.0 else "others"
            if reward.value is None:
                verdict = "error"
            theirs = told[name][number].partition(":")[0]
            counts["complete when nothing was done"] += name == "idle" and verdict == "complete"
            if verdict != theirs:
                counts[f"differ: verdicts ({name})"] += 1
                sys.stdout.write(f"  {task.id} ({name}): {verdict}, there {theirs}\n")


def _original(
    source: AwmSource, folder: Path, requests: list[dict[str, Any]], ours: tuple[Path, Path]
) -> dict[str, Any]:
    def row(kind: str) -> dict[str, Any]:
        return read_row(source.folder, kind, source.rows[kind][0])

    kind = "pure_code" if "pure_code" in source.rows else "verifier"
    found: dict[int, str] = {}
    for place in source.rows[kind]:
        each = read_row(source.folder, kind, place)
        found.setdefault(each["task_idx"], each["verification"]["code"])
    job = {
        "folder": str(folder),
        "code": row("envs")["full_code"],
        "tables": row("db")["db_schema"]["tables"],
        "samples": row("sample")["sample_data"]["tables"],
        "requests": requests,
        "verifiers": [code for _, code in sorted(found.items())],
        "pairs": {"ours": [str(path) for path in ours]},
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.imports.awm_original"],
        input=json.dumps(job), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def _examples(source: AwmSource) -> Iterator[Call]:
    """Every endpoint with its example."""
    spec = read_row(source.folder, "spec", source.rows["spec"][0])["api_spec"]
    for group in spec["api_groups"]:
        for endpoint in group["endpoints"]:
            given: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}}
            for name, about in endpoint["request_params"].items():
                if about.get("example") is not None:
                    given[about["param_type"]][name] = about["example"]
            path = endpoint["path"]
            for name, value in given["path"].items():
                path = path.replace(f"{{{name}}}", str(value))
            request = {
                "method": endpoint["method"],
                "path": path,
                "query": given["query"],
                "body": given["body"] or None,
            }
            arguments = {**given["path"], **given["query"], **given["body"]}
            yield tool_name(endpoint["operation_id"]), arguments, request


def _masked(value: Any) -> str:
    """JSON without the time it was made at, since the original's clock is the machine's; lists in
    no order, since some are by time; numbers to as many digits as two versions of SQLite agree."""
    return _CODE.sub("<code>", _TIME.sub("<time>", json.dumps(_loose(value), sort_keys=True)))


def _loose(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_masked, value))
    if isinstance(value, dict):
        return {key: _loose(item) for key, item in value.items()}
    return round(value, 9) if isinstance(value, float) else value


def _rows(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {
            name: sorted(
                _CODE.sub("<code>", _TIME.sub("<time>", repr(row)))
                for row in connection.execute(f'SELECT * FROM "{name}"')
            )
            for (name,) in tables
        }

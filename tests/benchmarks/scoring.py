"""What a verdict costs: an episode of 20 changed rows, by each kind of verifier, in two sizes."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from environments.environment import Environment, open_environments
from environments.episode import Episode
from tests.benchmarks.rows import Row

CHANGES = 20
SMALL, LARGE = 100, 20_000
"""Rows of each of the tables: about 0.5 MiB, and 60 MiB."""
TIMES = 60
TOOLS = '''
from environments.authoring import Database, tool

@tool(read_only=False)
def change(db: Database, table: int, id: int) -> None:
    """Change one row."""
    db.run(f"UPDATE t{table} SET status = 'done', quantity = quantity + 1 WHERE id = ?", id)
'''
VERIFIERS = """
def verify(initial, final):
    return True

def verify_task(initial_db_path, final_db_path):
    return {"result": "complete"}
"""


def run() -> Iterator[Row]:
    yield from asyncio.run(_measure())


async def _measure() -> list[Row]:
    small, large = await _figures(SMALL), await _figures(LARGE)
    rows = []
    for name, target in (
        ("assertions", "< 10, flat"),
        ("native", "< 10, flat"),
        ("awm_code", "reported apart"),
    ):
        rows.append(
            Row(
                name=f"score {CHANGES} changes by {name}, large database against small",
                value=round(large[name], 2),
                unit="ms",
                baseline=round(small[name], 2),
                ratio=round(large[name] / small[name], 2),
                target=target,
            )
        )
    return rows


async def _figures(rows: int) -> dict[str, float]:
    """Milliseconds from asking for a score to having it, by kind of verifier."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="envhub-bench-") as folder:
        pack = _write_pack(Path(folder), rows)
        async with open_environments([pack]) as environments:
            environment = await environments.get("rows")
            for task in environment.pack.tasks:
                found[task] = await _median_ms(environment, task, rows)
    return found


async def _median_ms(environment: Environment, task: str, rows: int) -> float:
    episode = await Episode.start(environment, task=task, horizon=CHANGES)
    for number in range(CHANGES):
        await episode.call("change", {"table": number, "id": _row(number, rows)})
    samples = []
    for _ in range(TIMES // (1 if task != "awm_code" else 10)):
        started = time.perf_counter()
        reward = await episode.score()
        samples.append((time.perf_counter() - started) * 1000)
        assert reward.value == 1.0, reward.reason
    await episode.close()
    return statistics.median(samples)


def _row(number: int, rows: int) -> int:
    """Rows far from one another, so that no two are on one page."""
    return 1 + (number * 37) % rows


def _write_pack(root: Path, rows: int) -> Path:
    pack = root / "rows"
    pack.mkdir()
    tables = [
        f"""CREATE TABLE t{number} (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
              quantity INTEGER NOT NULL, status TEXT NOT NULL);
            CREATE INDEX t{number}_status ON t{number} (status, id);"""
        for number in range(CHANGES)
    ]
    data = [
        f"""INSERT INTO t{number} WITH RECURSIVE n (i) AS
              (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            SELECT i, printf('article %080d', i), i % 7, 'open' FROM n;"""
        for number in range(CHANGES)
    ]
    expect = [
        {
            "table": f"t{number}",
            "where": {"id": _row(number, rows)},
            "set": {"status": "done", "quantity": {"delta": 1}},
        }
        for number in range(CHANGES)
    ]
    tasks: dict[str, Any] = {
        "assertions": {"expect": expect},
        "native": {"code": {"kind": "native"}},
        "awm_code": {"code": {"kind": "awm_code", "function": "verify_task"}},
    }
    files = {
        "environment.toml": 'name = "rows"\nversion = "1"\ntitle = "Rows"\nsummary = "Rows"\n',
        "schema.sql": "\n".join(tables),
        "data.sql": "\n".join(data),
        "tools.py": TOOLS,
        "verifiers.py": VERIFIERS,
        "tasks.jsonl": "".join(
            json.dumps({"id": name, "instruction": "Change them.", "verifier": verifier}) + "\n"
            for name, verifier in tasks.items()
        ),
    }
    for name, text in files.items():
        (pack / name).write_text(text)
    return pack

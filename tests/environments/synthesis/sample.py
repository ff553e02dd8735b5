"""``python -m tests.environments.synthesis.sample DOMAIN [HOW_MANY [FROM [FOLDER]]]``: make some
environments of a domain and print their tasks, to be read."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from environments.sandbox.host import Sandbox, SandboxLimits
from environments.synthesis.blueprints import blueprints
from environments.synthesis.offline.making import Bench
from snapshots import SnapshotStore


async def main(domain: str, many: int = 3, first: int = 0, folder: str = "") -> None:
    with tempfile.TemporaryDirectory(prefix="envhub-sample-") as scratch:
        async with Sandbox(SandboxLimits(niceness=0)) as sandbox:
            for number in range(first, first + many):
                store = SnapshotStore(Path(scratch) / f"snapshots-{number}")
                path = Path(folder or scratch) / f"{domain}-{number:04d}"
                made = await Bench(store, sandbox).make(blueprints()[domain], 1, number, path)
                size = made.makeup
                print(f"\n== {made.name}: {', '.join(made.features)}; {size.tables} tables, "
                      f"{size.tools} tools, {size.rows} rows, {made.seconds} s")  # fmt: skip
                for problem in made.problems:
                    print("  REJECTED", problem)
                if made.passed:
                    for line in (path / "tasks.jsonl").read_text().splitlines():
                        task = json.loads(line)
                        answer = f" => {task['answer']}" if "answer" in task else ""
                        level = task.get("difficulty", "medium")
                        print(f"  {level:6} {len(task['oracle']):2} {task['instruction']}{answer}")


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    numbers = [int(text) for text in rest[:2]]
    asyncio.run(main(name, *numbers, *rest[2:]))

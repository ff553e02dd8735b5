"""``python -m tests.environments.synthesis.evidence [COUNT [SEED [FOLDER]]]``: what a run of
``envhub synth --offline`` must hold, 1,000 environments with seed 1 unless told otherwise.

Limits that speak of a thousand are taken in proportion; the time only for the whole.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environments.synthesis.blueprints import blueprints
from environments.synthesis.offline.running import Request, report_of, synthesise

WHOLE = 1000
MINUTES = 20.0
"""For the whole, on two processors."""


def shortfalls(report: dict[str, Any], count: int, minutes: float) -> list[str]:
    """What does not hold."""
    median, diversity = report["median"], report["diversity"]
    passed = report["passed"]
    sames, duplicates = diversity["same_shape"], len(diversity["duplicates"])
    wanted = {
        f"{passed} of {count} pass": passed >= 0.99 * count,
        f"median of {median['tables']} tables": median["tables"] >= 6,
        f"median of {median['tools']} tools": median["tools"] >= 18,
        f"median of {median['rows']} rows": median["rows"] >= 150,
        f"median of {median['tasks']} tasks": median["tasks"] >= 10,
        f"{report['domains']} domains": report["domains"] >= min(24, count),
        f"{diversity['schemas']} schemas": diversity["schemas"] >= 0.3 * count,
        f"{duplicates} duplicates": duplicates < 0.2 * passed,
        f"{sames} tasks of a shape seen before": sames < 0.1 * diversity["tasks"],
        f"{minutes:.1f} minutes": count < WHOLE or minutes < MINUTES,
    }
    for what, holds in wanted.items():
        print(f"{'holds' if holds else 'FAILS'}  {what}")
    return [what for what, holds in wanted.items() if not holds]


def main(count: int = WHOLE, seed: int = 1, folder: str = "") -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="envhub-evidence-") as scratch:
        request = Request(seed=seed, domains=tuple(blueprints()))
        made = synthesise(request, count, Path(folder or scratch), jobs=os.cpu_count() or 1)
    report = report_of(made)
    print(json.dumps({key: report[key] for key in report if key != "rejected"}, indent=2))
    for name, problems in report["rejected"].items():
        print(f"rejected {name}: {problems[0]}")
    return 1 if shortfalls(report, count, (time.monotonic() - started) / 60) else 0


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(*numbers, *sys.argv[3:]))

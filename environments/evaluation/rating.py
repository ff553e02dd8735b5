"""How hard tasks are for a policy: pass@k of each, and the band of difficulty it is in by that."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from environments.advantages import pass_at, powers_of_two
from environments.catalogue import Pack, pack_digest
from environments.evaluation.figures import by_task
from environments.spec import Difficulty
from environments.trajectory import Record, Trajectory
from environments.whole import write_whole

BANDS: Final[tuple[tuple[float, Difficulty], ...]] = (
    (0.75, "easy"),
    (0.4, "medium"),
    (0.1, "hard"),
    (0.0, "expert"),
)
"""The least share of tries that pass, of each band."""


class Rating(Record, frozen=True, kw_only=True):
    """One task."""

    task: str
    tries: int
    passed: int
    pass_at: dict[int, float]
    """The unbiased estimate that one of k tries passes, for k = 1, 2, 4, … and all."""
    band: Difficulty
    declared: Difficulty
    """What the pack says it is."""


class Ratings(Record, frozen=True, kw_only=True):
    """The tasks of one pack, rated by one policy."""

    environment: str
    digest: str
    """Of the pack that was played."""
    policy: str
    seed: int
    tasks: tuple[Rating, ...]


def rate(pack: Pack, policy: str, seed: int, runs: Iterable[Trajectory]) -> Ratings:
    """What ``runs`` of the pack's tasks say of them; tasks without runs are left out."""
    rated = []
    for found in by_task(runs):
        ks = powers_of_two(found.tries)
        chances = {k: round(pass_at(k, found.tries, found.passed), 6) for k in ks}
        rated.append(
            Rating(
                task=found.task,
                tries=found.tries,
                passed=found.passed,
                pass_at=chances,
                band=band_of(chances[1]),
                declared=pack.task(found.task).difficulty,
            )
        )
    return Ratings(
        environment=pack.name, digest=pack.digest, policy=policy, seed=seed, tasks=tuple(rated)
    )


def band_of(share: float) -> Difficulty:
    """The band of a task that this share of tries pass."""
    return next(band for least, band in BANDS if share >= least)


def write_bands(folder: Path, ratings: Ratings) -> tuple[str, str]:
    """Put the bands into the pack's ``tasks.jsonl``; other tasks and words stay as they are.

    Returns the pack's digest before and after.
    """
    before = pack_digest(folder)
    bands = {rating.task: rating.band for rating in ratings.tasks}
    path = folder / "tasks.jsonl"
    lines = []
    for line in path.read_bytes().splitlines():
        task = msgspec.json.decode(line) if line.strip() else {}
        band = bands.get(str(task.get("id")))
        if band is not None and task.get("difficulty", "medium") != band:
            line = msgspec.json.encode({**task, "difficulty": band})
        lines.append(line + b"\n")
    write_whole(path, b"".join(lines))
    return before, pack_digest(folder)

"""What a benchmark reports, and how it measures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure beside its baseline. ``ratio`` is how many times better than the baseline it is
    (or, for a figure that should stay flat, how many times the baseline it is)."""

    name: str
    value: float
    unit: str
    baseline: float
    ratio: float
    target: str = ""


def faster(name: str, value_us: float, baseline_us: float, target: str = "") -> Row:
    """A time beside the time of doing it the other way."""
    return Row(
        name=name,
        value=round(value_us, 2),
        unit="us",
        baseline=round(baseline_us, 2),
        ratio=round(baseline_us / value_us, 1),
        target=target,
    )


def median_us(
    work: Callable[[], object], *, times: int = 2000, before: Callable[[], object] | None = None
) -> float:
    """The median of ``times`` runs of ``work``, in microseconds; ``before`` is not counted."""
    samples = []
    for run in range(times + times // 20):
        if before is not None:
            before()
        started = time.perf_counter_ns()
        work()
        elapsed = time.perf_counter_ns() - started
        if run >= times // 20:
            samples.append(elapsed)
    return statistics.median(samples) / 1000

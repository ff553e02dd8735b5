"""Trajectories as Parquet, for those who read tables; needs pyarrow (``mcp-env-hub[parquet]``).

One row a run, or one row a call of the policy's model with the exact messages it saw. What is
nested in a trajectory is JSON text in its column.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.chat import model_calls
from environments.errors import AgentError
from environments.trajectory import Trajectory

ROWS_AT_ONCE: Final = 256

PLAIN: Final = {
    "id": "string",
    "environment": "string",
    "digest": "string",
    "task": "string",
    "instruction": "string",
    "seed": "int64",
    "malformed": "string",
    "user": "string",
    "group": "string",
    "repetition": "int64",
    "policy": "string",
    "training_step": "int64",
    "horizon": "int64",
    "clock_ms": "int64",
    "answer": "string",
    "terminated": "bool",
    "truncated": "bool",
    "failed": "bool",
    "stop_reason": "string",
    "mask": "bool",
}
"""Fields that are columns as they stand."""
NESTED: Final = (
    "faults", "tools", "messages", "steps", "calls", "window", "tokens",
)  # fmt: skip
"""Fields that are JSON text."""
REWARD: Final = {
    "reward": "double",
    "outcome": "string",
    "verdict": "string",
    "step_count": "int64",
}
"""The reward's value and outcome, all of it as JSON text, and how many steps were taken."""
CALL: Final = {
    "id": "string",
    "call": "int64",
    "environment": "string",
    "task": "string",
    "group": "string",
    "repetition": "int64",
    "policy": "string",
    "training_step": "int64",
    "prompt": "string",
    "completion": "string",
    "tokens": "string",
    "reward": "double",
    "mask": "bool",
}


class NoParquet(AgentError):
    """pyarrow is not installed."""

    code = "NO_PARQUET"


def write_parquet(path: Path, trajectories: Iterable[Trajectory], *, calls: bool = False) -> int:
    """Write one row a run, or with ``calls`` one a call of its model; returns how many rows.

    Raises ``NoParquet``.
    """
    try:
        import pyarrow  # the extra: nothing else needs it
        import pyarrow.parquet
    except ImportError:
        raise NoParquet(
            "pyarrow is not installed", hint="pip install 'mcp-env-hub[parquet]'"
        ) from None
    kinds = CALL if calls else RUN
    rows_of: Callable[[Trajectory], Iterator[dict[str, Any]]] = call_rows if calls else run_rows
    schema = pyarrow.schema([(name, kind) for name, kind in kinds.items()])
    rows = itertools.chain.from_iterable(map(rows_of, trajectories))
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
            writer.write_table(pyarrow.Table.from_pylist(some, schema=schema))
            count += len(some)
    return count


RUN: Final = {**PLAIN, **REWARD, **dict.fromkeys(NESTED, "string")}


def run_rows(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """The row of a run."""
    reward = trajectory.reward
    yield {
        **{name: getattr(trajectory, name) for name in PLAIN},
        **{name: _json(getattr(trajectory, name)) for name in NESTED},
        "reward": reward.value if reward else None,
        "outcome": reward.outcome if reward else None,
        "verdict": _json(reward),
        "step_count": len(trajectory.steps),
    }


def call_rows(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """A row for each call of the policy's model."""
    reward = trajectory.reward
    for number, (prompt, completion, call) in enumerate(model_calls(trajectory)):
        yield {
            "id": trajectory.id,
            "call": number,
            "environment": trajectory.environment,
            "task": trajectory.task,
            "group": trajectory.group,
            "repetition": trajectory.repetition,
            "policy": trajectory.policy,
            "training_step": trajectory.training_step,
            "prompt": _json(prompt),
            "completion": _json(completion),
            "tokens": _json(call.tokens),
            "reward": reward.value if reward else None,
            "mask": trajectory.mask,
        }


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()

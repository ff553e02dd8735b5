"""What a verdict may rest on, as the assertions see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from environments.spec import ChangePolicy
from environments.trajectory import Step
from snapshots.changeset import SCHEMA, Changeset

OK = "ok"
_NOTHING = ChangePolicy()


class State(Protocol):
    """A database as it stood at one moment, read-only. Cells are JSON, as in a changeset."""

    def row(self, table: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The whole row with this primary key, or ``None``."""
        ...

    def rows(self, table: str, like: Mapping[str, str | int]) -> Iterable[dict[str, Any]]:
        """At least those rows whose columns equal the values of ``like`` (all, if it is empty)."""
        ...

    def scalar(self, sql: str) -> Any:
        """The one value of the one row that a query answers. Raises ``PackInvalid`` otherwise."""
        ...


class TraceStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of the agent. ``ended`` is ``ok`` or the code of its error; ``wrote`` names the
    tables whose rows the agent changed in it, whether or not a later call put them back."""

    index: int
    tool: str
    arguments: dict[str, Any]
    ended: str = OK
    wrote: tuple[str, ...] = ()

    @classmethod
    def of(cls, step: Step, ignored: ChangePolicy = _NOTHING) -> TraceStep:
        """The step, with only those writes that are judged."""
        wrote: set[str] = set()
        for change in step.changes:
            if change.actor == "agent":
                rows = Changeset.from_json(change.changes)
                wrote.update(
                    rows.filter(tables=ignored.ignore_tables, columns=ignored.ignore_columns).tables
                )
                wrote.update(SCHEMA for _ in rows.schema)
        ended = step.error.code if step.error else OK
        return cls(step.index, step.tool, step.arguments, ended, tuple(sorted(wrote)))


class ProbeCall(msgspec.Struct, frozen=True):
    """A call of a read-only tool that a verifier wants made on the final state."""

    tool: str
    arguments: dict[str, Any]


class ProbeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a ``ProbeCall``; ``result`` is data that the pack's code made, no more."""

    ended: str = OK
    result: Any = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run, to be judged by ``Assertions.evaluate``.

    ``changes`` are the agent's own net changes. ``found`` is what others (events, faults) had
    changed of the same rows before the agent first did: over the initial row it gives the row that
    the agent found. ``history.split`` makes both. ``probes`` answer ``Assertions.probes``, in that
    order.
    """

    changes: Changeset
    initial: State
    final: State
    found: Changeset
    answer: str | None = None
    trace: tuple[TraceStep, ...] = ()
    probes: tuple[ProbeResult, ...] = ()

"""Judging a run by assertions, in a worker that never loads the pack's code.

What the run changed is told from the pages of its two states. What the tools' workers said is used
only to tell the agent's changes from the world's, and only if all of it adds up to just that. What
is read of the final state is rebuilt from its rows, so that no page is taken on trust.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import apsw
import msgspec

from environments.assertions import (
    Assertions,
    DatabaseState,
    Evidence,
    State,
    TableInfo,
    TraceStep,
    split,
)
from environments.errors import ForgedChanges, PackInvalid
from environments.sandbox import wire
from environments.sandbox.stage import Views
from environments.trajectory import Change
from snapshots.branch import Branch
from snapshots.changeset import Changeset
from snapshots.compare import Comparer, Comparison, rebuild
from snapshots.errors import ChangesetInvalid, StateDamaged
from snapshots.pages import PageDelta, Snapshot
from snapshots.rows import Row
from snapshots.shapes import read_shapes
from snapshots.workspace import Mount, Workspace


class Scorer:
    """The job of a worker that judges."""

    def __init__(self, request: wire.LoadScorer) -> None:
        self._snapshot = Snapshot.open(Path(request.snapshot_path), request.snapshot_digest)
        self._initial = Workspace(self._snapshot)
        self._final = Workspace(self._snapshot)
        self._views = Views(self._snapshot)
        self._tables = tables_of(self._snapshot)
        self._comparer = Comparer(self._snapshot)
        self._parse = lru_cache(256)(self._parse_verifier)

    @cached_property
    def _rebuilder(self) -> Workspace:
        return Workspace(self._snapshot, verbatim=True)

    def _parse_verifier(self, verifier: bytes) -> Assertions:
        return Assertions.parse(msgspec.json.decode(verifier), self._tables)

    def answer(self, request: wire.AnyRequest) -> bytearray:
        if not isinstance(request, wire.Score):
            raise PackInvalid("a worker that judges was asked for something else")
        initial = self._views.show(request.initial)
        final = self._views.show(request.final)
        assertions = self._parse(request.verifier) if request.verifier else None
        case = wire.decode_case(request.case)
        with (
            ExitStack() as stack,
            self._initial.mount(initial, clock_ms=request.clock_ms, read_only=True) as before,
        ):
            with self._final.mount(final, read_only=True) as after:
                comparison = self._compare(before, after)

            def rebuilt() -> State:
                branch = self._rebuilt(initial, final, comparison)
                mount = self._final.mount(branch, clock_ms=request.clock_ms, read_only=True)
                return DatabaseState(stack.enter_context(mount).connection, self._tables)

            states = DatabaseState(before.connection, self._tables), _Later(rebuilt)
            evidence = _evidence(case, comparison, *states)
            components = tuple(assertions.evaluate(evidence)) if assertions else ()
            delta = None
            if request.rebuild:
                delta = difference(initial, self._rebuilt(initial, final, comparison))
            return wire.accepted(request.id, components, delta)

    def _compare(self, before: Mount, after: Mount) -> Comparison:
        try:
            return self._comparer.compare(before, after)
        except StateDamaged as error:
            raise ForgedChanges(f"the final state's pages are damaged: {error.message}") from error

    def _rebuilt(self, initial: Branch, final: Branch, comparison: Comparison) -> Branch:
        if comparison.tables is None:  # the schema changed: its pages are all there is
            return final
        try:
            return rebuild(self._rebuilder, initial, comparison.tables)
        except StateDamaged as error:
            raise ForgedChanges(f"the final state's rows are no state: {error.message}") from error


def _evidence(case: wire.Case, comparison: Comparison, initial: State, final: State) -> Evidence:
    """Raises ``ForgedChanges`` if the record does not add up to what is found on the pages."""
    history = [change for step in case.steps for change in step.changes]
    require_told(history, comparison.changes)
    changes, found = split(history)
    ignored = case.ignored
    return Evidence(
        changes=changes.filter(tables=ignored.ignore_tables, columns=ignored.ignore_columns),
        initial=initial,
        final=final,
        found=found,
        answer=case.answer,
        trace=tuple(TraceStep.of(step, ignored) for step in case.steps),
        probes=case.probes,
    )


class _Later:
    """A state that is put together when somebody first reads it."""

    def __init__(self, make: Callable[[], State]) -> None:
        self._make = make

    @cached_property
    def _state(self) -> State:
        return self._make()

    def row(self, table: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        return self._state.row(table, key)

    def rows(self, table: str, like: Mapping[str, str | int]) -> Iterable[dict[str, Any]]:
        return self._state.rows(table, like)

    def scalar(self, sql: str) -> Any:
        return self._state.scalar(sql)


def require_told(history: Iterable[Change], changes: Changeset) -> None:
    """Refuse a run whose recorded changes do not add up to those found on its pages.

    Raises ``ForgedChanges`` naming a row.
    """
    told = Changeset()
    try:
        for change in history:
            told = told.concat(Changeset.from_json(change.changes))
    except ChangesetInvalid as error:
        raise ForgedChanges(f"the reported changes contradict one another: {error}") from error
    said, found = dict(_rows(told)), dict(_rows(changes))
    for identity in {**said, **found}:
        if said.get(identity) != found.get(identity):
            table, key = identity
            row = f"{table} {'/'.join(map(str, key))}"
            raise ForgedChanges(
                f"{row} was {_kind(found.get(identity))} by the pages, "
                f"and {_kind(said.get(identity))} by the reports of the tools' workers",
                hint="a worker lied or has a fault: nothing of this run can be scored",
            )
    if told.schema != changes.schema:
        raise ForgedChanges("the schema is not what the tools' workers said they had made of it")


_Said = tuple[Row | None, Row | None]


def _rows(changes: Changeset) -> Iterator[tuple[tuple[str, tuple[Any, ...]], _Said]]:
    for table in changes.tables:
        for change in changes.rows(table):
            yield (table, tuple(change.key.values())), (change.before, change.after)


def _kind(said: _Said | None) -> str:
    if said is None:
        return "not changed"
    return "added" if said[0] is None else "removed" if said[1] is None else "changed otherwise"


def difference(before: Branch, after: Branch) -> PageDelta | None:
    """What leads from one state of a snapshot to another; None if nothing does."""
    old, new = before.head, after.head
    pages = {n: page for n, page in new.pages.items() if old.pages.get(n) is not page}
    if not pages and old.size_bytes == new.size_bytes:
        return None
    return PageDelta(pages, new.size_bytes, new.base_pages)


def tables_of(snapshot: Snapshot) -> dict[str, TableInfo]:
    """The tables of a snapshot, read from its file."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(snapshot.uri, flags=flags)
    try:
        shapes = read_shapes(connection)
    finally:
        connection.close()
    return {name: TableInfo(shape.columns, shape.key) for name, shape in shapes.items()}

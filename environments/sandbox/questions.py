"""What is asked of a worker, and how its answer is read: none of it is trusted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

import msgspec

from environments.catalogue import Pack
from environments.errors import (
    EnvhubError,
    ForgedChanges,
    FrameRejected,
    InfrastructureFault,
    PackInvalid,
    VerifierFailed,
)
from environments.sandbox import wire
from environments.sandbox.worker import Question
from environments.trajectory import Actor, Change
from snapshots.changeset import Changeset
from snapshots.errors import SnapshotsError
from snapshots.pages import PageDelta, check_delta

T = TypeVar("T")
_Cells = dict[str, bool | int | float | str | None]


class _Changed(msgspec.Struct, forbid_unknown_fields=True):
    key: _Cells
    before: _Cells
    after: _Cells
    indirect: bool = False


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """The changes of a table as they mostly are: no blobs, no infinities."""

    key: tuple[str, ...]
    added: list[_Cells]
    removed: list[_Cells]
    changed: list[_Changed]
    indirect: dict[str, list[int]] = {}

    @property
    def keyed(self) -> bool:
        key = self.key
        for rows in (self.added, self.removed, [change.key for change in self.changed]):
            for row in rows:
                for column in key:
                    if column not in row:
                        return False
        return True


_MAX_COUNTERS = 1000
"""Every step's record has them all."""
_decode_tables = msgspec.json.Decoder(dict[str, _Table]).decode
_decode_changes = msgspec.json.Decoder(dict[str, Any]).decode


class Agenda:
    """A pack's events by time."""

    def __init__(self, pack: Pack) -> None:
        self._scripts = tuple(
            sorted(
                (
                    wire.Script(statements=event.statements, at_ms=event.at_ms, event=event.id)
                    for event in pack.events
                ),
                key=lambda script: script.at_ms,
            )
        )
        self._times = [script.at_ms for script in self._scripts]

    def between(self, after_ms: int, until_ms: int) -> tuple[wire.Script, ...]:
        times = self._times
        return self._scripts[bisect_right(times, after_ms) : bisect_right(times, until_ms)]


# --- reading answers, none of which is trusted --------------------------------------------------


class Told(NamedTuple):
    """A report that was found to be well-formed."""

    report: wire.Report
    commits: tuple[Change, ...]
    delta: PageDelta | None


def read_report(question: Question, reply: wire.Reply) -> Told:
    branch, delta, worker = question.branch, reply.delta, question.worker
    assert branch is not None
    assert worker is not None
    try:
        if reply.refused:
            raise FrameRejected(f"the worker for {question.what} refused it")
        report = wire.decode_report(reply.payload)
        if report.error is not None and report.error.kind == "infrastructure":
            raise FrameRejected(f"the worker for {question.what} blames the infrastructure")
        if report.moment is not None and len(report.moment.counters) > _MAX_COUNTERS:
            raise FrameRejected(f"the worker for {question.what} counts too many things")
        if delta is not None:
            check_delta(delta, branch.head)
            worker.known.advance(question.slot, branch.head.pages_after(delta))
        elif report.commits:
            raise FrameRejected(f"the worker for {question.what} claims changes without pages")
        commits = tuple(
            Change(actor=claim.actor, changes=_read_changes(claim.changes), event=claim.event)
            for claim in report.commits
        )
    except (msgspec.MsgspecError, SnapshotsError, RecursionError) as error:
        raise FrameRejected(f"the answer to {question.what} is refused: {error}") from error
    if report.spoiled:
        worker.spoiled = True
    return Told(report, commits, delta)


def require_actor(told: Told, what: str, actor: Actor, events: Collection[str | None]) -> None:
    """Refuse changes said to be those of somebody who did not act.

    Raises ``FrameRejected``: a tool that blames its writes on the world would escape the frame.
    """
    for change in told.commits:
        if change.actor != actor or change.event not in events:
            raise FrameRejected(f"the worker for {what} tells changes of {change.actor}")


def _read_changes(encoded: msgspec.Raw) -> dict[str, Any]:
    """Changes as they came, if ``Changeset.from_json`` takes them; tells at a fraction of its cost.

    Raises ``ChangesetInvalid``.
    """
    changes: dict[str, Any] = _decode_changes(encoded)
    try:
        tables = _decode_tables(encoded)
    except msgspec.ValidationError:
        pass
    else:
        for table in tables.values():
            if not table.keyed:
                break
        else:
            return changes
    Changeset.from_json(changes)
    return changes


FAULTS: dict[str, type[EnvhubError]] = {
    fault.code: fault for fault in (PackInvalid, VerifierFailed, ForgedChanges, InfrastructureFault)
}


def _refusal(reply: wire.Reply) -> EnvhubError:
    """The error that a worker's refusal stands for."""
    try:
        error = wire.decode_error(reply.payload)
    except (msgspec.MsgspecError, RecursionError):
        return PackInvalid("the worker refused without a reason")
    return FAULTS.get(error.code, PackInvalid)(error.message, hint=error.hint)


def _reading(decode: Callable[[bytes], T]) -> Callable[[Question, wire.Reply], T]:
    def read(question: Question, reply: wire.Reply) -> T:
        if reply.refused:
            raise _refusal(reply)
        try:
            return decode(reply.payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise FrameRejected(f"the answer to {question.what} is refused: {error}") from error

    return read


read_loaded = _reading(wire.decode_loaded)
read_nothing = _reading(wire.decode_nothing)
read_description = _reading(wire.decode_description)
read_components = _reading(wire.decode_components)
read_findings = _reading(wire.decode_findings)

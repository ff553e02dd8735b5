"""Where tools and events act: one operation at a time on a branch, each change in a transaction,
all of it dropped unless the operation ends well.
"""

from __future__ import annotations

import _thread
import random
import time
import uuid
from typing import TYPE_CHECKING, Any

import apsw
import msgspec
from pydantic_core import to_jsonable_python

from environments.authoring import CallContext, ToolError, call_context
from environments.errors import BadResult, EnvhubError, EnvironmentFault, ToolCrashed, UnknownTool
from environments.sandbox.wire import WRITES, Call, Claim, Moment, Play, Report, Script, View
from environments.trajectory import Actor, StepError
from snapshots.branch import Branch, Point
from snapshots.errors import ReadOnlyViolated, SnapshotsError
from snapshots.pages import PageDelta
from snapshots.workspace import Mount, Workspace

if TYPE_CHECKING:
    from environments.runtimes.program import Program
    from environments.sandbox.clock import StandingClock
    from environments.sandbox.output import Output
    from environments.sandbox.wire import LoadTools
    from snapshots.pages import Snapshot

_MESSAGE_CHARACTERS = 4000
_THREAD_GRACE_SECONDS = 0.02
_WORLD_SEED = 1 << 62
"""Keeps what events draw apart from what tools draw."""
Done = tuple[Report, PageDelta | None]


class Views:
    """The branches the gateway counts on this worker to know, by slot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._points: dict[int, Point] = {}

    def show(self, view: View) -> Branch:
        """A branch in the state that ``view`` tells."""
        points = self._points
        for slot in view.forget:
            points.pop(slot, None)
        point = points.get(view.slot)
        if (
            point is None
            or view.pages
            or view.dropped
            or view.size_bytes != point.size_bytes
            or view.base_pages != point.base_pages
        ):
            pages = {**point.pages, **view.pages} if point else view.pages
            for number in view.dropped:
                del pages[number]
            point = points[view.slot] = Point(pages, view.size_bytes, view.base_pages)
        # The same object as last time lets the workspace keep its page cache.
        return Branch(self._snapshot, point)

    def keep(self, slot: int, point: Point) -> None:
        """The slot's branch has moved on to ``point``."""
        point.history = None  # nobody asks a worker for the past
        self._points[slot] = point


class Stage:
    """Runs the calls and events of one pack on one workspace."""

    def __init__(
        self,
        program: Program,
        snapshot: Snapshot,
        load: LoadTools,
        output: Output,
        clock: StandingClock,
    ) -> None:
        self._program = program
        self._clock = clock
        self._output = output
        self._keep_on_error = load.keep_on_error
        self._step_ms = load.step_ms
        self._views = Views(snapshot)
        self._workspace = Workspace(
            snapshot, allow_ddl=load.allow_ddl, foreign_keys=load.foreign_keys
        )
        self._branch = Branch(snapshot)

    def call(self, request: Call) -> Done:
        """One tool call."""
        try:
            return self._call(request, self._show(request.view))
        except SystemExit:
            raise
        except BaseException as raised:  # noqa: BLE001 - a stranger's code may raise anything
            return self._failed(raised), None

    def play(self, request: Play) -> Done:
        """What the world does by itself."""
        try:
            return self._play(request, self._show(request.view))
        except (SnapshotsError, EnvironmentFault) as raised:
            return self._failed(raised), None

    def settle(self, slot: int, *, committed: bool) -> None:
        """The gateway has (or has not) been given what the last operation changed."""
        if committed:
            self._views.keep(slot, self._branch.head)

    def bad_result(self, problem: str, report: Report) -> Report:
        """What to answer instead of a report that cannot be sent."""
        fault = BadResult(problem, hint="return JSON, and less of it: page through long lists")
        return Report(error=step_error(fault, ""), output=report.output, spoiled=report.spoiled)

    def _show(self, view: View) -> Branch:
        self._branch = self._views.show(view)
        return self._branch

    # --- a tool -------------------------------------------------------------------------------

    def _call(self, request: Call, branch: Branch) -> Done:
        spec = self._program.tools.get(request.tool)
        if spec is None:
            raise UnknownTool(f"there is no tool {request.tool!r}")
        before = request.moment
        context = CallContext(before.clock_ms, before.seed, dict(before.counters))
        seed = _seed(before)
        random.seed(seed)
        self._clock.set(before.clock_ms)
        mount = self._workspace.mount(
            branch, clock_ms=before.clock_ms, seed=seed, read_only=spec.read_only
        )
        result, error = None, None
        try:
            with call_context(context), mount:
                result = self._act(mount, request)
        except Exception as raised:
            if not mount.delta.pages:  # nothing was kept
                raise
            error = step_error(raised, self._program.place(raised))
        self._require_no_threads()
        if spec.read_only:
            return Report(result=result, error=error, output=self._output.take()), None
        context.counters[WRITES] = context.counters.get(WRITES, 0) + 1
        moment = Moment(before.clock_ms + self._step_ms, before.seed, context.counters)
        report = Report(
            result=result,
            error=error,
            commits=(_claim("agent", mount),) if mount.changes else (),
            moment=moment,
            output=self._output.take(),
        )
        return report, _unless_empty(mount.delta, request.view)

    def _act(self, mount: Mount, request: Call) -> Any:
        """The tool in one transaction. One that it ended itself is let be."""
        connection = mount.connection
        connection.execute("BEGIN")
        try:
            result = self._program.call(
                request.tool, connection, msgspec.json.decode(request.arguments)
            )
        except Exception:
            if connection.in_transaction:
                connection.execute("COMMIT" if self._keep_on_error else "ROLLBACK")
            if self._keep_on_error:
                mount.keep_on_error()
            raise
        if connection.in_transaction:
            connection.execute("COMMIT")
        return result

    def _require_no_threads(self) -> None:
        """A thread that outlives its call would write into the next one's branch."""
        if not _thread._count():
            return
        deadline = time.monotonic() + _THREAD_GRACE_SECONDS
        while _thread._count():
            if time.monotonic() > deadline:
                raise ToolCrashed("the tool left a thread running", hint="join it before returning")
            time.sleep(0.001)

    # --- the world ----------------------------------------------------------------------------

    def _play(self, request: Play, branch: Branch) -> Done:
        commits, delta = self._world(branch, request.scripts, request.moment)
        return Report(commits=tuple(commits)), _unless_empty(delta, request.view)

    def _world(
        self, branch: Branch, scripts: tuple[Script, ...], moment: Moment
    ) -> tuple[list[Claim], PageDelta]:
        """Run scripts in order; raises ``EnvironmentFault`` if one of them fails."""
        head = branch.head
        commits, delta = [], PageDelta({}, head.size_bytes, head.base_pages)
        for number, script in enumerate(scripts):
            mount = self._workspace.mount(
                branch,
                label="environment",
                clock_ms=script.at_ms,
                seed=_seed(moment) ^ (_WORLD_SEED + number),
            )
            try:
                with mount:
                    for statement in ("BEGIN", *script.statements, "COMMIT"):
                        mount.connection.execute(statement).fetchall()
            except (apsw.Error, SnapshotsError) as error:
                what = f"event {script.event}" if script.event else "a statement"
                raise EnvironmentFault(f"{what} failed: {error}", event=script.event) from error
            delta = delta.merge(mount.delta)
            if mount.changes:
                commits.append(_claim("environment", mount, script.event))
        return commits, delta

    # --- what went wrong ----------------------------------------------------------------------

    def _failed(self, raised: BaseException) -> Report:
        """Nothing of the operation counts."""
        spoiled = self._workspace.broken or isinstance(raised, MemoryError)
        return Report(
            error=step_error(raised, self._program.place(raised)),
            output=self._output.take(),
            spoiled=spoiled or bool(_thread._count()),
        )


def step_error(raised: BaseException, place: str) -> StepError:
    """An exception as the record of whose fault it was."""
    if isinstance(raised, ToolError):
        return StepError(
            kind="agent",
            code=str(raised.code),
            message=str(raised.message)[:_MESSAGE_CHARACTERS],
            details=_plain(raised.details),
        )
    if isinstance(raised, ReadOnlyViolated):
        raised = BadResult(
            "a tool declared read-only wrote to the database", hint="declare read_only=False"
        )
    if isinstance(raised, EnvhubError):
        return StepError(
            kind=raised.kind,
            code=raised.code,
            message=raised.message[:_MESSAGE_CHARACTERS],
            details=_plain(raised.details),
            hint=raised.hint,
        )
    return StepError(
        kind="environment",
        code=ToolCrashed.code,
        message=f"{type(raised).__name__}: {_text(raised)}",
        details={"where": place} if place else {},
        hint=raised.hint if isinstance(raised, SnapshotsError) else "",
    )


def _text(raised: BaseException) -> str:
    try:
        return str(raised)[:_MESSAGE_CHARACTERS]
    except Exception:  # noqa: BLE001 - its __str__ is the pack's
        return "(no text)"


def _plain(details: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = to_jsonable_python(details, fallback=repr, inf_nan_mode="strings")
    return plain


def _unless_empty(delta: PageDelta, view: View) -> PageDelta | None:
    return delta if delta.pages or delta.size_bytes != view.size_bytes else None


def _claim(actor: Actor, mount: Mount, event: str | None = None) -> Claim:
    encoded = msgspec.json.encode(mount.changes.to_json())
    return Claim(actor=actor, changes=msgspec.Raw(encoded), event=event)


def _seed(moment: Moment) -> int:
    """Every write draws its own stream; a read draws the same however often it is made."""
    return (moment.seed * 1_000_003 + moment.counters.get(WRITES, 0)) & 0x7FFF_FFFF_FFFF_FFFF


def seeded_uuid4() -> uuid.UUID:
    """``uuid.uuid4`` from ``random``, which follows the episode's seed."""
    return uuid.UUID(int=random.getrandbits(128), version=4)

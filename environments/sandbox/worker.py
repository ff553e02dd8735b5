"""The gateway's end of one worker: questions in a row, for each an answer or why there is none."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import msgspec

from environments.errors import EnvhubError, FrameRejected, ToolTimedOut, WorkerExited, WorkerLost
from environments.sandbox import wire
from environments.sandbox.alarm import Alarm
from environments.sandbox.confine import processes
from environments.sandbox.known import Known
from snapshots.branch import Branch

_PATIENCE_SECONDS = 0.02
"""How long a question waits behind another before it is asked elsewhere."""
_LONG_SECONDS = 0.05
"""A call that takes longer stands back behind all that are quick."""
_FARTHEST_BACK = 19
_LARGE_BYTES = 32 * 1024
"""Answers beyond that are worth a look at what they cost the gateway."""
_EXIT_GRACE_SECONDS = 1.0
"""A closed channel means that the process is ending; this long its exit status may take."""


class Overtaken(Exception):
    """The worker never came to this question, or nobody will hear its answer: ask another."""


class Question:
    """One thing to ask of a worker. ``answer`` is what ``read`` makes of the reply.

    ``request`` is given the id to answer to and a view of ``branch`` (None without one), then one
    of ``beside`` if that is given.
    """

    __slots__ = (
        "answer", "beside", "branch", "id", "read", "request", "seconds", "slot", "what", "worker",
    )  # fmt: skip

    def __init__(
        self,
        what: str,
        seconds: float,
        request: Callable[..., wire.Request],
        read: Callable[[Question, wire.Reply], Any],
        branch: Branch | None = None,
        beside: Branch | None = None,
    ) -> None:
        self.what = what
        self.seconds = seconds
        self.request = request
        self.read = read
        self.branch = branch
        self.beside = beside
        self.slot = id(branch)  # if another branch is taken for it, only more pages are sent
        self.id = 0
        self.worker: Worker | None = None
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def again(self) -> Question:
        """The same question, to be asked of another worker."""
        return Question(self.what, self.seconds, self.request, self.read, self.branch, self.beside)

    def fail(self, error: EnvhubError | Overtaken) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Worker(asyncio.Protocol):
    """A worker process. Nothing it sends is believed before it is checked.

    ``usable`` turns False for good when it is killed, has died or has spoken out of turn.
    """

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        max_frame_bytes: int,
        kill: Callable[[int], None],
        gone: Callable[[Worker], None],
        free: Callable[[Worker], None],
    ) -> None:
        self.number = number
        self.pid = 0
        self.known = Known()
        self.usable = True
        self.reason = ""
        """Why it is not usable any more."""
        self.spoiled = False
        """It says itself that it must not serve again."""
        self.yields = False
        """Whether it stands back while a call takes long, since others' workers are beside it."""
        self.since = loop.time()
        """When it was started, or last became idle."""
        self.took_seconds = 0.0
        """How long its last answer took."""
        self.cost_seconds = 0.0
        """How long the gateway took to read its last answer, if that was a large one."""
        self._loop = loop
        self._max_frame_bytes = max_frame_bytes
        self._kill = kill
        self._gone = gone
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._wanted = wire.HEADER_BYTES
        self._asked = 0
        self._questions: deque[Question] = deque()  # the first is the one it works on
        self._recalled: dict[int, float] = {}  # seconds that each may take
        self._began = 0.0
        self._deadline = Alarm(loop, self._overdue)
        self._patience = Alarm(loop, self._recall)
        self._length = Alarm(loop, self._stand_back)
        self._alarms = (self._deadline, self._patience, self._length)
        self._stands_back = False
        self._closed = False
        self._status: int | None = None

    @property
    def connected(self) -> bool:
        """Whether the channel is its own to close."""
        return self._transport is not None

    @property
    def load(self) -> int:
        """How many questions it has before it."""
        return len(self._questions) + len(self._recalled)

    @property
    def behind(self) -> bool:
        """Whether it still comes to questions that were asked elsewhere meanwhile."""
        return bool(self._recalled)

    def ask(self, *questions: Question) -> None:
        """Send questions, in one piece; an ``answer`` comes to each, or raises why there is none.

        That is ``ToolTimedOut`` (the worker is killed then), ``WorkerExited``, ``FrameRejected``,
        ``WorkerLost``, what ``read`` raised, or ``Overtaken`` for one behind another that took
        long or ended the worker. Who stops waiting must kill the worker.
        """
        if not self.usable or self._transport is None:
            for question in questions:
                question.fail(WorkerLost(f"the worker for {question.what} is gone"))
            return
        frames = [self._frame(question) for question in questions]
        self._questions.extend(questions)
        if len(self._questions) == len(questions):
            self._begin()
        elif not self._patience.is_set:
            self._patience.set(self._loop.time() + _PATIENCE_SECONDS)
        self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def _frame(self, question: Question) -> bytearray:
        self._asked += 1
        question.id, question.worker = self._asked, self
        branch = question.branch
        views = [self.known.view(question.slot, branch) if branch is not None else None]
        if question.beside is not None:
            views.append(self.known.view(id(question.beside), question.beside))
        return wire.encode_frame(question.request(self._asked, *views))

    def kill(self, reason: str) -> None:
        """End the process and let go of its channel. Idempotent; its questions go to others."""
        self.usable = False
        self.reason = self.reason or reason
        self._drop_questions()
        self._close_timers()
        if self._status is None:
            self._kill(self.number)
        if self._transport is not None:
            self._transport.abort()

    def exited(self, status: int) -> None:
        """The process is gone: its exit code, or minus the signal that ended it."""
        self._status = status
        self._conclude()

    def lost(self) -> None:
        """The process died with the zygote; nobody can tell how."""
        self._status = -signal.SIGKILL
        self._fail("lost", WorkerLost(f"the worker for {self._about} was lost with its zygote"))
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._received:
            self._received += data
            if len(self._received) < self._wanted:
                return  # and is not copied again for every piece of it
            data = bytes(self._received)
            self._received.clear()
        self._wanted = wire.HEADER_BYTES
        while len(data) >= wire.HEADER_BYTES:
            size = wire.frame_bytes(data)
            if size > self._max_frame_bytes + wire.HEADER_BYTES:
                self._reject(f"its answer has {size} bytes, the most is {self._max_frame_bytes}")
                return
            if len(data) < size:
                self._wanted = size
                break
            self._answer(data if len(data) == size else data[:size])
            if len(data) == size or not self.usable:
                return
            data = data[size:]
        self._received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._close_timers()
        if not self._questions:
            self._end("exited")
        elif self._status is None:
            self._loop.call_later(_EXIT_GRACE_SECONDS, self._presume_dead)
        else:
            self._conclude()

    # --- how a question ends ----------------------------------------------------------------------

    def _answer(self, frame: bytes) -> None:
        began = time.perf_counter() if len(frame) > _LARGE_BYTES else 0.0
        try:
            reply = wire.decode_reply(memoryview(frame)[wire.HEADER_BYTES :])
            wire.check_payload(reply.payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._reject(f"its answer is malformed: {error}")
            return
        if reply.id in self._recalled:
            self._answer_late(reply)
            return
        if not self._questions:
            self._reject("it spoke without being asked")
            return
        question = self._questions[0]
        if reply.id != question.id:
            self._reject(f"it answered question {reply.id} instead of {question.id}")
            return
        try:
            answer = question.read(question, reply)
        except EnvhubError as error:
            self._fail("frame" if isinstance(error, FrameRejected) else "refused", error)
            return
        self.cost_seconds = time.perf_counter() - began if began else 0.0
        self._questions.popleft()
        self._stop_timers()
        self.took_seconds = self._loop.time() - self._began
        if self._questions:
            self._begin()
        elif self._recalled:
            self._begin_recalled()
        if not question.answer.done():
            question.answer.set_result(answer)
        self._free(self)  # who waits next is served before anything else happens

    def _begin(self) -> None:
        """It works on the first question now."""
        self._began = now = self._loop.time()
        self._deadline.set(now + self._questions[0].seconds)
        if self.yields:
            self._length.set(now + _LONG_SECONDS)
        if len(self._questions) > 1:
            self._patience.set(now + _PATIENCE_SECONDS)

    def _begin_recalled(self) -> None:
        """It comes to what nobody waits for; that may never end either."""
        self._deadline.set(self._loop.time() + max(self._recalled.values()))

    def _answer_late(self, reply: wire.Reply) -> None:
        """Whoever asked has asked somebody else: it tells no more than whether to go on."""
        del self._recalled[reply.id]
        self._stop_timers()
        if self._recalled:
            self._begin_recalled()
        try:
            sound = not (reply.refused or wire.decode_report(reply.payload).spoiled)
        except (msgspec.MsgspecError, RecursionError):
            sound = False
        self.spoiled = self.spoiled or not sound
        self._free(self)

    def _stand_back(self) -> None:
        """The first question takes long."""
        if not self._stands_back:
            self._stands_back = True
            processes.renice(self.pid, _FARTHEST_BACK, _FARTHEST_BACK)

    def come_forward(self, niceness: int) -> bool:
        """Stand back no farther than others after a call that did not take long; ``False`` where
        only root can do that, and another worker must serve instead."""
        if self._stands_back and self.took_seconds < _LONG_SECONDS:
            self._stands_back = False
            return processes.renice(self.pid, niceness, 0)
        return True

    def _recall(self) -> None:
        """The first question takes long: let those behind it be asked elsewhere.

        The worker will come to them all the same; that answer is dropped and what it then knows
        of their branches is forgotten.
        """
        while len(self._questions) > 1:
            question = self._questions.pop()
            self._recalled[question.id] = question.seconds
            self.known.distrust(question.slot)
            question.fail(Overtaken())

    @property
    def _about(self) -> str:
        return self._questions[0].what if self._questions else "this pack"

    def _close_timers(self) -> None:
        """Whoever serves nobody any more is not to be kept by what it was waiting for."""
        for alarm in self._alarms:
            alarm.close()

    def _stop_timers(self) -> None:
        for alarm in self._alarms:
            alarm.stop()

    def _drop_questions(self) -> None:
        self._stop_timers()
        while self._questions:
            self._questions.popleft().fail(Overtaken())

    def _fail(self, reason: str, error: EnvhubError) -> None:
        """What it works on has failed, and with it the worker."""
        if self._questions:
            self._questions.popleft().fail(error)
        self._drop_questions()
        self._end(reason)

    def _end(self, reason: str) -> None:
        """It serves nobody any more."""
        if self.usable:
            self.usable = False
            self.reason = reason
            self._close_timers()
            self._gone(self)

    def _overdue(self) -> None:
        if not self._questions:
            self._end("deadline")
            return
        seconds = self._questions[0].seconds
        self._fail(
            "deadline",
            ToolTimedOut(
                f"{self._about} ran past its {seconds:g} seconds and was stopped",
                hint="nothing of it counts",
                seconds=seconds,
            ),
        )

    def _reject(self, why: str) -> None:
        self._received.clear()
        self._fail("frame", FrameRejected(f"the worker for {self._about} is killed: {why}"))

    def _presume_dead(self) -> None:
        if self._status is None and self._questions:
            self._fail("exited", WorkerExited(f"{self._about} closed the worker's channel"))

    def _conclude(self) -> None:
        """Attribute the death once channel and process are both gone."""
        if not self._closed or self._status is None or not self._questions:
            return
        status = self._status
        if status == -signal.SIGKILL:  # we kill only after the question is settled
            self._fail("lost", WorkerLost(f"the worker for {self._about} was killed from outside"))
            return
        how = f"with exit code {status}" if status >= 0 else f"by {_signal_name(-status)}"
        self._fail(
            "exited",
            WorkerExited(
                f"{self._about} ended its worker {how}", hint="nothing of it counts", status=status
            ),
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

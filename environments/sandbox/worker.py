"""The gateway's end of one worker: one question at a time, one answer or why there is none."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, cast

import msgspec

from environments.errors import (
    EnvhubError,
    FrameRejected,
    ToolTimedOut,
    WorkerExited,
    WorkerLost,
)
from environments.sandbox import wire
from environments.sandbox.known import Known
from snapshots.branch import Branch

_EXIT_GRACE_SECONDS = 1.0
"""A closed channel means that the process is ending; this long its exit status may take."""


class Question:
    """One thing to ask of a worker. ``answer`` is what ``read`` makes of the reply."""

    __slots__ = ("answer", "branch", "read", "request", "seconds", "slot", "what", "worker")

    def __init__(
        self,
        what: str,
        seconds: float,
        request: Callable[[int, wire.View | None], wire.Request],
        read: Callable[[Question, wire.Reply], Any],
        branch: Branch | None = None,
    ) -> None:
        self.what = what
        self.seconds = seconds
        self.request = request
        self.read = read
        self.branch = branch
        self.slot = id(branch)  # if another branch is taken for it, only more pages are sent
        self.worker: Worker | None = None
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def again(self) -> Question:
        """The same question, to be asked of another worker."""
        return Question(self.what, self.seconds, self.request, self.read, self.branch)

    def fail(self, error: EnvhubError) -> None:
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
        self.since = loop.time()
        """When it was started, or last became idle."""
        self._loop = loop
        self._max_frame_bytes = max_frame_bytes
        self._kill = kill
        self._gone = gone
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._asked = 0
        self._question: Question | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._status: int | None = None

    @property
    def connected(self) -> bool:
        """Whether the channel is its own to close."""
        return self._transport is not None

    def ask(self, question: Question) -> None:
        """Send a question; its ``answer`` comes, or raises why there is none.

        That is ``ToolTimedOut`` (the worker is killed then), ``WorkerExited``, ``FrameRejected``,
        ``WorkerLost`` or what ``read`` raised. Who stops waiting must kill the worker.
        """
        if not self.usable or self._transport is None:
            question.fail(WorkerLost(f"the worker for {question.what} is gone"))
            return
        self._asked += 1
        self._question = question
        question.worker = self
        branch = question.branch
        view = self.known.view(question.slot, branch) if branch is not None else None
        frame = wire.encode_frame(question.request(self._asked, view))
        self._timer = self._loop.call_later(question.seconds, self._expire, question.seconds)
        self._transport.write(frame)

    def kill(self, reason: str) -> None:
        """End the process and let go of its channel. Idempotent; a pending question is dropped."""
        self.usable = False
        self.reason = self.reason or reason
        self._drop_question()
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
            if len(self._received) < wire.HEADER_BYTES:
                return
            data = self._received  # type: ignore[assignment]
        elif len(data) < wire.HEADER_BYTES:
            self._received += data
            return
        size = wire.frame_bytes(data)
        if size > self._max_frame_bytes + wire.HEADER_BYTES:
            self._reject(f"its answer has {size} bytes, the most is {self._max_frame_bytes}")
        elif len(data) == size:
            self._answer(data)
        elif len(data) > size:
            self._reject("it sent more than one answer")
        elif not self._received:
            self._received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._question is None:
            self._end("exited")
        elif self._status is None:
            self._loop.call_later(_EXIT_GRACE_SECONDS, self._presume_dead)
        else:
            self._conclude()

    # --- how a question ends ----------------------------------------------------------------------

    def _answer(self, frame: bytes) -> None:
        try:
            reply = wire.decode_reply(memoryview(frame)[wire.HEADER_BYTES :])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._reject(f"its answer is malformed: {error}")
            return
        finally:
            if self._received:
                self._received = bytearray()
        question = self._question
        if question is None:
            self._reject("it spoke without being asked")
            return
        if reply.id != self._asked:
            self._reject(f"it answered question {reply.id} instead of {self._asked}")
            return
        try:
            answer = question.read(question, reply)
        except EnvhubError as error:
            self._fail("frame" if isinstance(error, FrameRejected) else "refused", error)
            return
        self._drop_question()
        if not question.answer.done():
            question.answer.set_result(answer)
        self._free(self)  # who waits next is served before anything else happens

    @property
    def _about(self) -> str:
        return self._question.what if self._question else "this pack"

    def _drop_question(self) -> None:
        self._question = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, reason: str, error: EnvhubError) -> None:
        question = self._question
        self._drop_question()
        if question is not None:
            question.fail(error)
        self._end(reason)

    def _end(self, reason: str) -> None:
        """It serves nobody any more."""
        if self.usable:
            self.usable = False
            self.reason = reason
            self._gone(self)

    def _expire(self, seconds: float) -> None:
        self._fail(
            "deadline",
            ToolTimedOut(
                f"{self._about} ran past its {seconds:g} seconds and was stopped",
                hint="nothing of it counts",
                seconds=seconds,
            ),
        )

    def _reject(self, why: str) -> None:
        self._received = bytearray()
        self._fail("frame", FrameRejected(f"the worker for {self._about} is killed: {why}"))

    def _presume_dead(self) -> None:
        if self._status is None and self._question is not None:
            self._fail("exited", WorkerExited(f"{self._about} closed the worker's channel"))

    def _conclude(self) -> None:
        """Attribute the death once channel and process are both gone."""
        if not self._closed or self._status is None or self._question is None:
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

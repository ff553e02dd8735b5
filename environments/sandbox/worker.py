"""The gateway's end of one worker: one question at a time, one answer or why there is none."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import cast

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

_EXIT_GRACE_SECONDS = 1.0
"""A closed channel means that the process is ending; this long its exit status may take."""


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
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._asked = 0
        self._pending: asyncio.Future[wire.Reply] | None = None
        self._what = ""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._status: int | None = None

    @property
    def connected(self) -> bool:
        """Whether the channel is its own to close."""
        return self._transport is not None

    def next_id(self) -> int:
        """The id that the next question must carry."""
        self._asked += 1
        return self._asked

    def ask(self, request: wire.Request, seconds: float, what: str) -> asyncio.Future[wire.Reply]:
        """Send a request; the future is its reply.

        It raises ``ToolTimedOut`` (the worker is killed then), ``WorkerExited``, ``FrameRejected``
        or ``WorkerLost``. A caller that stops waiting must kill the worker.
        """
        if not self.usable or self._transport is None:
            raise WorkerLost(f"the worker for {what} is gone")
        self._pending = future = self._loop.create_future()
        self._what = what
        self._timer = self._loop.call_later(seconds, self._expire, seconds)
        self._transport.write(wire.encode_frame(request))
        return future

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
        self._fail("lost", WorkerLost(f"the worker for {self._what} was lost with its zygote"))
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
        if self._pending is None:
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
        pending = self._pending
        if pending is None:
            self._reject("it spoke without being asked")
        elif reply.id != self._asked:
            self._reject(f"it answered question {reply.id} instead of {self._asked}")
        else:
            self._drop_question()
            if not pending.done():
                pending.set_result(reply)

    def _drop_question(self) -> None:
        self._pending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, reason: str, error: EnvhubError) -> None:
        pending = self._pending
        self._drop_question()
        if pending is not None and not pending.done():
            pending.set_exception(error)
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
                f"{self._what} ran past its {seconds:g} seconds and was stopped",
                hint="nothing of it counts",
                seconds=seconds,
            ),
        )

    def _reject(self, why: str) -> None:
        self._received = bytearray()
        what = self._what or "this pack"
        self._fail("frame", FrameRejected(f"the worker for {what} is killed: {why}"))

    def _presume_dead(self) -> None:
        if self._status is None and self._pending is not None:
            self._fail("exited", WorkerExited(f"{self._what} closed the worker's channel"))

    def _conclude(self) -> None:
        """Attribute the death once channel and process are both gone."""
        if not self._closed or self._status is None or self._pending is None:
            return
        status = self._status
        if status == -signal.SIGKILL:  # we kill only after the question is settled
            self._fail("lost", WorkerLost(f"the worker for {self._what} was killed from outside"))
            return
        how = f"with exit code {status}" if status >= 0 else f"by {_signal_name(-status)}"
        self._fail(
            "exited",
            WorkerExited(
                f"{self._what} ended its worker {how}", hint="nothing of it counts", status=status
            ),
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

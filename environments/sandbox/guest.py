"""A worker: confined, then given one job, then asked until its socket closes.

A worker is one of four and never another: it runs a pack's tools (and never sees a verifier), it
judges runs by assertions (and never loads the pack's code), it runs the verifiers that a pack wrote
itself (and never its tools), or it builds a database.
"""

from __future__ import annotations

import gc
import os
import random
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import apsw
import msgspec

from environments.errors import EnvhubError, InfrastructureFault, PackInvalid
from environments.runtimes import fastapi, native, scenario, state
from environments.runtimes.program import Program
from environments.sandbox import wire
from environments.sandbox.clock import StandingClock
from environments.sandbox.confine.layers import Confinement
from environments.sandbox.examiner import Examiner
from environments.sandbox.output import Output
from environments.sandbox.scorer import Scorer, tables_of
from environments.sandbox.stage import Stage, seeded_uuid4, step_error
from snapshots.errors import BuildFailed, SnapshotsError
from snapshots.pages import PageDelta, Snapshot
from snapshots.store import build_database

RUNTIMES: Final[dict[str, Callable[[Path, Snapshot], Program]]] = {
    "native": lambda pack, _: native.load(pack),
    "fastapi": fastapi.load,
    "scenario": lambda pack, _: scenario.load(pack),
    "state": lambda pack, _: state.load(pack),
}
_USUAL_FRAME_BYTES = 256 * 1024


def serve(channel: socket.socket, confinement: Confinement) -> None:
    """Answer the gateway until it closes the channel. Ends the process as the pack's code asks."""
    output = Output.capture()
    try:
        frames = _Frames(channel)
        request = frames.receive()
        if request is None:
            return
        job, reply = _begin(request, output, confinement)
        gc.disable()
        frames.send(reply)
        while job is not None and (request := frames.receive()) is not None:
            frames.send(_answer(job, request))
            _collect_garbage(output)
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)
    os._exit(0)


def _collect_garbage(output: Output) -> None:
    """What the collector would do by itself, but only now that no branch is mounted: a finalizer
    that an earlier episode left would otherwise write into whichever is served when it runs."""
    due = zip(gc.get_count(), gc.get_threshold(), strict=True)
    full = [generation for generation, (count, most) in enumerate(due) if count > most]
    if full:
        gc.collect(max(full))
        output.take()  # what finalizers say is said to nobody


class Job(Protocol):
    def answer(self, request: wire.AnyRequest) -> bytearray:
        """Do what is asked; returns the frame of the reply."""
        ...


def _begin(
    request: wire.AnyRequest, output: Output, confinement: Confinement
) -> tuple[Job | None, bytearray]:
    """Confine this process, then take up the job that the first request names."""
    assert isinstance(
        request, wire.LoadTools | wire.LoadScorer | wire.LoadExaminer | wire.LoadBuilder
    )
    layers = confinement.apply(request.limits)
    try:
        job: Job
        if isinstance(request, wire.LoadTools):
            job = _Player(request, output)
        elif isinstance(request, wire.LoadScorer):
            job = Scorer(request)
        elif isinstance(request, wire.LoadExaminer):
            job = Examiner(request, output)
        else:
            job = _Builder()
    except (EnvhubError, SnapshotsError, apsw.Error, OSError) as error:
        return None, _refusal(request.id, error)
    return job, wire.accepted(request.id, wire.Loaded(layers.active, layers.missing))


def _answer(job: Job, request: wire.AnyRequest) -> bytearray:
    try:
        return job.answer(request)
    except (EnvhubError, SnapshotsError, apsw.Error, OSError) as error:
        return _refusal(request.id, error)


def _refusal(id: int, error: Exception) -> bytearray:
    """The operation could not be done; what the pack is not to blame for is ours."""
    if isinstance(error, BuildFailed):
        error = PackInvalid(error.message, hint=error.hint)
    elif not isinstance(error, EnvhubError):
        error = InfrastructureFault(f"{type(error).__name__}: {error}")
    payload = msgspec.json.encode(step_error(error, ""))
    return wire.encode_frame(wire.Reply(id=id, refused=True, payload=payload))


class _Frames:
    """The channel to the gateway, one request at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = bytearray(_USUAL_FRAME_BYTES)
        self._held = 0  # bytes of the next request that came with the last

    def receive(self) -> wire.AnyRequest | None:
        """The next request; None once the gateway is gone."""
        buffer, got = self._buffer, self._held
        while got < wire.HEADER_BYTES:  # mostly once, and the whole frame with it
            more = self._channel.recv_into(memoryview(buffer)[got:])
            if more == 0:
                return None
            got += more
        size = wire.frame_bytes(buffer)
        if size > len(buffer):  # for this once
            buffer = bytearray(size)
            buffer[:got] = self._buffer[:got]
        whole = memoryview(buffer)[:size]
        while got < size:
            more = self._channel.recv_into(whole[got:])
            if more == 0:
                return None
            got += more
        request: wire.AnyRequest = wire.decode_request(whole[wire.HEADER_BYTES :])
        self._held = got - size
        if self._held:
            buffer[: self._held] = buffer[size:got]
        return request

    def send(self, frame: bytearray) -> None:
        self._channel.sendall(frame)


class _Player:
    """Runs a pack's tools."""

    def __init__(self, request: wire.LoadTools, output: Output) -> None:
        snapshot = Snapshot.open(Path(request.snapshot_path), request.snapshot_digest)
        load = RUNTIMES.get(request.runtime)
        if load is None:
            raise PackInvalid(
                f"runtime {request.runtime!r} is not available",
                hint=f"available: {', '.join(RUNTIMES)}",
            )
        output.limit_bytes = request.output_bytes
        clock = StandingClock(request.clock_ms)
        random.seed(0)
        uuid.uuid4 = seeded_uuid4
        self._program = load(Path(request.pack_path), snapshot)
        output.take()
        self._snapshot = snapshot
        self._stage = Stage(self._program, snapshot, request, output, clock)
        self._max_frame_bytes = request.max_frame_bytes

    def answer(self, request: wire.AnyRequest) -> bytearray:
        match request:
            case wire.Call():
                return self._report(request, self._stage.call(request))
            case wire.Play():
                return self._report(request, self._stage.play(request))
            case wire.Describe():
                tools = tuple(self._program.tools.values())
                return wire.accepted(request.id, wire.Description(tools, tables_of(self._snapshot)))
        raise PackInvalid("a worker of tools was asked for something else")

    def _report(
        self, request: wire.Call | wire.Play, done: tuple[wire.Report, PageDelta | None]
    ) -> bytearray:
        report, delta = done
        try:
            frame = wire.accepted(request.id, report, delta)
            size = len(frame) - wire.HEADER_BYTES
            problem = f"the result and changed pages take {size} bytes"
        except (ValueError, TypeError, RecursionError, MemoryError) as error:
            frame, size = bytearray(), self._max_frame_bytes + 1
            problem = f"the result is not JSON, or too much of it: {error}"
        if size <= self._max_frame_bytes:
            self._stage.settle(request.view.slot, committed=delta is not None)
            return frame
        self._stage.settle(request.view.slot, committed=False)
        return wire.accepted(request.id, self._stage.bad_result(problem, report))


class _Builder:
    """Writes the database of a recipe; its SQL is the pack's, so it is not trusted either."""

    def answer(self, request: wire.AnyRequest) -> bytearray:
        if not isinstance(request, wire.Build):
            raise PackInvalid("a worker that builds was asked for something else")
        build_database(request.recipe, Path(request.path))
        return wire.accepted(request.id, None)

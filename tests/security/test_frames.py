"""Random frames against both ends of a worker's channel. ``make evidence`` sends 100,000 each."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from environments.errors import FrameRejected
from environments.sandbox import wire
from environments.sandbox.questions import read_report
from environments.sandbox.worker import Question, Worker
from snapshots import Branch, SnapshotStore
from snapshots.pages import PageDelta
from tests.environments.sandbox.conftest import Packs
from tests.security.fuzz import Transport, against_guest, against_host

COUNT = 3000


@pytest.mark.anyio
async def test_the_gateways_end_believes_nothing_that_is_not_well_formed(tmp_path: Path) -> None:
    ends = await against_host(COUNT, 7, tmp_path)
    assert ends.total() == COUNT
    assert ends["FrameRejected"] > COUNT // 2
    assert ends["believed"]
    assert ends["WorkerExited"]


@pytest.mark.skipif(sys.platform != "linux", reason="the confinement is Linux's")
def test_a_worker_ends_over_nonsense_and_its_zygote_does_not(tmp_path: Path) -> None:
    ends = against_guest(COUNT, 7, 80, tmp_path)
    assert ends["refused"] + ends["decoded"] == COUNT
    assert ends["worker ended"]
    assert ends["worker answered"]


def _describe(id: int, view: wire.View | None) -> wire.Request:
    return wire.Describe(id=id)


def _ignore(_: Worker) -> None:
    """Nobody waits for it."""


@pytest.mark.anyio
async def test_an_answer_in_crumbs_costs_no_more_than_in_one_piece(tmp_path: Path) -> None:
    """Were what has come copied with every crumb, this would take minutes."""
    snapshot = SnapshotStore(tmp_path).build(Packs(tmp_path).write().recipe())
    worker = Worker(1, asyncio.get_running_loop(), 8 << 20, lambda _: None, _ignore, _ignore)
    worker.connection_made(Transport())
    question = Question("x", 60, _describe, read_report, Branch(snapshot))
    worker.ask(question)
    report = b'{"result":"' + b"x" * (wire.MAX_PAYLOAD_BYTES - 20) + b'"}'
    pages = {number: bytes(4096) for number in range(1, 1000)}
    delta = PageDelta(pages, snapshot.size_bytes, 1)
    frame = bytes(wire.encode_frame(wire.Reply(id=1, refused=False, payload=report, delta=delta)))
    for start in range(0, len(frame), 64):
        worker.data_received(frame[start : start + 64])
    assert isinstance(question.answer.exception(), FrameRejected)  # pages beyond the branch
    assert "page number" in str(question.answer.exception())

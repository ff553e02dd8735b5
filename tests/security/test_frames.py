"""Random frames against both ends of a worker's channel. ``make evidence`` sends 100,000 each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.security.fuzz import against_guest, against_host

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

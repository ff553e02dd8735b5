"""Random requests against a hub. ``make evidence`` sends 20,000."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.security.requests import Fault, judge, run

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc"),
]


async def test_no_request_is_answered_by_a_fault_of_ours_or_leaves_something(
    tmp_path: Path,
) -> None:
    fuzz, held = await run(240, 7, tmp_path)
    judge(fuzz, held)
    for answered in ("rest 2", "rest 4", "mcp 2", "mcp 4", "raw 4"):
        assert any(kind.startswith(answered) for kind in fuzz.counts), answered


async def test_a_fault_is_found(tmp_path: Path) -> None:
    fuzz, held = await run(60, 7, tmp_path, "--broken")
    with pytest.raises(Fault, match="INTERNAL_ERROR"):
        judge(fuzz, held)

"""Random requests against a hub. ``make evidence`` sends 20,000."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hub.admission import Admission
from hub.errors import AtCapacity
from hub.mcp_server.jsonrpc import encode_error, error_of
from tests.security.requests import OURS, Fault, is_ours, judge, run

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


async def test_a_hub_is_full_when_it_is_and_not_when_it_says_so() -> None:
    async def refusal(held: int, limit: int, count: int) -> bytes:
        room = Admission(limit, lambda: 1.0)
        await room.admit(held)
        with pytest.raises(AtCapacity) as caught:
            await room.admit(count)
        return encode_error(1, error_of(caught.value))

    full = await refusal(2000, 2000, 1)
    assert OURS.search(full)
    assert not is_ours(full)
    assert not is_ours(await refusal(990, 2000, 1011))
    assert is_ours(full.replace(b"holds 2000", b"holds 20"))
    assert is_ours(full + b'"code":"LEDGER_FAILED"')
    assert is_ours(b'{"error":{"code":-32603,"message":"AT_CAPACITY"}}')


def test_what_a_request_said_is_no_fault_of_ours() -> None:
    assert not is_ours(b'{"code":"UNKNOWN_EPISODE","message":"no episode \'LEDGER_FAILED\'"}')
    assert is_ours(rb'{"text":"{\"kind\":\"infrastructure\",\"code\":\"LEDGER_FAILED\"}"}')
    assert is_ours(b'Traceback (most recent call last):\n  File "hub/app.py", line 7, in serve')
    assert is_ours(rb'{"message":"File \"hub/app.py\", line 7"}')


async def test_a_fault_is_found(tmp_path: Path) -> None:
    fuzz, held = await run(60, 7, tmp_path, "--broken")
    with pytest.raises(Fault, match="INTERNAL_ERROR"):
        judge(fuzz, held)

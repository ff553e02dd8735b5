"""Verifiers held against their oracles, as they stand and altered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from environments.environment import Environment
from environments.errors import InfrastructureFault, WorkerLost
from environments.synthesis.construct import construct
from environments.synthesis.holding import held
from environments.synthesis.workshop import workshop
from environments.trajectory import Reward
from environments.verifier.reward import unset
from tests.environments.synthesis.test_construct import DESK, TASK

pytestmark = pytest.mark.anyio


async def test_what_is_too_loose_does_not_hold_and_a_lost_worker_is_no_fault_of_the_verifier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with workshop() as place:
        bare = await place.opened(DESK.with_tasks([TASK]))
        expect = (await construct(bare, TASK)).expect({}, without=())
        task = msgspec.structs.replace(TASK, verifier={"expect": expect})
        environment = bare.with_tasks([task])
        assert await held(environment, task) == []
        made = [entry for entry in expect if entry["table"] == "callers"]
        allowed = {"expect": made, "allow": [{"table": "calls"}]}
        loose = msgspec.structs.replace(task, verifier=allowed)
        problems = await held(bare.with_tasks([loose]), loose)
        assert any("scores 1 without oracle call" in problem for problem in problems), problems

        async def lost(*_: Any) -> Reward:
            return unset(WorkerLost("killed from outside"))

        monkeypatch.setattr(Environment, "score", lost)
        with pytest.raises(InfrastructureFault, match="killed from outside"):
            await held(environment, task)

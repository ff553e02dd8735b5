"""What the gate says of a pack in the making, and when it is asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import InfrastructureFault, WorkerLost
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.spec import EnvironmentSpec, Limits, OracleCall, Task
from environments.synthesis.makeup import gate_report
from environments.synthesis.workshop import Draft
from environments.trajectory import Reward, Step
from environments.verifier.reward import unset
from snapshots import Snapshot, SnapshotStore

pytestmark = pytest.mark.anyio

TOOLS = '''"""The tool of a lamp."""

from environments.authoring import Database, tool


@tool(read_only=False)
def dim(db: Database, lamp_id: str, percent: int) -> dict:
    """Set how bright a lamp is."""
    db.run("UPDATE lamps SET percent = ? WHERE id = ?", percent, lamp_id)
    return {}
'''
LAMP = Draft(
    EnvironmentSpec(name="lamp", version="1.0.0", title="Lamp", summary="A lamp.", domain="home"),
    schema="CREATE TABLE lamps (id TEXT NOT NULL PRIMARY KEY, percent INTEGER NOT NULL);",
    rows={"lamps": [{"id": "L-4711", "percent": 0}, {"id": "L-4718", "percent": 0}]},
    tools=TOOLS,
    tasks=(
        Task(
            id="light",
            instruction="Dim lamp L-4711 to 37 percent.",
            verifier={
                "expect": [{"table": "lamps", "where": {"id": "L-4711"}, "set": {"percent": 37}}]
            },
            oracle=(OracleCall(tool="dim", arguments={"lamp_id": "L-4711", "percent": 37}),),
        ),
    ),
)


class Counting(SnapshotStore):
    """Counts how often a database is built, which every try of the gate begins with."""

    built = 0

    def admit(self, digest: str, path: Path, *, foreign_keys: bool = True) -> Snapshot:
        self.built += 1
        return super().admit(digest, path, foreign_keys=foreign_keys)


@pytest.fixture(scope="module")
async def sandbox(anyio_backend: object) -> AsyncIterator[Sandbox]:
    async with Sandbox(SandboxLimits()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("statement", "seconds", "passed", "tries"),
    [
        ("", 30.0, True, 1),
        ("db.run('DELETE FROM lamps')", 30.0, False, 1),
        ("while True: pass", 0.3, False, 2),
    ],
)
async def test_the_gate_is_tried_again_where_a_worker_ran_out_of_time(
    sandbox: Sandbox, tmp_path: Path, statement: str, seconds: float, passed: bool, tries: int
) -> None:
    store = Counting(tmp_path / "snapshots")
    folder = tmp_path / "lamp"
    tools = TOOLS.replace("    return {}", f"    {statement}\n    return {{}}")
    spec = msgspec.structs.replace(LAMP.spec, limits=Limits(call_seconds=seconds))
    replace(LAMP, spec=spec, tools=tools).write(folder)
    report = await gate_report(folder, store, sandbox)
    assert (report.passed, store.built) == (passed, tries), report.failures


async def lost_at_a_call(*_: Any) -> Step:
    raise WorkerLost("killed from outside")


async def lost_at_the_end(*_: Any) -> Reward:
    return unset(WorkerLost("killed from outside"))


@pytest.mark.parametrize(
    ("of", "name", "lost"),
    [(Episode, "call", lost_at_a_call), (Environment, "score", lost_at_the_end)],
)
async def test_a_lost_worker_is_raised_and_no_finding(
    sandbox: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of: type,
    name: str,
    lost: Callable[..., Any],
) -> None:
    LAMP.write(tmp_path / "lamp")
    monkeypatch.setattr(of, name, lost)
    with pytest.raises(InfrastructureFault, match="killed from outside"):
        await gate_report(tmp_path / "lamp", SnapshotStore(tmp_path / "snapshots"), sandbox)

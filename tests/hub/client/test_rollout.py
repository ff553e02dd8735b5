"""The example as it stands, and runs that come out the same twice."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.client import AsyncEpisode, AsyncHub, Trajectory
from tests.hub.served import served

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "rollout.py"


def test_the_example_plays_every_environment_and_its_runs_are_confirmed(tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 40
    out = tmp_path / "runs.jsonl"
    command = [sys.executable, EXAMPLE, "--out", out]
    subprocess.run(command, check=True, timeout=280, capture_output=True)
    runs = [msgspec.json.decode(line, type=Trajectory) for line in out.read_bytes().splitlines()]
    environments = {run.environment for run in runs}
    assert {"banking", "helpdesk", "procurement"} <= environments
    assert len(runs) == 64 * len(environments)
    assert all(run.stop_reason in ("answered", "failed") and run.steps for run in runs)
    verify = [sys.executable, "-m", "hub.cli", "verify", out]
    done = subprocess.run(verify, check=False, timeout=280, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{len(runs)} of {len(runs)} runs are confirmed" in done.stdout


async def play(episode: AsyncEpisode) -> None:
    """Anything at all, chosen by dice from what was seen."""
    dice = random.Random(f"{episode.task} {episode.place.repetition}")
    seen: list[Any] = ["A-1"]
    tools = [tool["function"] for tool in await episode.tools()]
    for _ in range(10):
        tool = dice.choice(tools)
        properties = tool["parameters"]["properties"]
        arguments = {
            name: dice.choice(seen) if properties[name].get("type") == "string" else 1
            for name in tool["parameters"].get("required", ())
        }
        answer = await episode.call(tool["name"], arguments)
        seen += re.findall(r'"([\w-]*\d)"', episode.observation(answer))
    await episode.score("done")


async def rollout(address: str, environment: str) -> list[bytes]:
    async with AsyncHub(address) as hub:
        groups = [
            await hub.group(
                environment, task.id, size=4, seed=11, faults="flaky", key=f"twice/{task.id}"
            )
            for task in (await hub.tasks(environment))[:4]
        ]
        await asyncio.gather(*(play(episode) for group in groups for episode in group))
        await asyncio.gather(*(group.close() for group in groups))
        runs = {run.id: run async for _, run in hub.trajectories()}
    return [_without_times(runs[episode.id]) for group in groups for episode in group]


def _without_times(run: Trajectory) -> bytes:
    steps = tuple(msgspec.structs.replace(step, latency_ms=0.0) for step in run.steps)
    return msgspec.json.encode(msgspec.structs.replace(run, steps=steps))


@pytest.mark.anyio
@pytest.mark.parametrize("environment", ["procurement", "purchasing"])
async def test_the_same_seed_task_and_policy_give_the_same_bytes_in_other_workers(
    environment: str, tmp_path: Path
) -> None:
    rollouts = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with served(tmp_path / name / "data") as hub:
            rollouts.append(await rollout(hub.address, environment))
    first, second = rollouts
    assert len(first) == 16
    for one, other in zip(first, second, strict=True):
        assert one == other
    faults = [
        step.fault for line in first for step in msgspec.json.decode(line, type=Trajectory).steps
    ]
    assert any(faults), "faults were injected"
    assert len(set(first)) == len(first), "members play differently"

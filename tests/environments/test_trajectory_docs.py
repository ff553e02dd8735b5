"""docs/trajectories.md and docs/checking.md name every field, status, gate and setting."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from environments import trajectory
from environments.check import check_packs
from environments.replay import Status
from environments.scaffold import new_pack
from hub.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
TRAJECTORIES = (DOCS / "trajectories.md").read_text()
CHECKING = (DOCS / "checking.md").read_text()


def section(title: str) -> str:
    return TRAJECTORIES.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (trajectory.Trajectory, "A trajectory"),
        (trajectory.Window, "A trajectory"),
        (trajectory.ModelCall, "A trajectory"),
        (trajectory.Step, "A step"),
        (trajectory.StepError, "A step"),
        (trajectory.Change, "A step"),
        (trajectory.Fault, "A step"),
        (trajectory.Reward, "A reward"),
        (trajectory.Component, "A reward"),
        (trajectory.Term, "A reward"),
    ],
)
def test_every_field_is_documented(kind: type[msgspec.Struct], title: str) -> None:
    named = set(re.findall(r"`(\w+)`", section(title)))
    assert set(kind.__struct_fields__) <= named


def test_the_table_names_no_field_that_is_not_there() -> None:
    for kind, title in (
        (trajectory.Trajectory, "A trajectory"),
        (trajectory.Step, "A step"),
        (trajectory.Reward, "A reward"),
    ):
        rows = re.findall(r"^\| `(\w+)` \|", section(title), re.MULTILINE)
        assert [row for row in rows if row != "format"] == list(kind.__struct_fields__)


def test_every_word_is_documented() -> None:
    for word in (*get_args(trajectory.StopReason), *get_args(trajectory.Outcome)):
        assert f"`{word}`" in TRAJECTORIES
    for status in get_args(Status):
        assert f"| `{status}` |" in section("Verifying")
    assert trajectory.TRAJECTORY_FORMAT in TRAJECTORIES


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TRAJECTORIES, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "answered 1.0 3\n", done.stderr


@pytest.mark.anyio
async def test_every_gate_and_setting_is_documented(tmp_path: Path) -> None:
    (report,) = await check_packs([new_pack("library", tmp_path)])
    gates = re.findall(
        r"^\| ([a-z][^`|]*?) \| ", CHECKING.partition("## `envhub lint")[0], re.MULTILINE
    )
    assert gates[1:] == [finding.name for finding in report.findings]
    for field in msgspec.structs.fields(Settings):
        if field.name.startswith("judge"):
            assert f"`ENVHUB_{field.name.upper()}`" in CHECKING

"""Which layers are on, for whom, and what is said where one is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from environments.sandbox.confine.layers import LAYERS
from environments.sandbox.host import Sandbox, SandboxLimits
from hub.app import Hub
from hub.cli.doctor import LAYERS as EXPLAINED
from hub.errors import SandboxIncomplete
from hub.settings import Settings
from tests.security.somebody import CANNOT

ROOT = Path(__file__).resolve().parents[2]
NO_LANDLOCK = "--refuse=landlock_create_ruleset,landlock_add_rule,landlock_restrict_self"
linux = pytest.mark.skipif(sys.platform != "linux", reason="the confinement is Linux's")


def as_somebody(
    options: tuple[str, ...], *command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.somebody", *options, "--", *command],
        check=False,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip())
    return done


def doctor(*options: str, data_dir: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Its exit code, its findings by what they are about, what it complains about."""
    done = as_somebody(
        options, "-m", "hub.cli", "doctor", "--json", ENVHUB_DATA_DIR=data_dir, COLUMNS="200"
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, {each["what"]: each for each in json.loads(done.stdout)}, done.stderr


def off(findings: dict[str, dict[str, Any]]) -> set[str]:
    layers = {what.removeprefix("layer ") for what in findings if what.startswith("layer ")}
    assert layers == set(LAYERS)
    return {layer for layer in layers if not findings[f"layer {layer}"]["good"]}


@linux
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--container",),
        ("--user", "65534"),
        ("--user", "65532", "--container"),
    ],
    ids=["ourselves", "in a container", "nobody", "65532 in a container"],
)
def test_every_layer_is_on_for(options: tuple[str, ...]) -> None:
    data_dir = f"/tmp/envhub-doctor-{os.getpid()}-{'-'.join(options).replace('--', '')}"
    try:
        code, findings, said = doctor(*options, data_dir=data_dir)
    finally:
        for path in sorted(Path(data_dir).rglob("*"), reverse=True):
            path.unlink()
        if Path(data_dir).exists():
            Path(data_dir).rmdir()
    assert off(findings) == set()
    assert (code, said) == (0, "")


@linux
@pytest.mark.parametrize(
    ("option", "layers"),
    [
        (NO_LANDLOCK, {"landlock"}),
        ("--refuse=capset", {"no_capabilities"}),
    ],
)
def test_doctor_tells_what_is_missing(option: str, layers: set[str], tmp_path: Path) -> None:
    code, findings, said = doctor(option, data_dir=str(tmp_path / "data"))
    assert off(findings) == layers
    for layer in layers:
        assert "needs" in findings[f"layer {layer}"]["note"]
        assert layer in said
    assert code == 1


@linux
def test_told_to_the_hub_refuses_to_serve_without_a_layer(tmp_path: Path) -> None:
    serve = ("-m", "hub.cli", "serve", "--port", "0", "--data-dir", str(tmp_path / "data"))
    done = as_somebody((NO_LANDLOCK,), *serve, "--require-sandbox")
    assert done.returncode == 1
    assert "without landlock" in done.stderr
    assert "envhub doctor" in done.stderr
    assert "listening" not in done.stdout


@pytest.mark.anyio
async def test_a_hub_says_by_what_workers_are_held(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", shipped=False)
    async with Hub.open(settings) as hub:
        text = hub.metrics.render().decode()
    assert set(EXPLAINED) == set(LAYERS)
    missing = 0
    for layer in LAYERS:
        on = f'envhub_sandbox_layer{{layer="{layer}"}} 1.0' in text
        missing += not on
        assert on or f'envhub_sandbox_layer{{layer="{layer}"}} 0.0' in text
    assert f"envhub_sandbox_layers_missing {missing:.1f}" in text


@pytest.mark.anyio
async def test_a_layer_left_out_is_missing_and_warned_of(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with Sandbox(SandboxLimits(without=("landlock", "core"))) as sandbox:
        layers = await sandbox.layers()
    assert {"landlock", "core"} <= set(layers.missing)
    assert set(layers.active) | set(layers.missing) == set(LAYERS)
    assert "landlock" in caplog.text


@linux
@pytest.mark.anyio
async def test_a_required_layer_is_an_error_of_the_hubs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hub.app._limits", lambda settings: SandboxLimits(without=("seccomp", "memory"))
    )
    settings = Settings(data_dir=tmp_path / "data", shipped=False, require_sandbox=True)
    with pytest.raises(SandboxIncomplete, match=r"memory.*seccomp"):
        async with Hub.open(settings):
            pass
    assert SandboxIncomplete.kind == "infrastructure"

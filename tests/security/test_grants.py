"""What a pack can make the sandbox grant it: its own files, nothing by a link or a dotted path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from environments.errors import PackInvalid
from environments.sandbox import jobs
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.sandbox.wire import LoadExaminer
from snapshots import SnapshotStore
from tests.environments.sandbox.conftest import Packs

linux = pytest.mark.skipif(sys.platform != "linux", reason="the confinement is Linux's")
READING = """
@tool(read_only=True)
def read(path: str) -> str:
    "Read a file."
    with open(path) as file:
        return file.read(200)
"""


@linux
@pytest.mark.anyio
async def test_its_own_code_and_what_is_imported_can_be_read(tmp_path: Path) -> None:
    packs = Packs(tmp_path)
    async with Sandbox() as sandbox:
        world = packs.world(sandbox, READING)
        for path in (world.pack.path / "tools.py", sys.modules["json"].__file__):
            assert (await world.call("read", path=str(path))).error is None
        error = (await world.call("read", path=str(world.pack.path / "data.sql"))).error
        assert error is not None
        assert "PermissionError" in error.message


@linux
@pytest.mark.anyio
async def test_a_link_for_tools_grants_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("SECRET = 'x'\n")
    packs = Packs(tmp_path)
    async with Sandbox() as sandbox:
        world = packs.world(sandbox, READING)
        (world.pack.path / "tools.py").unlink()
        (world.pack.path / "tools.py").symlink_to(secret)
        with pytest.raises(PackInvalid, match="PermissionError"):
            await world.call("read", path=str(secret))


@pytest.mark.parametrize("file", ["../secret.txt", "/etc/hostname"])
def test_a_verifier_elsewhere_grants_nothing(tmp_path: Path, file: str) -> None:
    """A task that names such a file is refused; another task of its pack must not profit."""
    tasks = '{"id":"t","instruction":"x","verifier":{"code":{"kind":"native","file":"%s"}}}\n'
    pack = Packs(tmp_path).write(tasks_jsonl=tasks % file)
    snapshot = SnapshotStore(tmp_path / "snapshots").build(pack.recipe())
    load = jobs.examiners(pack, snapshot, tmp_path / "states", SandboxLimits()).load(1)
    assert isinstance(load, LoadExaminer)
    assert set(load.limits.readable) == {str(snapshot.path), str(tmp_path / "states")}

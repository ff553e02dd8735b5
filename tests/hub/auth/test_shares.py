"""One tenant's endless calls, seen from another's requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hub.app import App, Hub
from hub.auth import SCOPES
from hub.auth.tokens import TokenFile
from hub.settings import Settings
from tests.environments.sandbox.conftest import until
from tests.hub.auth.asking import Answer, Asking
from tests.hub.conftest import PACKS

pytestmark = pytest.mark.anyio

TOOLS = """
from environments.authoring import tool

@tool(read_only=True)
def spin() -> None:
    "Compute for ever."
    while True: pass
"""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """Three environments that never answer, beside the shop; a tenant may have one busy worker."""
    for number in range(3):
        pack = tmp_path / "packs" / f"spin{number}"
        pack.mkdir(parents=True)
        (pack / "environment.toml").write_text(
            f'name = "spin{number}"\nversion = "1"\ntitle = "Spin"\nsummary = "Spins"\n'
            "[limits]\ncall_seconds = 1\n"
        )
        (pack / "schema.sql").write_text("CREATE TABLE t (id INTEGER PRIMARY KEY);")
        (pack / "tools.py").write_text(TOOLS)
    settings = Settings(
        data_dir=tmp_path / "data",
        packs=(tmp_path / "packs", PACKS / "shop"),
        shipped=False,
        tenant_workers=1,
    )
    settings.data_dir.mkdir()
    TokenFile(settings.data_dir / "tokens.json").create("first", "first", ["admin"])
    async with Hub.open(settings) as opened:
        yield opened


async def test_queued_calls_are_answered_and_another_tenant_does_not_wait(hub: Hub) -> None:
    file, app = TokenFile(hub.settings.data_dir / "tokens.json"), App(hub)
    hostile, quiet = (
        Asking(app, file.create(name, name, SCOPES[:3])) for name in ("hostile", "quiet")
    )

    async def begin(asking: Asking, environment: str) -> str:
        answer = await asking.ask("POST", "/v1/episodes", {"environment": environment})
        assert answer.status == 201, answer.body
        return f"/v1/episodes/{answer.json['id']}/call"

    spins = [await begin(hostile, f"spin{number}") for number in range(3)]
    shop = await begin(quiet, "shop")
    stock = {"tool": "list_products", "arguments": {}}
    assert (await quiet.ask("POST", shop, stock)).status == 200
    answers: list[Answer] = []

    async def spin(path: str) -> None:
        answers.append(await hostile.ask("POST", path, {"tool": "spin", "arguments": {}}))

    def waiting() -> bool:
        return hub.sandbox.statistics().queued == 2

    async with anyio.create_task_group() as group:
        for path in spins:
            group.start_soon(spin, path)
        await until(waiting)
        for _ in range(5):
            assert (await quiet.ask("POST", shop, stock)).status == 200
            assert waiting() or answers, "the others of its tenant queue meanwhile"
    codes = [answer.json["step"]["error"]["code"] for answer in answers]
    assert codes == ["TOOL_TIMED_OUT"] * 3

    async with anyio.create_task_group() as group:  # clients that do not wait for their answers
        for path in spins:
            group.start_soon(spin, path)
        await until(waiting)
        group.cancel_scope.cancel()
    await until(lambda: hub.sandbox.statistics().queued == 0)
    assert (await quiet.ask("POST", shop, stock)).status == 200

"""The public MCP conformance suite against our MCP layer, in both eras."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path

import anyio
import pytest
from starlette.types import Scope

from hub.mcp_server.http import McpHttp
from hub.mcp_server.surface import Surface
from tests.conformance.fixture import FixtureSurface
from tests.conformance.node import HERE, Node
from tests.hub.mcp_server.serving import served

NOT_APPLICABLE = tomllib.loads((HERE / "not_applicable.toml").read_text())
RUN_SECONDS = 120
PASSING = {"SUCCESS", "INFO", "SKIPPED"}


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_scenario_passes_or_does_not_apply(
    node: Node, revision: str, tmp_path: Path
) -> None:
    surface = FixtureSurface()

    async def resolve(scope: Scope) -> Surface:
        return surface

    async with served(McpHttp(resolve, secret=bytes(32))) as url:
        command = [*node.conformance, "server", "--url", f"{url}/mcp"]
        command += ["--requirements", revision, "--output-dir", str(tmp_path)]
        with anyio.fail_after(RUN_SECONDS):
            run = await anyio.run_process(
                command, check=False, cwd=tmp_path, stdin=subprocess.DEVNULL
            )
    report = run.stdout.decode() + run.stderr.decode()
    verdicts = read_verdicts(tmp_path)
    assert set(required(node, revision)) <= verdicts.keys(), report
    passing = {
        name
        for name, statuses in verdicts.items()
        if "SUCCESS" in statuses and set(statuses) <= PASSING
    }
    listed = set(NOT_APPLICABLE[revision])
    assert verdicts.keys() - passing == listed, report


def read_verdicts(folder: Path) -> dict[str, list[str]]:
    """The status of every check, by scenario."""
    verdicts = defaultdict(list)
    for path in folder.glob("server-*/checks.json"):
        named = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", path.parent.name)
        assert named is not None, path
        verdicts[named[1]] += [check["status"] for check in json.loads(path.read_text())]
    return verdicts


def required(node: Node, revision: str) -> list[str]:
    """The scenarios a revision requires of a server, as the suite lists them."""
    text = (node.requirements / f"{revision}.yaml").read_text()
    section = re.search(r"^server:\n((?:  - .+\n)+)", text, re.MULTILINE)
    assert section is not None
    return re.findall(r"- (\S+)", section[1])

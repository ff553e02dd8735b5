"""The ``envhub`` command: what it prints, its exit codes, and that no mistake is a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from hub.cli import main
from tests.hub.served import PACKS, served

ROW = r"^(oracle|nothing|random|greedy-wrong) +(\S+) +(\d+) +(\d+) +(\d+)"
SHOP = str(PACKS / "shop")


@pytest.fixture(autouse=True)
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")


class Said:
    """What a run of the command said and how it ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        self.code = ended.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"envhub \d+\.\d+\.\d+\n", Said(capsys, "version").out)
    helped = Said(capsys, "--help")
    for command in ("new", "list", "show", "check", "serve", "stdio", "connect", "demo"):
        assert re.search(rf"^  {command} ", helped.out, re.MULTILINE)


def test_list_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "list", "--packs", SHOP)
    assert said.code == 0
    for name in ("banking", "helpdesk", "procurement", "purchasing", "shop"):
        assert re.search(rf"^{name}\b", said.out, re.MULTILINE)
    listed = json.loads(Said(capsys, "list", "--packs", SHOP, "--json").out)
    shop = next(pack for pack in listed if pack["name"] == "shop")
    assert len(shop["digest"]) == 64


def test_a_broken_pack_is_told_and_hides_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copytree(SHOP, tmp_path / "packs" / "shop")
    shutil.copytree(SHOP, tmp_path / "packs" / "broken")
    manifest = tmp_path / "packs" / "broken" / "environment.toml"
    manifest.write_text(manifest.read_text().replace("summary", "sumary"))
    said = Said(capsys, "list", "--packs", str(tmp_path / "packs"))
    assert said.code == 1
    assert "shop" in said.out
    assert "sumary" in said.err
    assert "summary" in said.err, "the hint"


def test_show_tells_tools_tables_and_tasks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said(capsys, "show", "shop", "--packs", SHOP)
    assert said.code == 0
    for word in ("Corner shop", "list_products", "orders", "ordered_at", "wait-for-tea"):
        assert word in said.out
    shown = json.loads(Said(capsys, "show", SHOP, "--json").out)
    assert [tool["name"] for tool in shown["tools"]][:2] == ["list_products", "order"]
    assert "verifier" not in str(shown)
    monkeypatch.chdir(PACKS)
    assert json.loads(Said(capsys, "show", "shop", "--json").out) == shown, "a folder, as it stands"


def test_a_new_pack_passes_its_own_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = Said(capsys, "new", "kiosk", "--in", str(tmp_path))
    assert made.code == 0
    assert str(tmp_path / "kiosk") in made.out
    checked = Said(capsys, "check", str(tmp_path / "kiosk"))
    assert checked.code == 0, checked.out
    assert "passes" in checked.out
    again = Said(capsys, "new", "kiosk", "--in", str(tmp_path))
    assert (again.code, "already there" in again.err) == (1, True)
    odd = Said(capsys, "new", "Kiosk!", "--in", str(tmp_path))
    assert (odd.code, "Kiosk!" in odd.err) == (1, True)


def test_opening_a_broken_pack_names_the_file_and_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = Said(capsys, "show", str(PACKS / "broken" / "schema-error"))
    assert (said.code, "schema.sql, line 1" in said.err) == (1, True)


def test_check_fails_with_a_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pack = tmp_path / "shop"
    shutil.copytree(SHOP, pack)
    tasks = pack / "tasks.jsonl"
    tasks.write_text(tasks.read_text().replace('"quantity": 2}}]', '"quantity": 3}}]', 1))
    said = Said(capsys, "check", str(pack), "--json")
    assert said.code == 1
    (report,) = json.loads(said.out)
    assert report["passed"] is False
    failed = [finding for finding in report["findings"] if not finding["passed"]]
    assert any("buy-tea" in finding["detail"] for finding in failed)


def test_connect_gives_every_client_a_seat_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    said = [Said(capsys, "connect", "banking", "--url", "http://hub.example:1") for _ in range(2)]
    addresses = {each.out.splitlines()[0] for each in said}
    assert len(addresses) == 2
    pattern = r"http://hub\.example:1/environments/banking/mcp\?seat=[\w-]{12}"
    assert all(re.fullmatch(pattern, address) for address in addresses)
    address = said[0].out.splitlines()[0]
    assert f"claude mcp add --transport http banking '{address}'" in said[0].out
    assert said[0].out.count(address) == 4
    program = re.search(r'"command": "([^"]+)"', said[0].out)
    assert program is not None
    assert Path(program[1]).is_absolute()
    assert os.access(program[1], os.X_OK)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("show", "bankin"), 1, "did you mean banking"),
        (("connect", "bankin"), 1, "did you mean banking"),
        (("stdio", "bankin"), 1, "did you mean banking"),
        (("stdio", "banking", "--task", "nothing"), 1, "nothing"),
        (("demo", "--environment", "bankin"), 1, "did you mean banking"),
        (("check", "bankin"), 1, "did you mean banking"),
        (("check", "./nowhere"), 1, "nowhere"),
        (("list", "--packs", "/nowhere"), 1, "/nowhere"),
        (("serve", "--durability", "maybe"), 2, "durability"),
        (("serve", "--port", "99999"), 2, "65535"),
        (("serve", "--data-dir", "/proc/none"), 1, "data directory"),
        (("serve", "--packs", "/nowhere", "--port", "0"), 1, "/nowhere"),
        (("sevre",), 2, "sevre"),
    ],
)
def test_mistakes_are_told_in_words(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, word: str
) -> None:
    said = Said(capsys, *arguments)
    assert said.code == code, said.out + said.err
    assert word in said.err + said.out


def test_a_port_in_use_and_a_data_directory_in_use(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = Said(capsys, "serve", "--port", str(taken.getsockname()[1]))
        assert said.code == 1
        assert "--port 0" in said.err
    with served(tmp_path / "data") as hub:
        said = Said(capsys, "serve", "--port", "0")
        assert said.code == 1
        assert f"process {hub.process.pid}" in said.err
        assert "--data-dir" in said.err


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_stdio_serves_the_official_client(mode: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "hub.cli", "stdio", "shop", "--packs", SHOP]
    )
    async with Client(server, mode=mode) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        order = await client.call_tool("order", {"sku": "TEA-100", "quantity": 2})
        look = await client.call_tool("list_products", {})
    assert {"order", "wait", "reset_environment"} <= tools
    assert order.structured_content["price_cents"] == 900
    assert '"stock":10' in look.content[0].text.replace(" ", "")


def test_demo_plays_eight_episodes_and_shows_what_changed() -> None:
    command = [sys.executable, "-m", "hub.cli", "demo", "--environment", "banking"]
    elsewhere = {
        "ENVHUB_OAUTH_ISSUER": "https://issuer.example",
        "ENVHUB_PUBLIC_URL": "https://hub.example",
        "ENVHUB_TLS_CERTIFICATE": "/nowhere/hub.pem",
        "ENVHUB_TLS_KEY": "/nowhere/hub.key",
    }  # of a hub that others use, not of this one
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **elsewhere},
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^(oracle|nothing|random|greedy-wrong) +(\S+) +(\d+) +(\d+) +(\d+)",
        done.stdout,
        re.MULTILINE,
    )
    assert [row[0] for row in rows] == [
        policy for policy in ("oracle", "nothing", "random", "greedy-wrong") for _ in range(2)
    ]
    rewards = {row[0]: row[1] for row in rows}
    assert rewards == {"oracle": "1", "nothing": "0", "random": "0", "greedy-wrong": "0"}
    assert all(int(row[3]) > 0 for row in rows if row[0] == "oracle")
    assert all(int(row[3]) == 0 for row in rows if row[0] == "nothing")
    changed = done.stdout.partition("row by row")[2]
    assert re.search(r"^  \+ \w+=", changed, re.MULTILINE)
    assert re.search(r"^  ~ \w+=.* -> ", changed, re.MULTILINE)

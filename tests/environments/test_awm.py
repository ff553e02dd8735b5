"""Agent World Model's files become packs that behave as their originals did."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from mcp import Client, StdioServerParameters

from environments.catalogue import load_pack
from environments.check import check_packs
from environments.environment import Environments, open_environments
from environments.episode import Episode
from environments.importers.awm import AwmSource, sources
from environments.importers.source import ImportRefused, Written
from snapshots import SnapshotStore
from tests.awm_files import put, write_awm

SHOP, LIBRARY = "repair_shop", "lending_library_books_loans"


class Imported(NamedTuple):
    """Where the packs are, and what was told of each."""

    packs: Path
    told: dict[str, Written]


def found(folder: Path) -> dict[str, AwmSource]:
    return {source.name: source for source in sources(folder)}


def written(folder: Path, into: Path) -> dict[str, Written]:
    told = {}
    for name, source in found(folder).items():
        (into / name).mkdir(parents=True)
        told[name] = source.write(into / name)
    return told


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_awm(tmp_path_factory.mktemp("awm"))


@pytest.fixture(scope="module")
def imported(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    into = tmp_path_factory.mktemp("packs")
    return Imported(into, written(files, into))


@pytest.fixture(scope="module")
def packs(imported: Imported) -> Path:
    return imported.packs


@pytest.fixture(scope="module")
async def environments(anyio_backend: object, packs: Path) -> AsyncIterator[Environments]:
    async with open_environments([packs]) as opened:
        yield opened


def test_lines_are_joined_by_normalised_name(files: Path, tmp_path: Path) -> None:
    before = found(files)
    assert list(before) == [SHOP, LIBRARY]
    copy = tmp_path / "outputs"
    shutil.copytree(files, copy)
    tasks = copy / "gen_tasks.jsonl"
    tasks.write_text(tasks.read_text().replace("for a week", "for a month"))
    after = found(tmp_path)
    assert after[SHOP].digest == before[SHOP].digest
    assert after[LIBRARY].digest != before[LIBRARY].digest


def test_what_was_repaired_and_what_is_weak_is_told(imported: Imported) -> None:
    told = imported.told
    shop = "\n".join(told[SHOP].repairs)
    for part in (
        "table parts: its key is code NOT NULL",
        "table notes: what defines it fails",
        "table notes: made as the application's model has it",
        "table bikes: 1 inserts fail",
        "table jobs: 1 inserts fail and are left out, the first: FOREIGN KEY",
        "table parts: 1 inserts fail and are left out, the first: NOT NULL",
        "is called read_the_board_of_all_notes_that__9bf102",
    ):
        assert part in shop
    assert "task 3: a verifier is no Python" in told[SHOP].weaknesses[0]
    assert told[SHOP].weaknesses[1].startswith("task 3 has no verifier")
    assert told[LIBRARY].repairs[0] == "table loans: its key is book_id, member NOT NULL"


def test_a_pack_is_the_same_each_time_and_so_is_its_database(
    files: Path, packs: Path, tmp_path: Path
) -> None:
    written(files, tmp_path)
    images = []
    for root in (packs, tmp_path):
        pack = load_pack(root / SHOP)
        snapshot = SnapshotStore(tmp_path / root.name).build(pack.recipe())
        images.append((pack.digest, snapshot.path.read_bytes()))
    assert images[0] == images[1]
    received = apsw.Connection(str(snapshot.path)).execute("SELECT received_at FROM bikes").get
    assert received == ["2026-01-03 09:00:00", "2026-01-05 09:00:00"]
    spec = load_pack(packs / LIBRARY).spec
    assert (spec.runtime, spec.on_error, spec.foreign_keys) == ("fastapi", "keep", True)
    assert load_pack(packs / SHOP).spec.foreign_keys is False


def test_what_cannot_run_here_is_refused(tmp_path: Path) -> None:
    code = "from fastapi import FastAPI\napp = FastAPI()\n"
    put(tmp_path, "gen_envs",
        {"scenario": "a", "full_code": "import flask\n" + code},
        {"scenario": "b", "full_code": "def ("},
        {"scenario": "c", "full_code": code},
        {"scenario": "d", "full_code": code + "import sqlite3\nsqlite3.connect('x')\n"},
        {"scenario": "e", "full_code": code + "async_sessionmaker()\n"})  # fmt: skip
    with (tmp_path / "gen_envs.jsonl").open("a") as file:
        file.write('{"scenario": "f", "full_co\nnonsense\n')
    put(tmp_path, "gen_db", {"scenario": "c", "db_schema": {"tables": [{"ddl": "CREATE"}]}})
    reasons = {}
    for name, source in found(tmp_path).items():
        with pytest.raises(ImportRefused) as raised:
            source.write(tmp_path)
        reasons[name] = raised.value.message
    assert reasons["a"] == "it imports flask, which workers do not have"
    assert "no Python" in reasons["b"]
    assert reasons["c"] == "none of its tables can be created"
    assert "sqlite3.connect" in reasons["d"]
    assert "asynchronous" in reasons["e"]
    assert "not JSON" in reasons["f"]
    assert "not JSON" in reasons["gen_envs_line_7"]
    with pytest.raises(ImportRefused, match="gen_envs"):
        found(tmp_path / "nowhere")


@pytest.mark.anyio
async def test_tasks_are_scored_by_the_originals_verifiers(environments: Environments) -> None:
    shop = await environments.get(SHOP)
    episode = await Episode.start(shop, task="task-0")
    idle = await episode.score()
    await episode.call("create_job", {"bike_id": 1, "what": "Grease the hub", "price": 3})
    done = await episode.score()
    assert (idle.value, done.value, done.outcome) == (0.0, 1.0, "complete")
    assert list(episode.changes().tables) == ["jobs"]
    asked = await Episode.start(shop, task="task-1")
    answers = [await asked.score(answer) for answer in (None, "It costs 45.50.")]
    assert [reward.value for reward in answers] == [0.0, 1.0]
    easy = await Episode.start(shop, task="task-2")
    assert (await easy.score()).value == 1.0  # as in the original: `check` tells of it
    judged = (await environments.get(LIBRARY)).pack.task("task-0").verifier
    assert judged["code"]["kind"] == "awm_sql"
    assert "judge" in judged


@pytest.mark.anyio
async def test_other_styles_of_code_run_too(environments: Environments) -> None:
    library = await environments.get(LIBRARY)
    lend = next(name for name in library.tools if name.startswith("books_lend"))
    assert {name for name, tool in library.tools.items() if tool.read_only} == {"searchBooks"}
    episode = await Episode.start(library)
    first = await episode.call(lend, {"book_id": 7, "member": "Ben", "days": 7, "note": "soon"})
    assert first.result == {"due": "2026-01-12", "note": "soon"}
    again = await episode.call(lend, {"book_id": 7, "member": "Cy"})
    assert again.error is not None
    assert (again.error.code, again.error.message) == ("CONFLICT", "no copy is left")
    unknown = await episode.call(lend, {"book_id": 99, "member": "Ben"})
    assert unknown.error is not None
    assert "FOREIGN KEY" in unknown.error.message
    found = await episode.call("searchBooks", {"q": "iver", "limit": 5})
    assert found.result == [{"id": 7, "title": "Rivers; a history", "copies": 0}]
    wish = {"member": {"name": "Ben"}, "titles": ["x"], "marks": {"a": 1}}
    assert (await episode.call("wish", wish)).result["count"] == 1
    assert (await episode.call("wish", {**wish, "titles": []})).error is not None
    assert (await episode.call("sort_titles", {"body": ["b", "a"]})).result == ["a", "b"]


@pytest.mark.anyio
async def test_the_mcp_client_plays_an_imported_environment(packs: Path, tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "hub.cli", "stdio", SHOP, "--packs", str(packs)],
        env={"ENVHUB_DATA_DIR": str(tmp_path)},
    )
    async with Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["create_job"].input_schema["required"] == ["bike_id", "what"]
        made = await client.call_tool("create_job", {"bike_id": 2, "what": "New bell"})
        assert json.loads(made.content[0].text)["status"] == "open"
        gone = await client.call_tool("finish_job", {"job_id": 99})
        assert gone.is_error


COUNTS = """
from fastapi import FastAPI

app, calls = FastAPI(), []


@app.post("/count", operation_id="count")
def count() -> int:
    calls.append(1)
    return len(calls)
"""


@pytest.mark.anyio
async def test_check_takes_an_import_as_it_is_but_for_what_would_spoil_a_run(
    packs: Path, tmp_path: Path
) -> None:
    leaks = tmp_path / SHOP
    shutil.copytree(packs / SHOP, leaks)
    (leaks / "tools.py").write_text(COUNTS)
    (leaks / "tasks.jsonl").unlink()
    own, other = await check_packs([packs / SHOP, leaks])
    assert own.passed, own.failures
    noted = {finding.name: finding.detail for finding in own.findings if not finding.passed}
    assert "task-2: doing nothing scores 1" in noted["doing nothing scores 0"]
    assert "take_part" in noted["no tool fails inside"]
    assert "task-0" in noted["tasks have an oracle"]
    (failure,) = other.failures
    assert failure.name == "replay is identical"
    assert 'isolation = "call"' in failure.detail

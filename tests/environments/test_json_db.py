"""A database that is one document becomes a pack; functions over it are its tools."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio.to_thread
import pytest

from environments.catalogue import load_pack
from environments.check import check_pack
from environments.environment import open_environments
from environments.episode import Episode
from environments.importers.json_db import sources
from environments.importers.source import ImportRefused, Written
from tests.environments.test_documents import HOTEL

SAMPLES = Path(__file__).parents[1] / "samples" / "json_db"
PEEK = '''

@tool(read_only=True)
def peek(state: State) -> int:
    """How many orders there are; which it should not touch."""
    state["peeked"] = True
    return len(state["orders"])
'''


def imported(path: Path, into: Path) -> tuple[Path, Written]:
    (source,) = sources(path)
    folder = into / source.name
    folder.mkdir()
    return folder, source.write(folder)


@pytest.fixture(scope="module")
def till(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    return imported(SAMPLES / "till", tmp_path_factory.mktemp("packs"))


@pytest.mark.anyio
async def test_functions_over_a_state_change_rows(till: tuple[Path, Written]) -> None:
    async with open_environments([till[0]]) as environments:
        episode = await Episode.start(await environments.get("till"))
        cancelled = await episode.call("cancel_order", {"order_id": "o-1"})
        assert cancelled.result["items"] == [{"sku": "TEA", "count": 2}]
        changes = cancelled.changes[0].changes
        assert changes["users"]["changed"] == [
            {"key": {"_key": "ann"}, "before": {"balance": 25.0}, "after": {"balance": 34.0}}
        ]
        assert changes["orders"]["changed"][0]["after"] == {"status": "cancelled"}
        again = await episode.call("cancel_order", {"order_id": "o-1"})
        assert again.error is not None
        assert again.error.code == "NOT_OPEN"
        noted = await episode.call("note", {"text": "hello"})
        assert noted.result["text"] == "hello"
        fork = await episode.fork()
        assert (await fork.call("find_user", {"name": "bo"})).result == "bo"
        assert set(episode.changes().tables) == {"_document", "extra", "log", "orders", "users"}
    assert [finding.name for finding in (await check_pack(till[0])).failures] == []


@pytest.mark.anyio
async def test_a_tool_that_says_it_only_reads_and_writes_is_refused(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "till", tmp_path / "files" / "till")
    tools = tmp_path / "files" / "till" / "tools.py"
    tools.write_text(tools.read_text() + PEEK)
    folder, _ = await anyio.to_thread.run_sync(imported, tools.parent, tmp_path)
    async with open_environments([folder]) as environments:
        episode = await Episode.start(await environments.get("till"))
        peeked = await episode.call("peek", {})
        assert peeked.error is not None
        assert peeked.error.code == "BAD_RESULT"
        assert not episode.changes()
    failures = [finding.name for finding in (await check_pack(folder)).failures]
    assert failures == ["reading tools write nothing"]


def test_code_that_keeps_what_cannot_be_set_back_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "files" / "till"
    shutil.copytree(SAMPLES / "till", folder)
    tools = folder / "tools.py"
    tools.write_text(f"{tools.read_text()}\nWAITING = (number for number in range(9))\n")
    with pytest.raises(ImportRefused, match="keeps what cannot be set back: WAITING"):
        imported(folder, tmp_path)


@pytest.mark.anyio
async def test_gold_actions_are_tried_out_and_make_tasks(till: tuple[Path, Written]) -> None:
    folder, told = till
    assert [each.partition(" fails: ")[0] for each in told.weaknesses] == [
        "task wrong is left out: its call of sell"
    ]
    async with open_environments([folder]) as environments:
        environment = await environments.get("till")
        assert environment.pack.policy == "Cancel only what is open.\n"
        episode = await Episode.start(environment, task="cancel")
        assert (await episode.score("")).value == 0.0
        await episode.call("cancel_order", {"order_id": "o-1"})
        assert (await episode.score("")).value == 1.0
        noted = environment.pack.task("note").verifier["expect"]
        assert {"table": "log", "change": "added", "count": 2} | {
            "where": {"text": {"eq": "Tea is out"}, "_more": {"null": True}}
        } in noted
        episode = await Episode.start(environment, task="note", seed=7)
        for _ in range(2):
            assert (await episode.score("")).value == 0.0
            await episode.call("note", {"text": "Tea is out"})
        assert (await episode.score("")).value == 1.0
        asked = await Episode.start(environment, task="task-1")
        assert [(await asked.score(said)).value for said in ("", "It is bo.")] == [0.0, 1.0]


@pytest.mark.anyio
async def test_a_file_alone_has_tools_that_look_things_up(tmp_path: Path) -> None:
    file = tmp_path / "Hotel.json"
    file.write_text(json.dumps(HOTEL))
    folder, told = await anyio.to_thread.run_sync(imported, file, tmp_path)
    assert "no tools but those that look" in told.weaknesses[0]
    async with open_environments([folder]) as environments:
        episode = await Episode.start(await environments.get("hotel"))
        sizes = (await episode.call("list_collections", {})).result
        assert sizes["guests"] == 2
        for name, key, value in (
            ("guests", "g-1", HOTEL["guests"]["g-1"]),
            ("sizes", "1", 2.0),
            ("stays", "g-2", []),
        ):
            step = await episode.call("get_entry", {"collection": name, "key": key})
            assert step.result == value
        missing = await episode.call("get_entry", {"collection": "guests", "key": "g-9"})
        assert missing.error is not None
        assert missing.error.code == "NOT_FOUND"
    assert [finding.name for finding in (await check_pack(folder)).failures] == []


def test_tasks_that_cannot_be_made_leave_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "files" / "shop"
    shutil.copytree(SAMPLES / "till", folder)
    (folder / "tasks.json").write_text('[{"instruction": "Sell.", "actions": [{"name": "sell"}]}]')
    pack, told = imported(folder, tmp_path)
    assert "is left out" in told.weaknesses[0]
    assert not load_pack(pack).tasks
    (folder / "tasks.jsonl").write_text(
        json.dumps(
            {"id": "t", "instruction": "Look.", "verifier": {"trace": [{"tool": "find_user"}]}}
        )
    )
    assert next(sources(folder)).write(pack).weaknesses == ()
    assert list(load_pack(pack).tasks) == ["t"]


def test_a_list_is_an_entry_and_what_is_no_json_is_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text('[{"id": 1}, {"id": 2}]')
    folder, told = imported(rows, tmp_path)
    assert "'entries'" in told.repairs[0]
    assert load_pack(folder).spec.runtime == "state"
    rows.write_text("[1,")
    with pytest.raises(ImportRefused, match=r"rows\.json cannot be read"):
        next(sources(rows)).write(folder)
    with pytest.raises(ImportRefused, match=r"has no db\.json"):
        next(sources(folder))

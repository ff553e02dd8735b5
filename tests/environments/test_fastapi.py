"""The fastapi runtime: an application of others, called in process on an episode's branch."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastapi
import pytest

from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.sandbox import nursery
from environments.trajectory import Step

SAMPLES = Path(__file__).parents[1] / "samples" / "awm"
MANIFEST = """
name = "repair_shop"
version = "1"
title = "Repair shop"
summary = "A shop that repairs bikes"
runtime = "fastapi"
on_error = "keep"
foreign_keys = false
"""
DATA = """
INSERT INTO bikes (id, owner, model) VALUES (1, 'Ada', 'Tourer'), (2, 'Ben', 'Racer');
INSERT INTO jobs (id, bike_id, what, price) VALUES (1, 1, 'True the wheel', 30);
INSERT INTO jobs (id, bike_id, what, price, status) VALUES (2, 2, 'New chain', 45.5, 'done');
INSERT INTO parts (code, stock) VALUES ('chain', 2), ('bell', 0);
"""
BOARD = "read_the_board_of_all_notes_that__9bf102"


def write_pack(folder: Path) -> Path:
    """The sample as a pack, by hand."""
    sample, pack = SAMPLES / "repair_shop", folder / "repair_shop"
    pack.mkdir()
    schema = (sample / "schema.sql").read_text()
    (pack / "environment.toml").write_text(MANIFEST)
    (pack / "schema.sql").write_text(schema.replace("code TEXT PRIM", "code TEXT NOT NULL PRIM"))
    (pack / "data.sql").write_text(DATA)
    (pack / "tools.py").write_text((sample / "app.py").read_text())
    return pack


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    async with open_environments([write_pack(tmp_path_factory.mktemp("packs"))]) as opened:
        yield opened


@pytest.fixture
async def shop(environments: Environments) -> Environment:
    return await environments.get("repair_shop")


async def played(episode: Episode, *calls: tuple[str, dict[str, Any]]) -> list[Step]:
    return [await episode.call(tool, arguments) for tool, arguments in calls]


def told(step: Step) -> Any:
    return step.result if step.error is None else (step.error.kind, step.error.code)


@pytest.mark.anyio
async def test_operations_are_tools_with_one_flat_schema(shop: Environment) -> None:
    assert list(shop.tools) == [
        "list_jobs", "create_job", "finish_job", "take_part", "forget_bike", BOARD, "leave_note",
        "tell_time", "forget_to_commit",
    ]  # fmt: skip
    assert {name for name, tool in shop.tools.items() if tool.read_only} == {
        "list_jobs", BOARD, "tell_time"
    }  # fmt: skip
    create = shop.tools["create_job"].input_schema
    assert create["required"] == ["bike_id", "what"]
    assert create["properties"]["what"]["minLength"] == 3
    assert create["$defs"]["Status"]["enum"] == ["open", "done"]
    price = shop.tools["forget_to_commit"].input_schema
    assert price["required"] == ["job_id", "price"]
    assert "All jobs, oldest first." in shop.tools["list_jobs"].description


@pytest.mark.anyio
async def test_calls_change_the_branch_and_nothing_else(shop: Environment) -> None:
    episode, other = await Episode.start(shop), await Episode.start(shop)
    made, done = await played(
        episode,
        ("create_job", {"bike_id": 1, "what": "Grease the hub", "price": 3}),
        ("finish_job", {"job_id": 1}),
    )
    assert made.result["opened_at"] == "2026-01-05T09:00:00"
    assert done.result["status"] == "done"
    (change,) = done.changes
    assert change.actor == "agent"
    (changed,) = change.changes["jobs"]["changed"]
    assert changed["before"], changed["after"] == ({"status": "open"}, {"status": "done"})
    listed, filtered = await played(
        other, ("list_jobs", {}), ("list_jobs", {"status": "done", "bike_ids": [1, 2]})
    )
    assert [job["status"] for job in listed.result["jobs"]] == ["open", "done"]
    assert [job["id"] for job in filtered.result["jobs"]] == [2]


@pytest.mark.anyio
async def test_refusals_are_observations(shop: Environment) -> None:
    episode = await Episode.start(shop)
    steps = await played(
        episode,
        ("finish_job", {"job_id": 99}),
        ("finish_job", {"job_id": 2}),
        ("create_job", {"bike_id": 1, "what": "No"}),
        ("leave_note", {"text": "x", "times": "many"}),
    )
    assert [told(step) for step in steps] == [
        ("agent", "NOT_FOUND"),
        ("agent", "CONFLICT"),
        ("agent", "INVALID_ARGUMENTS"),
        ("agent", "INVALID_ARGUMENTS"),
    ]
    assert steps[0].error is not None
    assert steps[0].error.message == "there is no job 99"
    assert not episode.changes()


@pytest.mark.anyio
async def test_what_a_handler_committed_before_it_raised_is_kept(shop: Environment) -> None:
    episode = await Episode.start(shop)
    taken, missing, half = await played(
        episode,
        ("take_part", {"code": "bell", "quantity": 1}),
        ("take_part", {"code": "none", "quantity": 1}),
        ("forget_bike", {"bike_id": 99}),
    )
    assert taken.error is not None
    assert (taken.error.code, taken.error.details["status"]) == ("INTERNAL_ERROR", 500)
    assert taken.error.message == "RuntimeError: stock of bell is below nothing"
    assert taken.changes[0].changes["parts"]["changed"][0]["after"] == {"stock": -1}
    assert told(missing) == told(half) == ("agent", "INTERNAL_ERROR")
    assert not missing.changes
    assert not half.changes  # its deletes were flushed, never committed
    assert (await episode.call("tell_time", {})).error is None


@pytest.mark.anyio
async def test_what_nobody_commits_is_gone(shop: Environment) -> None:
    episode = await Episode.start(shop)
    step, after = await played(
        episode, ("forget_to_commit", {"job_id": 1, "price": 9}), ("list_jobs", {})
    )
    assert step.result == {"price": 9.0}
    assert not step.changes
    assert after.result["jobs"][0]["price"] == 30.0


@pytest.mark.anyio
async def test_clock_and_chance_are_the_episodes(shop: Environment) -> None:
    first, again, other = [await Episode.start(shop, seed=seed) for seed in (1, 1, 2)]
    note = ("leave_note", {"text": "hi", "times": 2})
    ids = [(await played(each, note))[0].result for each in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0]["at"] == "2026-01-05T09:00:00"
    assert (await first.call("tell_time", {})).result == {
        "sql": "2026-01-05 09:01:00", "python": "2026-01-05 09:01:00"
    }  # fmt: skip


@pytest.mark.anyio
async def test_a_session_made_at_import_does_not_carry_rows_over(shop: Environment) -> None:
    episode = await Episode.start(shop)
    await episode.call("leave_note", {"text": "first"})
    mark = await episode.mark()
    fork = await episode.fork()
    await episode.call("leave_note", {"text": "second"})
    assert [note["text"] for note in (await fork.call(BOARD, {})).result] == ["first"]
    assert len((await episode.call(BOARD, {})).result) == 2
    await episode.rewind(mark)
    assert [note["text"] for note in (await episode.call(BOARD, {})).result] == ["first"]


NOSY = """
import socket
from fastapi import FastAPI

app = FastAPI()

@app.post("/read", operation_id="read")
def read(path: str) -> str:
    with open(path) as file:
        return file.read(20)

@app.post("/connect", operation_id="connect")
def connect() -> str:
    return str(socket.create_connection(("127.0.0.1", 9)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the confinement is Linux's")
@pytest.mark.anyio
async def test_its_workers_are_confined_like_all_others(tmp_path: Path) -> None:
    pack = write_pack(tmp_path)
    (pack / "tools.py").write_text(NOSY)
    async with open_environments([pack]) as environments:
        episode = await Episode.start(await environments.get("repair_shop"))
        library = await episode.call("read", {"path": fastapi.__file__})
        own = await episode.call("read", {"path": str(pack / "data.sql")})
        connected = await episode.call("connect", {})
    assert library.error is None
    for step in (own, connected):
        assert step.error is not None
        assert "PermissionError" in step.error.message


@pytest.mark.anyio
async def test_without_the_extra_the_pack_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "sqlalchemy.py").write_text("raise ImportError('not installed')")
    known = nursery._ENVIRONMENT
    path = f"{known.get('PYTHONPATH', '')}:{absent}"
    monkeypatch.setattr(nursery, "_ENVIRONMENT", {**known, "PYTHONPATH": path})
    async with open_environments([write_pack(tmp_path)]) as environments:
        with pytest.raises(PackInvalid, match="not installed") as raised:
            await environments.get("repair_shop")
    assert raised.value.hint == "pip install 'mcp-env-hub[imports]'"

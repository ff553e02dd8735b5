"""EnvFactory's files become packs over a document that behave as their originals do."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from mcp import Client, StdioServerParameters

from environments.catalogue import load_pack
from environments.check import check_pack
from environments.documents import read_binding
from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.importers.envfactory import EnvFactorySource, sources
from environments.importers.source import ImportRefused, Written
from environments.importers.trial import trying_out
from environments.trajectory import Step
from tests.envfactory_files import task_about, write_envfactory
from tests.imports.envfactory import compare

DESK = "lending-desk"
ACCOUNTS = "member-accounts"
NOTE = "add_note_for_the_colleagues_of_th_7d227e"


class Imported(NamedTuple):
    pack: Path
    told: Written


def found(folder: Path) -> dict[str, EnvFactorySource]:
    """Those of one server that there is."""
    return {each.name: each for each in sources(folder) if isinstance(each, EnvFactorySource)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_envfactory(tmp_path_factory.mktemp("envfactory"))


@pytest.fixture(scope="module")
def imported(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    folder = tmp_path_factory.mktemp("packs") / DESK
    folder.mkdir()
    with trying_out():
        return Imported(folder, found(files)[DESK].write(folder))


@pytest.fixture(scope="module")
async def environments(anyio_backend: object, imported: Imported) -> AsyncIterator[Environments]:
    async with open_environments([imported.pack]) as opened:
        yield opened


@pytest.fixture
async def desk(environments: Environments) -> Environment:
    return await environments.get(DESK)


def test_what_was_repaired_and_what_is_weak_is_told(imported: Imported) -> None:
    told = imported.told
    repairs, weaknesses = "\n".join(told.repairs), "\n".join(told.weaknesses)
    assert f"is called {NOTE}" in repairs
    assert "say no current_time" in repairs
    assert "scenario_003 does not load: 1 validation error" in weaknesses
    assert "is left out: its calls end elsewhere" in weaknesses
    assert "scenario_002" not in weaknesses


def test_the_code_is_copied_as_it_is_and_runs_nowhere_else(files: Path, imported: Imported) -> None:
    original = files / "envs" / "tools" / "LendingDesk.py"
    assert (imported.pack / "tools.py").read_bytes() == original.read_bytes()
    read_only = {b.name: b.read_only for b in read_binding(imported.pack).tools}
    assert read_only == {
        "sign_in": False,
        "search_books": True,
        "lend_book": False,
        NOTE: False,
        "due_date": True,
    }
    spec = load_pack(imported.pack).spec
    assert (spec.runtime, spec.on_error, spec.summary[:8]) == ("scenario", "keep", "The desk")


def test_what_cannot_run_here_is_refused(files: Path, tmp_path: Path) -> None:
    reasons = {}
    for name, source in found(files).items():
        if name not in (DESK, ACCOUNTS):
            with pytest.raises(ImportRefused) as raised:
                source.write(tmp_path)
            reasons[name] = raised.value.message
    assert reasons == {
        "counter": "Counter.py: load_scenario and save_scenario are no tools, so nothing can be "
        "loaded",
        "halfway": "Halfway.py:1: invalid syntax",
        "news-wire": "NewsWire.py:1: it asks the internet, through requests",
    }
    with pytest.raises(ImportRefused, match="no envs/tools"):
        found(tmp_path / "nowhere")


def test_a_source_has_another_digest_when_one_of_its_rows_changes(
    files: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(files, copy)
    assert found(copy)[DESK].digest == found(files)[DESK].digest
    rows = copy / "rl_val.jsonl"
    rows.write_text(rows.read_text().replace("I am Bo.", "I am Cy."))
    assert found(copy)[DESK].digest != found(files)[DESK].digest


async def steps(episode: Episode, *calls: tuple[str, dict[str, object]]) -> list[Step]:
    return [await episode.call(tool, arguments) for tool, arguments in calls]


@pytest.mark.anyio
async def test_changes_are_rows_and_reads_write_nothing(desk: Environment) -> None:
    episode = await Episode.start(desk)
    read = await episode.call("search_books", {"text": "tide"})
    assert read.result == [{"id": "b-1", "title": "Tide Tables", "copies": 1, "tags": ["sea"]}]
    assert not read.changes
    assert read.clock_ms == desk.pack.spec.clock.start_ms
    _, lent = await steps(episode, ("sign_in", {"member": "Åsa"}), ("lend_book", {"book": "b-1"}))
    assert lent.result["loan"] == 4
    assert lent.changes[0].changes["books"]["changed"] == [
        {"key": {"_key": "b-1"}, "before": {"copies": 1}, "after": {"copies": 0}}
    ]
    (loan,) = lent.changes[0].changes["loans"]["added"]
    assert (loan["_key"], loan["since"]) == ("4", "2026-01-05T09:00:00")


@pytest.mark.anyio
async def test_an_error_is_an_answer_and_keeps_what_the_original_keeps(desk: Environment) -> None:
    episode = await Episode.start(desk)
    made = await steps(
        episode,
        ("lend_book", {"book": "b-2"}),
        ("sign_in", {"member": "Bo"}),
        ("lend_book", {"book": "b-2"}),
        ("lend_book", {"book": "b-9"}),
        ("due_date", {"loan": 3}),
        ("due_date", {"loan": "three"}),
    )
    errors = [(step.error.kind, step.error.code) if step.error else None for step in made]
    assert errors == [
        ("agent", "VALUE_ERROR"),
        None,
        ("agent", "VALUE_ERROR"),
        ("agent", "KEY_ERROR"),
        ("agent", "INTERNAL_ERROR"),
        ("agent", "INVALID_ARGUMENTS"),
    ]
    waiting = made[2].changes[0].changes["waiting"]["changed"]
    assert waiting[0]["after"] == {"value": '["Bo"]'}
    assert made[4].error is not None
    assert made[4].error.details["where"].startswith("tools.py:")


@pytest.mark.anyio
async def test_what_is_no_part_of_the_document_stays_with_its_episode(desk: Environment) -> None:
    one, other = await Episode.start(desk), await Episode.start(desk)
    signed = [(await one.call("sign_in", {"member": name})).result for name in ("Ann", "Bo")]
    assert [each["before"] for each in signed] == [1, 2]  # an attribute of the class
    first = (await other.call("sign_in", {"member": "Cy"})).result
    assert (first["before"], first["session"]) == (1, signed[0]["session"])  # the seed is its own
    mark = await one.mark()
    fork = await one.fork()
    slips = []
    for episode in (one, fork):  # what is drawn next goes on where this branch left it
        step = await episode.call("lend_book", {"book": "b-1"})
        slips.append(step.result["slip"])
    noted = await one.call(NOTE, {"text": "x"})
    assert noted.result == {"notes": 2, "asked": 2}
    await one.rewind(mark)
    slips.append((await one.call("lend_book", {"book": "b-1"})).result["slip"])
    assert len(set(slips)) == 1
    told = one.changes().to_json()
    assert "by" not in told.get("notes", {})


@pytest.mark.anyio
async def test_rows_of_rl_data_are_tasks_that_pay_for_what_their_calls_change(
    desk: Environment,
) -> None:
    assert len(desk.pack.tasks) == 4
    lending = task_about(desk, "I am Åsa")
    assert lending.instruction.startswith("What was said so far:\n\nuser: Hello\n\nassistant: Good")
    for asked in ("I am Åsa", "Have you", "I am Bo", "with a room"):
        task = task_about(desk, asked)
        episode = await Episode.start(desk, task=task.id)
        assert (await episode.score("")).value == 0.0
        for call in task.oracle:
            step = await episode.call(call.tool, call.arguments)
            assert (step.error.code if step.error else None) == call.expect_error
        assert (await episode.score("")).value == 1.0
        assert (await episode.score("", "envfactory")).value is not None
        await episode.call(NOTE, {"text": "by the way"})
        assert (await episode.score("")).value == 0.0  # nothing allows it
    assert task_about(desk, "I am Bo").split == "validation"


@pytest.mark.anyio
async def test_the_pack_passes_its_check(imported: Imported) -> None:
    report = await check_pack(imported.pack)
    assert [finding.name for finding in report.failures] == []


@pytest.mark.anyio
async def test_the_mcp_client_plays_an_imported_environment(imported: Imported) -> None:
    packs = str(imported.pack.parent)
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "hub.cli", "stdio", DESK, "--packs", packs]
    )
    async with Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["lend_book"].input_schema["required"] == ["book"]
        assert "load_scenario" not in tools
        await client.call_tool("sign_in", {"member": "Ann"})
        read = await client.call_tool("search_books", {"text": ""})
        assert [book["id"] for book in json.loads(read.content[0].text)] == ["b-1", "b-2"]
        assert (await client.call_tool("lend_book", {"book": "b-2"})).is_error


def test_the_same_calls_give_the_same_documents_as_the_original(
    files: Path, tmp_path: Path
) -> None:
    folder = tmp_path / DESK
    folder.mkdir()
    compared = compare(found(files)[DESK], folder)
    assert compared.differences == []
    assert compared.calls > 50

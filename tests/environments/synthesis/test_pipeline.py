"""From recorded texts to packs that pass: repairs, resuming, editing by hand, worlds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from environments.catalogue import load_pack
from environments.check import check_packs
from environments.llm import LlmUnavailable
from environments.synthesis.folder import RunFolder, Wanted
from environments.synthesis.journal import EnvironmentRecord, read_record
from environments.synthesis.report import write_report
from environments.synthesis.workshop import Workshop, workshop
from tests.environments.synthesis.recorded.running import LIBRARY, Place

pytestmark = pytest.mark.anyio

OFFICE = Wanted(
    sentence="A tool library and its books.",
    model="solomon",
    tasks=2,
    repairs=2,
    least_tables=2,
    least_tools=3,
)


@pytest.fixture(scope="module")
async def place(anyio_backend: object) -> AsyncIterator[Workshop]:
    async with workshop() as opened:
        yield opened


@pytest.fixture(scope="module")
async def library(
    place: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Place, RunFolder, EnvironmentRecord]:
    """The tool library, made at one go."""
    bench = Place(tmp_path_factory.mktemp("library"), place)
    folder = RunFolder.begin(bench.packs / "runs" / "one", LIBRARY)
    (record,) = await bench.run(folder)
    return bench, folder, record


async def test_first_attempts_are_wrong_and_the_pack_passes(
    library: tuple[Place, RunFolder, EnvironmentRecord],
) -> None:
    bench, folder, record = library
    made = record.makeup
    assert (record.outcome, made.tables, made.tools, made.tasks) == ("passed", 7, 10, 9)
    tasks = load_pack(bench.packs / "tool-library").tasks.values()
    assert made.tools_called == len({call.tool for task in tasks for call in task.oracle}) == 10
    assert made.tables_changed == 5
    assert {gate.passed for gate in made.gates if gate.hard} == {True}
    walked = [task.id for task in tasks if "walk" in task.tags]
    assert len(walked) == 4
    repaired = {stage.stage: [repair.of for repair in stage.repairs] for stage in record.stages}
    assert repaired == {
        "scenario": [],
        "tasks": [],
        "schema": [""],
        "data": [""],
        "specification": [],
        "tools": [""],
        "oracle": ["chipper-for-els", "chipper-for-els", "drill-comes-back"],
        "verifier": ["drill-comes-back"],
        "walks": walked,
        "check": [],
    }
    lost = [what for stage in record.stages for what in stage.rejected]
    assert [one.what for one in lost] == ["chipper-for-els"], "a task is dropped, no more"
    assert "ITEM_NOT_FOUND" in lost[0].reason
    (report,) = await check_packs([bench.packs / "tool-library"])
    assert report.passed
    assert (report.digest, list(read_record(folder.path))) == (record.digest, [record])


async def test_what_the_oracle_made_up_is_free_and_the_rest_is_pinned_or_loosened(
    library: tuple[Place, RunFolder, EnvironmentRecord],
) -> None:
    tasks = load_pack(library[0].packs / "tool-library").tasks
    loans, payments = tasks["drill-comes-back"].verifier["expect"][1:]
    assert loans["set"] == {"note": {"contains": "chuck"}, "returned_at": {"any": True}}
    assert payments["where"] == {
        "member_id": "M-1011",
        "kind": "late_fee",
        "amount_cents": 350,
        "loan_id": "L-5009",
    }
    assert tasks["how-many-overdue"].verifier == {"answer": {"numeric": 3}}


async def test_the_report_shows_each_repair(
    library: tuple[Place, RunFolder, EnvironmentRecord],
) -> None:
    _, folder, record = library
    page = write_report(folder.path).read_text()
    text = (folder.path / "report.md").read_text()
    for stage in record.stages:
        for repair in stage.repairs:
            assert f"tool-library, {stage.stage}" in page
            for problem in repair.problems:
                assert problem in text
            assert repair.changed in text
    assert page.count("<svg") == 2
    assert page.count("<details>") == 11
    for outside in ("<script", "<link", "<img", "@import", "<?xml", "<metadata"):
        assert outside not in page


async def test_what_was_said_is_enough_to_make_it_again(
    library: tuple[Place, RunFolder, EnvironmentRecord], place: Workshop, tmp_path: Path
) -> None:
    """The same questions have the same answers, without a model; other questions have none."""
    _, folder, record = library
    other = Place(tmp_path, place)
    again = RunFolder.begin(tmp_path / "runs" / "again", LIBRARY)
    (folder.path / "answers").rename(tmp_path / "answers")
    (again.path / "answers").symlink_to(tmp_path / "answers")
    (made,) = await other.run(again, asking=False)
    assert (made.digest, other.said.asked) == (record.digest, 0)
    (tmp_path / "answers").rename(folder.path / "answers")
    with pytest.raises(LlmUnavailable, match="no answer is recorded"):
        await other.run(
            RunFolder.begin(tmp_path / "runs" / "new", msgspec.structs.replace(LIBRARY, tasks=7)),
            asking=False,
        )


async def test_a_stage_edited_by_hand_is_kept_and_what_follows_is_made_anew(
    library: tuple[Place, RunFolder, EnvironmentRecord], place: Workshop, tmp_path: Path
) -> None:
    async with copied(library, place, tmp_path) as (bench, folder):
        file = folder.path / "environments" / "tool-library" / "tools.py"
        file.write_text(file.read_text().replace("FEE_CENTS = 50", "FEE_CENTS = 80"))
        (record,) = await bench.run(folder)
        assert bench.made_anew() == ["oracle", "verifier", "walks", "check"]
        assert record.outcome == "passed"
        text = (tmp_path / "tool-library" / "tasks.jsonl").read_text()
        assert '"amount_cents":560' in text
        before = bench.said.asked
        folder.again("verifier")
        (record,) = await bench.run(RunFolder.open(folder.path))
        assert bench.made_anew() == ["verifier"], "it is as it was, and so is what follows"
        assert bench.said.asked == before + 6, "answers to it are asked for anew"


@asynccontextmanager
async def copied(
    library: tuple[Place, RunFolder, EnvironmentRecord], place: Workshop, into: Path
) -> AsyncIterator[tuple[Place, RunFolder]]:
    """The run of the library, in a place of its own."""
    _, folder, _ = library
    path = into / "runs" / "copy"
    path.parent.mkdir(parents=True)
    folder.path.rename(path)
    folder.path.mkdir()
    try:
        yield Place(into, place), RunFolder.open(path)
    finally:
        folder.path.rmdir()
        path.rename(folder.path)


async def test_several_systems_are_environments_and_a_world(
    place: Workshop, tmp_path: Path
) -> None:
    bench = Place(tmp_path, place)
    records = await bench.run(RunFolder.begin(tmp_path / "runs" / "office", OFFICE))
    assert {one.name: (one.outcome, one.reason) for one in records} == {
        "tool-library": ("passed", ""),
        "bookkeeping": ("passed", ""),
        "library-office": ("passed", ""),
    }
    write_report(tmp_path / "runs" / "office")
    text = (tmp_path / "runs" / "office" / "report.md").read_text()
    assert "| distinct schemas, names erased | 3 |" in text
    assert "| environments much like an earlier one | 0 |" in text
    pack = load_pack(tmp_path / "library-office")
    assert pack.spec.environments == ("tool-library", "bookkeeping")
    assert "late costs 50 cents" in pack.policy
    expect = pack.tasks["fee-for-the-drill"].verifier["expect"]
    assert {entry["table"].split("__")[0] for entry in expect} == {"tool-library", "bookkeeping"}

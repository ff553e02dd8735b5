"""Rows of EnvFactory's RL data that are played on several servers become worlds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from environments.catalogue import load_pack
from environments.check import check_pack
from environments.environment import Environment, open_environments
from environments.episode import Episode
from environments.importers.envfactory import sources
from environments.importers.importing import Imported, import_sources
from tests.envfactory_files import REMARK, task_about, together, write_envfactory

DESK, ACCOUNTS, BOTH = "lending-desk", "member-accounts", "lending-desk_member-accounts"
CHARGE = "member-accounts__charge_a_fee_for_2749b0"


class Run(NamedTuple):
    packs: Path
    told: dict[str, Imported]


def run(files: Path, packs: Path, only: Sequence[str] = ()) -> Run:
    wanted = [source for source in sources(files) if not only or source.name in only]
    found = import_sources("envfactory", wanted, packs, jobs=2)
    return Run(packs, {one.name: one for one in found})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_envfactory(tmp_path_factory.mktemp("envfactory"))


@pytest.fixture(scope="module")
def imported(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(files, tmp_path_factory.mktemp("packs"))


@pytest.fixture
async def world(imported: Run) -> AsyncIterator[Environment]:
    async with open_environments([imported.packs]) as opened:
        yield await opened.get(BOTH)


def test_each_set_of_servers_is_a_world_that_mounts_their_packs(imported: Run) -> None:
    told = imported.told[BOTH]
    assert (told.outcome, told.reason) == ("imported", "")
    assert load_pack(imported.packs / BOTH).spec.environments == (DESK, ACCOUNTS)
    weak = "\n".join(told.weaknesses)
    assert "it has no 'MemberAccounts'" in weak
    assert "no tool is called Counter-count" in weak
    assert "its calls end elsewhere: member-accounts__accounts.cents" in weak
    assert len(told.weaknesses) == 3


def test_rows_that_can_be_played_nowhere_are_counted_and_refused(imported: Run) -> None:
    refused = {
        name: each.reason
        for name, each in imported.told.items()
        if each.outcome == "refused" and "rows" in each.reason
    }
    assert refused == {
        "counter_lending-desk": "its rows of RL data (1) want Counter, of which there is no pack",
        "lending-desk_nowhere": "its rows of RL data (1) want Nowhere, which is not in envs/tools",
        "nowhere": "its rows of RL data (1) want Nowhere, which is not in envs/tools",
        "rows-of-no-server": "its rows of RL data (1) do not say which servers they are played on",
    }


def test_a_world_without_a_task_is_refused_with_the_reasons(tmp_path: Path) -> None:
    files = write_envfactory(tmp_path / "files")
    (files / "rl_train.json").write_text(json.dumps(together()[2:]))
    told = run(files, tmp_path / "packs", only=[DESK, ACCOUNTS, BOTH]).told[BOTH]
    assert told.outcome == "refused"
    assert told.reason.startswith("none of its rows (3) is a task: task row-")
    assert told.reason.count("is left out") == 3


@pytest.mark.anyio
async def test_what_the_calls_of_a_row_change_on_all_servers_is_what_is_paid_for(
    world: Environment,
) -> None:
    assert len(world.pack.tasks) == 2
    task = task_about(world, "I pay 50 cents")
    assert [call.tool for call in task.oracle][1:] == [
        "lending-desk__lend_book",
        "member-accounts__find_account",
        CHARGE,
    ]
    episode = await Episode.start(world, task=task.id)
    assert (await episode.score("")).value == 0.0
    for call in task.oracle[:2]:
        await episode.call(call.tool, call.arguments)
    half = await episode.score("", "fraction")
    assert half.value == 0.5  # the loan and the fee are two rows each
    assert (await episode.score("")).value == 0.0
    step = await episode.call(task.oracle[2].tool, task.oracle[2].arguments)
    assert step.result == {"account": 12, "member": "Åsa", "cents": 30, "remark": REMARK}
    charged = await episode.call(CHARGE, task.oracle[3].arguments)
    assert charged.changes[0].changes["member-accounts__accounts"]["changed"] == [
        {"key": {"_key": "12"}, "before": {"cents": 30}, "after": {"cents": 80}}
    ]
    assert (await episode.score("")).value == 1.0
    assert (await episode.score("", "envfactory")).value == 1.0
    await episode.call(CHARGE, task.oracle[3].arguments)
    assert (await episode.score("")).value == 0.0  # it pays twice


@pytest.mark.anyio
async def test_a_row_that_changes_nothing_wants_its_calls_on_both(world: Environment) -> None:
    task = task_about(world, "have I an account")
    episode = await Episode.start(world, task=task.id)
    for call in task.oracle:
        assert (await episode.score("")).value == 0.0
        await episode.call(call.tool, call.arguments)
    assert (await episode.score("")).value == 1.0


@pytest.mark.anyio
async def test_an_imported_world_passes_its_check(imported: Run) -> None:
    report = await check_pack(imported.packs / BOTH)
    assert [finding.name for finding in report.failures] == []
    hard = {finding.name: finding.hard for finding in report.findings}
    assert not hard["failing calls change nothing"]  # as with what it mounts: it is others' work


def test_a_world_is_made_anew_when_a_pack_it_mounts_is_another(tmp_path: Path) -> None:
    files, packs = write_envfactory(tmp_path / "files"), tmp_path / "packs"
    alone = run(files, packs, only=[BOTH]).told[BOTH]
    assert alone.reason == "its rows of RL data (5) want LendingDesk, of which there is no pack"
    ours = [DESK, ACCOUNTS, BOTH]
    assert {name for name, one in run(files, packs, ours).told.items() if one.is_there} == {*ours}
    again = run(files, packs, only=[BOTH]).told[BOTH]
    assert again.unchanged
    rows = files / "rl_val.jsonl"
    rows.write_text(rows.read_text().replace("I am Bo.", "I am Cy."))
    after = run(files, packs, ours).told
    assert [name for name in ours if after[name].unchanged] == [ACCOUNTS]


def test_rows_that_are_gone_by_now_fail_what_is_made_of_them_and_no_more_than_that(
    tmp_path: Path,
) -> None:
    files = write_envfactory(tmp_path / "files")
    wanted = [source for source in sources(files) if source.name in (BOTH, "nowhere", ACCOUNTS)]
    (files / "rl_train.json").unlink()
    found = list(import_sources("envfactory", wanted, tmp_path / "packs", jobs=2))
    assert {one.name for one in found} == {ACCOUNTS, BOTH, "nowhere"}
    assert all("the importer failed: FileNotFoundError" in one.reason for one in found)

"""Tasks by walks through the tools of any pack: the graph, what is proved, the words."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.check import check_packs
from environments.environment import Environments
from environments.episode import Episode
from environments.oracle import REFERENCE, play_oracle
from environments.spec import EnvironmentSpec
from environments.synthesis.sampling.sampler import Sampler, Sampling
from environments.synthesis.walk import shape_of
from environments.synthesis.workshop import Draft, workshop

pytestmark = pytest.mark.anyio
SEED = 3


@pytest.fixture(scope="module")
async def banking(shipped: Environments) -> tuple[Sampler, Sampling]:
    sampler = await Sampler.open(await shipped.get("banking"), SEED)
    return sampler, await sampler.sample(16, 5)


def links_of(sampler: Sampler) -> set[tuple[str, str, str, str]]:
    return {
        (link.source, ".".join(link.field), link.target, link.parameter)
        for link in sampler.graph.links
    }


async def test_a_link_leads_from_what_is_answered_to_what_is_taken(
    banking: tuple[Sampler, Sampling],
) -> None:
    links = links_of(banking[0])
    assert ("search_customers", "items.*.customer_id", "list_cards", "customer_id") in links
    assert ("list_cards", "items.*.card_id", "freeze_card", "card_id") in links
    # by its last words, and by the table that a column refers to
    both = {"from_account_id", "to_account_id"}
    accounts = {link[3] for link in links if link[:2] == ("get_account", "account_id")}
    assert both < accounts
    # an amount is no name of anything, and what is one of a few choices is none either
    assert not {link[3] for link in links} & {"amount_cents", "limit_cents", "reason", "frequency"}
    assert not any(source == target for source, _, target, _ in links)


async def test_names_that_say_nothing_are_linked_by_the_values_that_were_seen(
    shipped: Environments,
) -> None:
    links = links_of(await Sampler.open(await shipped.get("helpdesk"), SEED))
    found = ("search_tickets", "results.*.id", "merge_tickets", "source_id")
    assert found in links
    assert ("get_ticket", "assignee_id", "assign_ticket", "agent_id") in links


PEOPLE = """from environments.authoring import Database, tool


@tool(read_only=True)
def list_people(db: Database) -> list[dict]:
    '''Everybody on the staff.'''
    return db.rows("SELECT code, name FROM people")


@tool(read_only=True)
def count_shifts(whom: str) -> dict:
    '''How often somebody on the staff has worked.'''
    return {"shifts": len(whom)}
"""


async def test_a_parameter_whose_name_says_nothing_takes_what_means_the_same() -> None:
    spec = EnvironmentSpec(name="staff", version="1", title="Staff", summary="Who works here.")
    draft = Draft(
        spec,
        schema="CREATE TABLE people (code TEXT PRIMARY KEY, name TEXT NOT NULL);",
        rows={"people": [{"code": "anna", "name": "Anna Berg"}, {"code": "bo", "name": "Bo Dahl"}]},
        tools=PEOPLE,
    )

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "whom" in text or "code" in text else [0.0, 1.0] for text in texts]

    async with workshop() as place:
        environment = await place.opened(draft)
        assert links_of(await Sampler.open(environment, SEED)) == set()
        sampler = await Sampler.open(environment, SEED, embed)
        assert links_of(sampler) == {("list_people", "*.code", "count_shifts", "whom")}


async def test_a_world_is_walked_across_its_members(shipped: Environments) -> None:
    links = links_of(await Sampler.open(await shipped.get("purchasing"), SEED))
    assert any(
        source.startswith("supplier__") and target.startswith("inventory__")
        for source, _, target, _ in links
    )


async def test_every_task_is_proved_and_no_two_are_alike(
    banking: tuple[Sampler, Sampling], shipped: Environments
) -> None:
    _, made = banking
    tasks = [sampled.task for sampled in made.tasks]
    environment = (await shipped.get("banking")).with_tasks(tasks)
    assert len(tasks) == 16
    assert len({shape_of(task.oracle) for task in tasks}) == 16
    assert len({task.instruction for task in tasks}) == 16
    levels = Counter(tag for task in tasks for tag in task.tags)
    assert {"explicit", "described", "compared", "question"} <= {*levels}
    for task in tasks:
        episode = await Episode.start(environment, task=task.id, seed=SEED)
        assert (await episode.score()).value == 0.0, task.id
        run = await play_oracle(episode)
        assert (await episode.score(run.answer)).value == 1.0, task.id
        changed = bool(episode.changes(actor="agent"))
        assert changed is (task.answer is None), "a walk that changes nothing is a question"
        await episode.close()


async def test_an_instruction_says_what_nobody_can_know_and_no_id_that_can_be_found(
    banking: tuple[Sampler, Sampling],
) -> None:
    for sampled in banking[1].tasks:
        text = sampled.task.instruction
        assert [figure for figure in sampled.figures if figure not in text] == []
        assert [name for name in sampled.hidden if name in text] == []
        if "explicit" not in sampled.task.tags and sampled.task.answer is None:
            assert any(_refers(call.arguments) for call in sampled.task.oracle)


def _refers(arguments: Mapping[str, Any]) -> bool:
    return any(REFERENCE.search(str(value)) for value in arguments.values())


async def test_the_same_seed_gives_the_same_tasks_and_another_others(
    banking: tuple[Sampler, Sampling], shipped: Environments
) -> None:
    environment = await shipped.get("banking")
    again = await (await Sampler.open(environment, SEED)).sample(16, 5)
    assert again.tasks == banking[1].tasks
    other = await (await Sampler.open(environment, SEED + 1)).sample(4, 5)
    assert [one.task.instruction for one in other.tasks] != [
        one.task.instruction for one in banking[1].tasks[:4]
    ]


async def test_what_is_said_of_a_row_fits_no_other(
    banking: tuple[Sampler, Sampling], shipped: Environments
) -> None:
    """*The customer with full name “…”*: there is one."""
    environment = await shipped.get("banking")
    said = 0
    with sqlite3.connect(environment.snapshot.uri, uri=True) as rows:
        for sampled in banking[1].tasks:
            for name in re.findall(r"with full name “([^”]+)”", sampled.task.instruction):
                said += 1
                found = "SELECT count(*) FROM customers WHERE full_name = ?"
                assert rows.execute(found, (name,)).fetchone() == (1,)
    assert said


async def test_a_pack_with_sampled_tasks_passes_the_whole_gate(
    shipped: Environments, tmp_path: Path
) -> None:
    environment = await shipped.get("procurement")
    sampler = await Sampler.open(environment, SEED)
    made = await sampler.sample(8, 6)
    folder = tmp_path / "procurement"
    for file in environment.pack.path.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            target = folder / file.relative_to(environment.pack.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    with (folder / "tasks.jsonl").open("ab") as tasks:
        for sampled in made.tasks:
            tasks.write(msgspec.json.encode(sampled.task) + b"\n")
    (report,) = await check_packs([folder])
    assert report.passed, report.failures

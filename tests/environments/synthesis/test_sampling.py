"""Tasks by walks through the tools of any pack: the graph, what is proved, the words."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.check import check_packs
from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.errors import InfrastructureFault
from environments.oracle import REFERENCE, play_oracle
from environments.spec import EnvironmentSpec
from environments.synthesis.sampling.sampler import Sampler, Sampling
from environments.synthesis.walk import shape_of
from environments.synthesis.workshop import Draft, workshop
from environments.trajectory import Reward

pytestmark = pytest.mark.anyio
SEED = 3
TILL = Path(__file__).resolve().parents[2] / "packs" / "till"


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


YARD = Draft(
    EnvironmentSpec(name="yard", version="1.0.0", title="Yard", summary="Boats.", domain="yard"),
    schema="""
CREATE TABLE berths (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE owners (
    id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, born_on TEXT NOT NULL
);
CREATE TABLE boats (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    berth_id TEXT NOT NULL REFERENCES berths (id),
    owner_id TEXT NOT NULL REFERENCES owners (id),
    length_cm INTEGER NOT NULL,
    note TEXT
);
CREATE TABLE crew (
    boat_id TEXT NOT NULL REFERENCES boats (id), place INTEGER NOT NULL, nickname TEXT NOT NULL,
    PRIMARY KEY (boat_id, place)
);
INSERT INTO berths VALUES ('BE-1', 'North Quay 1'), ('BE-2', 'North Quay 2'), ('BE-3', 'Slip 3');
INSERT INTO owners VALUES ('OW-1', 'Ann Lee', 'Cork', '1971-02-03'),
    ('OW-2', 'Bo Ek', 'Hull', '1988-04-05'), ('OW-3', 'Cy Roe', 'Hull', '1990-01-09');
INSERT INTO boats VALUES
    ('BO-1', 'Merlin', 'afloat', 'BE-1', 'OW-1', 811, 'Merlin creaks since Ann ran aground'),
    ('BO-2', 'Osprey', 'ashore', 'BE-2', 'OW-2', 655, 'Osprey is to be sold to a man called Pat'),
    ('BO-3', 'Curlew', 'afloat', 'BE-3', 'OW-2', 942, NULL),
    ('BO-4', 'Plover', 'in repair', 'BE-3', 'OW-3', 702, NULL);
INSERT INTO crew VALUES ('BO-1', 1, 'Spadger'), ('BO-1', 2, 'Longshanks'), ('BO-2', 1, 'Nobby-One'),
    ('BO-3', 1, 'Dusty-Two'), ('BO-4', 1, 'Chalky-Three');
""",
    tools='''"""The tools of a boat yard."""

from typing import Literal

from environments.authoring import Database, ToolError, new_id, tool


@tool(read_only=True)
def find_owner(db: Database, name: str, born_on: str) -> list[dict]:
    """Find the owner of that name who was born on a day."""
    return list(db.rows("SELECT * FROM owners WHERE name = ? AND born_on = ?", name, born_on))


@tool(read_only=True)
def list_boats(db: Database, owner_id: str) -> list[dict]:
    """List the boats of an owner."""
    return list(db.rows("SELECT * FROM boats WHERE owner_id = ?", owner_id))


@tool(read_only=True)
def get_boat(db: Database, boat_id: str) -> dict:
    """Show a boat with its crew."""
    boat = db.one("SELECT * FROM boats WHERE id = ?", boat_id)
    if boat is None:
        raise ToolError("NO_BOAT", "there is no such boat")
    crew = db.rows("SELECT nickname, place * 1000 AS pay FROM crew WHERE boat_id = ?", boat_id)
    return {**boat, "crew": list(crew)}


@tool(read_only=False)
def set_boat_status(
    db: Database, boat_id: str, status: Literal["afloat", "ashore", "in repair", "sold"]
) -> dict:
    """Say where a boat is."""
    db.run("UPDATE boats SET status = ? WHERE id = ?", status, boat_id)
    return {"boat_id": boat_id}


@tool(read_only=False)
def set_note(db: Database, boat_id: str, note: str, max_boats: int | None = None) -> dict:
    """Write a note about a boat, unless there are too many."""
    db.run("UPDATE boats SET note = ? WHERE id = ?", note, boat_id)
    return {"boat_id": boat_id}


@tool(read_only=False)
def add_boat(db: Database, owner_id: str, berth_id: str, name: str) -> dict:
    """Add a boat of an owner."""
    key = new_id("BO")
    db.run(
        "INSERT INTO boats VALUES (?, ?, 'ashore', ?, ?, 700, NULL)", key, name, berth_id, owner_id
    )
    return {"boat_id": key}
''',
)


@pytest.fixture(scope="module")
async def yard() -> AsyncIterator[tuple[Environment, Sampling]]:
    async with workshop() as place:
        environment = await place.opened(YARD)
        made = [await (await Sampler.open(environment, seed)).sample(12, 5) for seed in range(3)]
        tasks = [one for each in made for one in each.tasks]
        yield environment, Sampling(tasks=tasks)


async def test_all_that_has_to_be_known_is_said(yard: tuple[Environment, Sampling]) -> None:
    """Two of the searches take values that no tool tells: the instruction does."""
    environment, made = yard
    assert len(made.tasks) > 20
    hints = 0
    for sampled in made.tasks:
        text = sampled.task.instruction
        for call in sampled.task.oracle:
            for name, value in call.arguments.items():
                if not REFERENCE.search(str(value)):
                    assert str(value) in text, (name, value, text)
        hints += "Known of the owner:" in text
        if sampled.task.answer is not None:
            assert sampled.task.answer not in text
    assert hints
    assert environment.tools["find_owner"].read_only


async def test_nothing_is_told_by_what_the_walk_has_changed(
    yard: tuple[Environment, Sampling],
) -> None:
    changed = 0
    for sampled in yard[1].tasks:
        first, *later = re.split(r"(?<=\.) (?:Next,|Then) ", sampled.task.instruction)
        if later and first.startswith("Please set the status of"):
            changed += 1
            assert not any("with status" in text or "and status" in text for text in later)
    assert changed


async def test_what_is_new_is_called_like_its_kind_and_what_is_written_speaks_of_nothing_else(
    yard: tuple[Environment, Sampling],
) -> None:
    calls = [call for sampled in yard[1].tasks for call in sampled.task.oracle]
    names = {call.arguments["name"] for call in calls if call.tool == "add_boat"}
    assert names
    assert names <= {"Merlin", "Osprey", "Curlew", "Plover"}
    notes = {str(call.arguments["note"]) for call in calls if call.tool == "set_note"}
    assert notes
    assert not any("Merlin" in note or "Pat" in note for note in notes)


async def test_how_many_is_not_which() -> None:
    async with workshop() as place:
        graph = (await Sampler.open(await place.opened(YARD), SEED)).graph
    assert ("set_note", "boat_id") in graph.takes
    assert ("set_note", "max_boats") not in graph.takes


async def test_one_of_several_is_no_fact_of_the_whole(yard: tuple[Environment, Sampling]) -> None:
    """A boat has a crew: *what is the pay of the boat* would have two answers."""
    questions = [one.task.instruction for one in yard[1].tasks if one.task.answer is not None]
    assert questions
    assert not [text for text in questions if "pay" in text or "nickname" in text]


async def test_rows_are_compared_only_where_all_of_them_can_be_listed(
    yard: tuple[Environment, Sampling],
) -> None:
    """The boats of one owner are listed, never all."""
    texts = [one.task.instruction for one in yard[1].tasks]
    assert not [text for text in texts if "the highest" in text or "the lowest" in text]


async def test_tables_without_a_key_are_walked_too(tmp_path: Path) -> None:
    """What is in no column is no name of a row."""
    async with open_environments([TILL], data_dir=tmp_path) as environments:
        made = await (await Sampler.open(await environments.get("till"), SEED)).sample(1, 2)
    assert made.walks


DIARY = Draft(
    EnvironmentSpec(name="diary", version="1.0.0", title="Diary", summary="Days.", domain="diary"),
    schema="""
CREATE TABLE days (
    id TEXT NOT NULL PRIMARY KEY, day_name TEXT NOT NULL, tags TEXT NOT NULL, mood TEXT NOT NULL
);
CREATE TABLE visits (id INTEGER NOT NULL PRIMARY KEY, of TEXT NOT NULL);
INSERT INTO days VALUES ('DA-1', 'Thaw day', '["ice","lake"]', 'calm as a pond'),
    ('DA-2', 'Storm day', '["lake"]', 'loud and bright'), ('DA-3', 'Fair day', '[]', 'rather dull');
WITH RECURSIVE n (i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO days SELECT 'DA-' || i, 'Day no. ' || i, '["lake"]', 'quiet' FROM n;
""",
    tools='''"""The tools of a diary."""

from environments.authoring import Database, ToolError, tool


@tool(read_only=True)
def diary_list_days(db: Database) -> list[dict]:
    """List all days."""
    return list(db.rows("SELECT * FROM days"))


@tool(read_only=False)
def diary_get_day(db: Database, day_id: str) -> dict:
    """Show a day, and note that it was looked at."""
    db.run("INSERT INTO visits (of) VALUES (?)", day_id)
    return db.one("SELECT * FROM days WHERE id = ?", day_id)


@tool(read_only=False)
def diary_update_day(db: Database, day_id: str, tags: list[str] | None = None) -> dict:
    """Change a day."""
    if db.one("SELECT 1 FROM days WHERE id = ?", day_id) is None:
        raise ToolError("NO_DAY", "there is no such day")
    db.run("UPDATE days SET mood = 'changed', tags = ? WHERE id = ?", ",".join(tags or []), day_id)
    return {"day_id": day_id}


@tool(read_only=False)
def diary_delete_day(db: Database, day_id: str) -> dict:
    """Forget a day."""
    if db.one("SELECT 1 FROM days WHERE id = ?", day_id) is None:
        raise ToolError("NO_DAY", "there is no such day")
    db.run("DELETE FROM days WHERE id = ?", day_id)
    return {"day_id": day_id}
''',
)


async def test_what_all_names_begin_with_is_not_said_and_what_only_looks_is_no_task() -> None:
    async with workshop() as place:
        made = await (await Sampler.open(await place.opened(DIARY), SEED)).sample(10, 2)
    tasks = [sampled.task for sampled in made.tasks]
    texts = [task.instruction for task in tasks]
    assert any(text.startswith("Please delete the day “") for text in texts), texts
    assert not [text for text in texts if "diary" in text]
    changing = [task.oracle[-1] for task in tasks if task.answer is None]
    assert not [call for call in changing if call.tool == "diary_get_day"]
    tags = [c.arguments.get("tags") for c in changing if c.tool == "diary_update_day"]
    assert tags, "what is to be changed is said, or it is not asked for"
    assert {tag for each in tags for tag in each} <= {"ice", "lake"}


async def test_a_run_that_nobody_could_score_is_no_task_that_fails(
    shipped: Environments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any) -> Reward:
        return Reward(
            value=None, outcome="unset", reason="the disk is full", failure_kind="infrastructure"
        )

    sampler = await Sampler.open(await shipped.get("supplier"), SEED)
    monkeypatch.setattr(Environment, "score", full)
    with pytest.raises(InfrastructureFault, match="the disk is full"):
        await sampler.sample(1, 3)

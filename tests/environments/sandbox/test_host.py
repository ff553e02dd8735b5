"""What the operations of a sandbox do when everybody behaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from environments.errors import ForgedChanges, InvalidArguments, PackInvalid
from environments.sandbox.host import Case, Sandbox, Transition, Trial
from environments.trajectory import Step
from snapshots import Branch, Changeset, SnapshotStore, Workspace
from tests.environments.sandbox.conftest import SCHEMA, Make, Packs, World

pytestmark = pytest.mark.anyio
STOCK_FALLS = {"table": "items", "where": {"sku": "a"}, "set": {"on_hand": {"delta": -1}}}
ANY_LOG = {"table": "log", "change": "added"}


async def test_a_call_changes_the_branch_only_when_its_delta_is_committed(make: Make) -> None:
    world = make()
    before = world.branch.head
    transition = await world.sandbox.call(
        world.pack, world.branch, world.moment, "take", {"sku": "a"}
    )
    assert transition.result == {"left": 4}
    assert world.branch.head is before
    assert (await world.call("stock", sku="a")).result["on_hand"] == 5
    world.accept(transition)
    assert (await world.call("stock", sku="a")).result["on_hand"] == 4


async def test_a_write_reports_its_rows_and_moves_clock_and_ids(make: Make) -> None:
    world = make()
    start = world.moment.clock_ms
    first = await world.call("take", sku="a")
    (change,) = first.commits
    assert change.actor == "agent"
    assert change.changes["items"]["changed"] == [
        {"key": {"sku": "a"}, "before": {"on_hand": 5}, "after": {"on_hand": 4}}
    ]
    (row,) = change.changes["log"]["added"]
    assert row["at"] == "2026-01-05T09:00:00Z"
    assert first.moment.clock_ms == start + 60_000
    second = await world.call("take", sku="a")
    (later,) = second.commits[0].changes["log"]["added"]
    assert later["at"] == "2026-01-05T09:01:00Z"
    assert later["id"] != row["id"]


async def test_a_read_moves_nothing(make: Make) -> None:
    world = make()
    transition = await world.call("stock", sku="b")
    assert transition.result == {"sku": "b", "on_hand": 7, "note": "x"}
    assert (transition.delta, transition.commits) == (None, ())
    assert transition.moment.clock_ms == world.pack.spec.clock.start_ms


async def test_an_extra_read_shifts_nothing_that_comes_later(make: Make) -> None:
    tools = """
    import random, uuid

    @tool(read_only=False)
    def draw(db: Database) -> list:
        "Draw."
        lot = [random.random(), str(uuid.uuid4()), db.scalar("SELECT hex(randomblob(8))")]
        db.insert("log", id=new_id("log"), at=lot[1])
        return lot

    @tool(read_only=True)
    def peek(db: Database) -> list:
        "Draw without writing."
        return [random.random(), new_id("log")]
    """
    world = make(tools)
    plain = world.another()
    plain.moment = world.moment
    first = [(await plain.call("draw")).result for _ in range(3)]
    assert len({json.dumps(lot) for lot in first}) == 3
    second = []
    for _ in range(3):
        await world.call("peek")
        second.append((await world.call("draw")).result)
    assert first == second
    other = world.another()
    assert (await other.call("draw")).result != first[0]


async def test_a_refusal_of_the_tool_is_an_observation_and_undoes_its_writes(make: Make) -> None:
    world = make()
    transition = await world.call("take", sku="a", quantity=9)
    assert transition.error is not None
    assert (transition.error.kind, transition.error.code) == ("agent", "OUT_OF_STOCK")
    assert transition.error.details == {"left": 5}
    assert (transition.delta, transition.commits) == (None, ())
    assert transition.moment.clock_ms == world.pack.spec.clock.start_ms
    assert (await world.call("stock", sku="a")).result["on_hand"] == 5


async def test_keep_on_error_keeps_what_was_written_before_the_refusal(make: Make) -> None:
    world = make(manifest='on_error = "keep"\n')
    transition = await world.call("take", sku="a", quantity=9)
    assert transition.error is not None
    assert transition.error.code == "OUT_OF_STOCK"
    assert (await world.call("stock", sku="a")).result["on_hand"] == -4
    refused = await world.call("stock", sku="zz")
    assert refused.error is not None
    assert refused.delta is None


async def test_bad_arguments_and_unknown_tools_are_the_agents(make: Make) -> None:
    world = make()
    wrong = await world.call("take", sku="a", quantity="many")
    assert wrong.error is not None
    assert (wrong.error.kind, wrong.error.code) == ("agent", "INVALID_ARGUMENTS")
    assert "quantity" in wrong.error.message
    unknown = await world.call("give", sku="a")
    assert unknown.error is not None
    assert (unknown.error.kind, unknown.error.code) == ("agent", "UNKNOWN_TOOL")


async def test_arguments_may_be_larger_than_any_integer_of_the_wire(make: Make) -> None:
    tools = """
    @tool(read_only=True)
    def echo(value: Any) -> Any:
        "Say it again, a number beyond 64 bits as text: no record could hold it."
        return {**value, "big": str(value["big"])}
    """
    world = make(tools)
    value: dict[str, Any] = {"big": 2**80, "deep": [[[{"é": None}]]], "float": 0.1}
    expected = {**value, "big": str(2**80)}
    assert (await world.call("echo", value=value)).result == expected


async def test_branches_that_fork_and_rewind_are_told_apart_by_every_worker(make: Make) -> None:
    world = make()
    start = world.branch.mark()
    await world.call("take", sku="a")
    fork = world.another()
    fork.branch = world.branch.fork()
    for _ in range(3):
        await world.call("take", sku="a")
    assert (await fork.call("stock", sku="a")).result["on_hand"] == 4
    await fork.call("take", sku="a", quantity=4)
    assert (await world.call("stock", sku="a")).result["on_hand"] == 1
    world.branch.rewind(start)
    assert (await world.call("stock", sku="a")).result["on_hand"] == 5
    assert (await fork.call("stock", sku="a")).result["on_hand"] == 0


async def test_describe_tells_tools_and_tables(make: Make) -> None:
    world = make()
    description = await world.sandbox.describe(world.pack, world.snapshot)
    assert [tool.name for tool in description.tools] == ["stock", "take"]
    assert description.tools[0].read_only
    assert description.tables["items"].columns == ("sku", "on_hand", "note")
    assert description.tables["items"].key == ("sku",)


async def test_build_writes_the_snapshot_of_the_recipe(
    sandbox: Sandbox, packs: Packs, tmp_path: Path
) -> None:
    pack = packs.write()
    path = tmp_path / "built.sqlite"
    await sandbox.build(pack, pack.recipe(), path)
    assert path.read_bytes() == SnapshotStore(tmp_path / "s").build(pack.recipe()).path.read_bytes()


async def test_build_says_what_is_wrong_with_the_data(
    sandbox: Sandbox, packs: Packs, tmp_path: Path
) -> None:
    pack = packs.write(data_sql="INSERT INTO items VALUES ('a', NULL, NULL);")
    with pytest.raises(PackInvalid, match=r"script 2, line 1: .*NOT NULL"):
        await sandbox.build(pack, pack.recipe(), tmp_path / "built.sqlite")


# --- the world ------------------------------------------------------------------------------------

EVENTS = "\n".join(
    json.dumps({"id": name, "at": at, "statements": [statement]})
    for name, at, statement in (
        ("delivery", "2026-01-05T10:00:00Z", "UPDATE items SET on_hand = 100 WHERE sku = 'a'"),
        ("stamp", "2026-01-05T09:00:30Z", "INSERT INTO log VALUES ('e', datetime('now'))"),
        ("recall", "2026-01-05T12:00:00Z", "DELETE FROM items WHERE sku = 'a'"),
    )
)


async def test_events_happen_in_the_step_that_passes_them(make: Make) -> None:
    world = make(events_jsonl=EVENTS)
    transition = await world.call("take", sku="a")
    assert [(change.actor, change.event) for change in transition.commits] == [
        ("agent", None),
        ("environment", "stamp"),
    ]
    (row,) = transition.commits[1].changes["log"]["added"]
    assert row == {"id": "e", "at": "2026-01-05 09:00:30"}
    again = await world.call("take", sku="a")
    assert [change.event for change in again.commits] == [None]


async def test_wait_moves_the_clock_and_fires_what_comes_due_in_order(make: Make) -> None:
    world = make(events_jsonl=EVENTS)
    sandbox = world.sandbox
    short = world.accept(await sandbox.wait(world.pack, world.branch, world.moment, 10))
    assert (short.commits, short.result) == ((), {"now": "2026-01-05T09:00:10Z"})
    long = world.accept(await sandbox.wait(world.pack, world.branch, world.moment, 2 * 3600))
    assert [change.event for change in long.commits] == ["stamp", "delivery"]
    assert long.moment.clock_ms == short.moment.clock_ms + 7_200_000
    assert (await world.call("stock", sku="a")).result["on_hand"] == 100


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12])
async def test_wait_refuses_times_that_make_no_sense(make: Make, seconds: float) -> None:
    world = make(events_jsonl=EVENTS)
    with pytest.raises(InvalidArguments, match="seconds"):
        await world.sandbox.wait(world.pack, world.branch, world.moment, seconds)


async def test_an_event_that_fails_is_the_packs_fault_and_nothing_of_the_step_counts(
    make: Make,
) -> None:
    bad = {"id": "bad", "at": "2026-01-05T09:00:30Z", "statements": ["UPDATE nowhere SET a = 1"]}
    world = make(events_jsonl=json.dumps(bad))
    transition = await world.call("take", sku="a")
    assert transition.error is not None
    assert transition.error.kind == "environment"
    assert "event bad" in transition.error.message
    assert transition.delta is None
    waited = await world.sandbox.wait(world.pack, world.branch, world.moment, 60)
    assert waited.error is not None
    assert waited.moment == world.moment


async def test_prepare_runs_statements_as_the_world(make: Make) -> None:
    world = make()
    statements = ["UPDATE items SET on_hand = 1", "INSERT INTO log VALUES ('p', datetime('now'))"]
    transition = world.accept(
        await world.sandbox.prepare(world.pack, world.branch, world.moment, statements)
    )
    (change,) = transition.commits
    assert (change.actor, change.event) == ("environment", None)
    assert transition.moment.clock_ms == world.pack.spec.clock.start_ms
    assert (await world.call("stock", sku="b")).result["on_hand"] == 1
    failed = await world.sandbox.prepare(world.pack, world.branch, world.moment, ["SELECT nope"])
    assert failed.error is not None
    assert failed.error.kind == "environment"


# --- scoring --------------------------------------------------------------------------------------


def trial(world: World, start: Branch | None = None) -> Trial:
    initial = start or world.branch
    return Trial("scoring", initial, world.branch, world.moment.clock_ms)


def case(*transitions: Transition) -> Case:
    steps = (
        Step(index=n, tool="take", arguments={}, changes=done.commits, clock_ms=0)
        for n, done in enumerate(transitions)
    )
    return Case(steps=tuple(steps))


async def test_score_judges_what_the_pages_tell(make: Make) -> None:
    world = make()
    start = Branch(world.snapshot)
    done = await world.call("take", sku="a")
    verifier = {"expect": [STOCK_FALLS], "allow": [ANY_LOG]}
    judged = await world.sandbox.score(world.pack, trial(world, start), verifier, case(done))
    assert all(component.passed for component in judged.components)
    assert judged.rebuilt is None
    nothing = await world.sandbox.score(world.pack, trial(world), verifier, case())
    assert not all(component.passed for component in nothing.components)


async def test_the_final_state_is_rebuilt_from_its_rows(make: Make) -> None:
    world = make()
    start = Branch(world.snapshot)
    done = await world.call("take", sku="a")
    judged = await world.sandbox.score(
        world.pack, trial(world, start), None, case(done), rebuild=True
    )
    assert judged.components == ()
    assert judged.rebuilt is not None
    again = Workspace(world.snapshot)
    with again.mount(judged.rebuilt, read_only=True) as mount:
        sql = "SELECT sku, on_hand FROM items ORDER BY sku"
        assert mount.connection.execute(sql).fetchall() == [("a", 4), ("b", 7)]
    again.close()


async def test_a_run_that_is_not_as_told_is_not_judged(make: Make) -> None:
    world = make()
    start = Branch(world.snapshot)
    done = await world.call("take", sku="a")
    verifier = {"expect": [STOCK_FALLS], "allow": [ANY_LOG]}
    for told, states in ((case(), trial(world, start)), (case(done), trial(world))):
        with pytest.raises(ForgedChanges, match="items a was"):
            await world.sandbox.score(world.pack, states, verifier, told)


async def test_scoring_needs_no_tools_and_never_loads_them(make: Make) -> None:
    world = make("raise RuntimeError('loaded')")
    with pytest.raises(PackInvalid, match="loaded"):
        await world.call("stock", sku="a")
    verifier = {"expect": [STOCK_FALLS]}
    judged = await world.sandbox.score(world.pack, trial(world), verifier, case())
    assert judged.components


async def test_a_verifier_that_makes_no_sense_is_the_packs_fault(make: Make) -> None:
    world = make()
    verifier = {"expect": [{**STOCK_FALLS, "table": "item"}]}
    with pytest.raises(PackInvalid, match="item"):
        await world.sandbox.score(world.pack, trial(world), verifier, case())


# --- what a pack may see, and keep ----------------------------------------------------------------


async def test_a_worker_has_nothing_of_the_gateways_environment(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVHUB_SECRET", "s3cret")
    tools = """
    import os, sys

    @tool(read_only=True)
    def look() -> dict:
        "Look around."
        return {"names": sorted(os.environ), "hash": hash("x"), "modules": sorted(sys.modules)}
    """
    found = (await make(tools).call("look")).result
    assert "ENVHUB_SECRET" not in found["names"]
    assert set(found["names"]) <= {
        "LC_ALL", "LC_CTYPE", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPATH", "TZ",
    }  # fmt: skip
    again = (await make(tools, name="again").call("look")).result
    assert again["hash"] == found["hash"]
    assert not [name for name in found["modules"] if name.startswith("hub")]


COUNTING = """
seen = 0

@tool(read_only=True)
def count() -> int:
    "How often this was called."
    global seen
    seen += 1
    return seen
"""


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("environment", [1, 2, 3]), ("episode", [1, 2, 1]), ("call", [1, 1, 1])],
)
async def test_isolation_says_how_long_globals_live(
    make: Make, isolation: str, expected: list[int]
) -> None:
    world = make(COUNTING, f'isolation = "{isolation}"\n')
    other = world.another()
    counts = [(await who.call("count")).result for who in (world, world, other)]
    assert counts == expected


async def test_the_layers_that_are_on_are_reported(make: Make) -> None:
    world = make()
    await world.call("stock", sku="a")
    statistics = world.sandbox.statistics()
    assert {"memory", "file_size", "open_files", "core", "no_new_privs"} <= set(statistics.layers)
    assert statistics.missing_layers == ()


async def test_ddl_is_refused_unless_asked_for(make: Make) -> None:
    tools = """
    @tool(read_only=False)
    def define(db: Database) -> None:
        "Make a table."
        db.run("CREATE TABLE extra (id INTEGER PRIMARY KEY)")
    """
    refused = await make(tools).call("define")
    assert refused.error is not None
    assert "CREATE TABLE" in refused.error.message
    allowed = await make(tools, "allow_ddl = true\n", name="free").call("define")
    assert allowed.error is None
    assert allowed.commits[0].changes["$schema"][0]["name"] == "extra"


async def test_changes_can_be_read_back(make: Make) -> None:
    tools = """
    @tool(read_only=False)
    def stash(db: Database) -> None:
        "A blob and an infinity."
        db.run("INSERT INTO things VALUES (1, x'00ff', 9e999)")
    """
    schema = SCHEMA + "CREATE TABLE things (id INTEGER PRIMARY KEY, data BLOB, size REAL);"
    done = await make(tools, schema_sql=schema).call("stash")
    (row,) = Changeset.from_json(done.commits[0].changes).rows("things")
    assert row.after == {"id": 1, "data": b"\x00\xff", "size": float("inf")}

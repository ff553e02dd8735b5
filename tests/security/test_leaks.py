"""A hostile pack leaves something on the connection that episodes share: the next one sees nothing.

Each leak was seen to work on a plain connection. One worker serves all of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from environments.environment import Environment, open_environments
from environments.episode import Episode
from environments.sandbox.host import SandboxLimits
from tests.environments.sandbox.conftest import Packs

pytestmark = pytest.mark.anyio

TOOLS = """
import random, threading, time

LEAKS = {}
KEPT = []

def leak(function):
    LEAKS[function.__name__] = function
    return function

@leak
def open_transaction(db):
    db.run("COMMIT")
    db.run("BEGIN IMMEDIATE")
    db.run("UPDATE items SET on_hand = 99")

@leak
def exclusive_transaction(db):
    db.run("COMMIT")
    db.run("BEGIN EXCLUSIVE")

@leak
def open_savepoint(db):
    db.run("COMMIT")
    db.run("SAVEPOINT mine")
    db.run("UPDATE items SET on_hand = 98")

@leak
def committed_then_failed(db):
    db.run("UPDATE items SET on_hand = 97")
    db.run("COMMIT")
    db.run("UPDATE items SET on_hand = 96")
    raise KeyError("after all")

@leak
def half_read_cursor(db):
    cursor = db._connection.execute("SELECT * FROM items")
    next(cursor)
    KEPT.append(cursor)

@leak
def half_read_write(db):
    cursor = db._connection.execute("UPDATE items SET on_hand = 95 RETURNING sku")
    next(cursor)
    KEPT.append(cursor)

@leak
def statements_not_reached(db):
    cursor = db._connection.execute("SELECT 1; UPDATE items SET on_hand = 94")
    next(cursor)
    KEPT.append(cursor)

@leak
def blob_handle(db):
    KEPT.append(db._connection.blob_open("main", "items", "sku", 1, False))

@leak
def kept_connection(db):
    connection = db._connection
    def later():
        time.sleep(0.005)
        connection.execute("UPDATE items SET on_hand = 93")
    KEPT.append(threading.Thread(target=later, daemon=True))
    KEPT[-1].start()

@leak
def finalizer(db):
    connection = db._connection
    class Trap:
        def __del__(self):
            try:
                connection.execute("UPDATE items SET on_hand = 92")
            except Exception:
                pass
    trap = Trap()
    trap.itself = trap

@leak
def temp_table(db):
    db.run("CREATE TEMP TABLE items (sku TEXT PRIMARY KEY, on_hand INTEGER, note TEXT)")

@leak
def temp_view(db):
    db.run("CREATE TEMP VIEW items AS SELECT 'a' AS sku, 91 AS on_hand, '' AS note")

@leak
def temp_trigger(db):
    db.run("CREATE TEMP TRIGGER t AFTER UPDATE ON main.items BEGIN "
           "UPDATE items SET note = 'seen'; END")

@leak
def new_table(db):
    db.run("CREATE TABLE mine (x)")

@leak
def new_trigger(db):
    db.run("CREATE TRIGGER t AFTER UPDATE ON items BEGIN UPDATE items SET note = 'seen'; END")

@leak
def attached(db):
    db.run("ATTACH ':memory:' AS other")

@leak
def analyzed(db):
    db.run("ANALYZE")

@leak
def drawn(db):
    db.rows("SELECT random(), hex(randomblob(8)) FROM items, items AS more")
    random.seed(1)

@leak
def counted(db):
    db.run("COMMIT")
    db.run("INSERT INTO log VALUES ('x', 'y')")
    db.run("DELETE FROM log")

@leak
def rowid_remembered(db):
    db._connection.set_last_insert_rowid(4711)

@leak
def interrupted(db):
    db._connection.interrupt()

for pragma in ("locking_mode=exclusive", "query_only=1", "reverse_unordered_selects=1",
               "foreign_keys=off", "case_sensitive_like=1", "recursive_triggers=1",
               "defer_foreign_keys=1", "ignore_check_constraints=1", "trusted_schema=1",
               "writable_schema=1", "journal_mode=delete", "cache_size=1", "max_page_count=5",
               "user_version=9", "application_id=9", "schema_version=9", "legacy_alter_table=1",
               "count_changes=1", "full_column_names=1", "short_column_names=0",
               "encoding='UTF-16'", "automatic_index=0", "busy_timeout=1", "secure_delete=1",
               "synchronous=2",
               "temp_store=1", "threads=2", "read_uncommitted=1", "wal_autocheckpoint=1"):
    LEAKS[f"pragma {pragma}"] = lambda db, pragma=pragma: db.rows(f"PRAGMA {pragma}")

@leak
def settings_of_the_connection(db):
    for name in ("row_trace", "exec_trace", "rowtrace", "exectrace", "cursor_factory",
                 "convert_binding", "convert_jsonb", "authorizer", "transaction_mode"):
        try:
            setattr(db._connection, name, lambda *_: (_ for _ in ()))
        except Exception:
            pass

@leak
def functions_of_the_connection(db):
    connection = db._connection
    for attempt in (
        lambda: connection.create_scalar_function("upper", lambda _: "mine", 1),
        lambda: connection.create_aggregate_function("count", lambda: None, 0),
        lambda: connection.create_collation("BINARY", lambda a, b: 1),
        lambda: connection.set_progress_handler(lambda: True, 1),
        lambda: connection.set_commit_hook(lambda: True),
        lambda: connection.set_update_hook(lambda *_: KEPT.append(_)),
        lambda: connection.set_authorizer(None),
        lambda: connection.limit(0, 1),
        lambda: connection.config(1002, 0),
    ):
        try:
            attempt()
        except Exception:
            pass

@tool(read_only=False)
def lay_traps(db: Database) -> None:
    "Leave many cycles that write, and speak, when they are collected."
    connection = db._connection
    class Trap:
        def __init__(self):
            self.itself = self
        def __del__(self):
            print("collected")
            connection.execute("UPDATE items SET on_hand = 91")
    for _ in range(200):
        Trap()

@tool(read_only=False)
def churn(db: Database) -> dict:
    "Give the collector cause, and say what became of the rows."
    for _ in range(2000):
        cycle = []
        cycle.append(cycle)
    return {"items": db.rows("SELECT * FROM items")}

@tool(read_only=True)
def leaks() -> list:
    "Their names."
    return list(LEAKS)

@tool(read_only=False)
def misbehave(db: Database, how: str) -> None:
    "Leave something behind."
    LEAKS[how](db)

@tool(read_only=True)
def look(db: Database) -> dict:
    "All that can be seen."
    connection = db._connection
    return {
        "items": db.rows("SELECT * FROM items"),
        "log": db.rows("SELECT * FROM log"),
        "schema": db.rows("SELECT type, name, sql FROM sqlite_schema"),
        "temporary": db.rows("SELECT * FROM temp.sqlite_schema"),
        "databases": connection.db_names(),
        "pragmas": {name: db.scalar(f"PRAGMA {name}") for name in
                    ("foreign_keys", "journal_mode", "user_version", "application_id", "page_count",
                     "encoding", "schema_version", "freelist_count")},
        "like": db.scalar("SELECT 'A' LIKE 'a'"),
        "upper": db.scalar("SELECT upper('a')"),
        "binary": db.rows("SELECT value FROM json_each('[2,1,3]') ORDER BY value COLLATE BINARY"),
        "counts": db.one("SELECT changes(), total_changes(), last_insert_rowid()"),
        "random": db.one("SELECT random(), hex(randomblob(4))"),
        "python": random.random(),
        "now": db.scalar("SELECT datetime('now')"),
        "in_transaction": connection.in_transaction,
        "threads": threading.active_count(),
    }

@tool(read_only=False)
def write(db: Database) -> dict:
    "Write, and see what came of it."
    db.run("UPDATE items SET on_hand = on_hand - 1 WHERE sku = 'a'")
    db.insert("log", id=new_id("log"), at=timestamp())
    return {"items": db.rows("SELECT * FROM items"), "log": db.rows("SELECT * FROM log"),
            "random": db.one("SELECT random(), changes(), last_insert_rowid()")}
"""
LEAKS = [
    "open_transaction", "exclusive_transaction", "open_savepoint", "committed_then_failed",
    "half_read_cursor", "half_read_write", "statements_not_reached", "blob_handle",
    "kept_connection", "finalizer", "temp_table", "temp_view", "temp_trigger", "new_table",
    "new_trigger", "attached", "analyzed", "drawn", "counted", "rowid_remembered", "interrupted",
    "settings_of_the_connection", "functions_of_the_connection", "pragma locking_mode=exclusive",
    "pragma query_only=1", "pragma reverse_unordered_selects=1", "pragma foreign_keys=off",
    "pragma case_sensitive_like=1", "pragma recursive_triggers=1", "pragma defer_foreign_keys=1",
    "pragma ignore_check_constraints=1", "pragma trusted_schema=1", "pragma writable_schema=1",
    "pragma journal_mode=delete", "pragma cache_size=1", "pragma max_page_count=5",
    "pragma user_version=9", "pragma application_id=9", "pragma schema_version=9",
    "pragma legacy_alter_table=1", "pragma count_changes=1", "pragma full_column_names=1",
    "pragma short_column_names=0", "pragma encoding='UTF-16'", "pragma automatic_index=0",
    "pragma busy_timeout=1", "pragma secure_delete=1", "pragma synchronous=2",
    "pragma temp_store=1", "pragma threads=2", "pragma read_uncommitted=1",
    "pragma wal_autocheckpoint=1",
]  # fmt: skip


@pytest.fixture(scope="module")
async def shop(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environment]:
    """A hostile pack; one worker serves all its episodes, whatever becomes of it."""
    folder = tmp_path_factory.mktemp("leaks")
    pack = Packs(folder).write(TOOLS, "[clock]\nstep_seconds = 1\n")
    limits = SandboxLimits(workers_per_environment=1)
    async with open_environments((pack.path,), limits=limits) as environments:
        yield await environments.get("shop")


async def seen(environment: Environment) -> list[Any]:
    """All that a new episode sees before and after it has written."""
    episode = await Episode.start(environment, seed=11)
    steps = [await episode.call(tool, {}) for tool in ("look", "write", "look", "write")]
    errors = [step.error for step in steps if step.error is not None]
    assert not errors, errors
    changes = episode.changes().to_json()
    await episode.close()
    return [*(step.result for step in steps), changes]


@pytest.fixture(scope="module")
async def clean(shop: Environment) -> list[Any]:
    """What an episode sees where nobody has misbehaved yet."""
    return await seen(shop)


async def test_the_list_is_complete(shop: Environment) -> None:
    episode = await Episode.start(shop)
    assert sorted((await episode.call("leaks", {})).result) == sorted(LEAKS)


@pytest.mark.parametrize("leak", LEAKS)
async def test_the_next_episode_sees_nothing_of(
    shop: Environment, clean: list[Any], leak: str
) -> None:
    hostile = await Episode.start(shop, seed=11)
    # One that rests meanwhile, with rows of its own, must not be written into either.
    resting = await Episode.start(shop, seed=11)
    first = (await resting.call("write", {})).result
    step = await hostile.call("misbehave", {"how": leak})
    if step.error is not None:
        assert step.error.kind == "environment"
        assert not step.changes
    for _ in range(2):
        assert await seen(shop) == clean
    assert (await resting.call("look", {})).result["items"] == first["items"]
    assert (await resting.call("write", {})).result["log"][0] == first["log"][0]
    rows = (await hostile.call("look", {})).result
    if not step.changes:  # else it wrote to its own episode, and says so
        assert rows["items"] == clean[0]["items"]
    assert rows["temporary"] == []


async def test_finalizers_of_an_earlier_episode_write_and_say_nothing_in_a_later_one(
    shop: Environment, clean: list[Any]
) -> None:
    hostile = await Episode.start(shop, seed=11)
    await hostile.call("lay_traps", {})
    episode = await Episode.start(shop, seed=11, horizon=100)
    for _ in range(60):
        step = await episode.call("churn", {})
        assert step.error is None, step.error
        assert step.result["items"] == clean[0]["items"]
        assert (step.changes, step.output) == ((), "")

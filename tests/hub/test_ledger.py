"""The ledger on a real disk: what it acknowledges is there, and what fails is not."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from environments.journal import Closed, JournalRecord, Marked, Opened, Rewound, Scored, Stepped
from environments.sandbox.wire import Moment
from environments.trajectory import Reward, Step
from hub.errors import LedgerDamaged, LedgerFailed
from hub.ledger import Ledger, NullJournal, RowQuery, disk
from hub.wire import Enrolment

pytestmark = pytest.mark.anyio

MOMENT = Moment(clock_ms=1_772_442_000_000, seed=3, counters={"order": 1})


def opened(**fields: Any) -> Opened:
    values = {"environment": "shop", "digest": "d", "task": "buy-tea", "seed": 3, "horizon": 3}
    return Opened(**{**values, "moment": MOMENT, **fields})


def stepped(index: int, size: int = 0) -> Stepped:
    step = Step(index=index, tool="order", arguments={"n": index}, clock_ms=MOMENT.clock_ms + index)
    return Stepped(step, MOMENT, b"page" * size)


RUN: list[JournalRecord] = [
    opened(),
    stepped(0),
    Marked("m1"),
    stepped(1, size=5000),
    Rewound("m1", 1),
    stepped(1),
    Scored(Reward(value=1.0, outcome="complete")),
    Closed(),
]


async def test_records_and_index_come_back_after_closing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    async with Ledger.open(path) as ledger:
        for record in RUN:
            await ledger.append("ep-a", record)
        await ledger.append("ep-b", opened(task=None))
        await ledger.append("ep-b", stepped(0))
        await ledger.keep_seat(("t", "shop", "ann"), "ep-b")
    async with Ledger.open(path) as ledger:
        assert await ledger.records("ep-a") == RUN
        assert ledger.live == 1
        a, b = await ledger.rows()
        assert (a.id, a.status, a.steps, a.reward) == ("ep-a", "closed", 2, 1.0)
        assert (b.id, b.status, b.steps, b.reward, b.task) == ("ep-b", "live", 1, None, None)
        assert await ledger.row("ep-a") == a
        assert await ledger.row("ep-b") == b
        assert await ledger.rows(RowQuery(status="live")) == [b]
        assert await ledger.rows(RowQuery(after=a.number)) == [b]
        assert await ledger.rows(RowQuery(environment="bank")) == []
        assert await ledger.seat(("t", "shop", "ann")) == "ep-b"
        assert await ledger.seat(("t", "shop", "bob")) is None
        assert await ledger.records("ep-c") == []
        await ledger.append("ep-c", opened())
        assert [row.id for row in await ledger.rows(RowQuery(after=b.number))] == ["ep-c"]


async def test_status_follows_the_horizon_and_a_reset(tmp_path: Path) -> None:
    async with Ledger.open(tmp_path / "l") as ledger:
        await ledger.append("ep-a", opened(horizon=1))
        await ledger.append("ep-a", stepped(0))
        row = await ledger.row("ep-a")
        assert row is not None
        assert row.status == "truncated"
        await ledger.append("ep-a", opened(task="last-cup", horizon=9))
        row = await ledger.row("ep-a")
        assert row is not None
        assert (row.status, row.steps, row.task, row.horizon) == ("live", 0, "last-cup", 9)


async def test_the_index_knows_of_steps_that_only_records_tell_of(tmp_path: Path) -> None:
    """A step writes no index row: the rows of live episodes are made from their last records."""
    path = tmp_path / "l"
    async with Ledger.open(path) as ledger:
        for each in ("ep-a", "ep-b", "ep-c"):
            await ledger.append(each, opened(horizon=2))
            await ledger.append(each, stepped(0))
        await ledger.append("ep-b", stepped(1))
        await ledger.park("ep-c")
        before = await ledger.rows()
        assert [row.status for row in before] == ["live", "truncated", "parked"]
        assert [row.steps for row in before] == [1, 2, 1]
    async with Ledger.open(path) as ledger:
        assert await ledger.rows() == before
        assert await ledger.rows(RowQuery(limit=2)) == before[:2]
        for row in before:
            assert await ledger.rows(RowQuery(status=row.status)) == [row]
        assert ledger.live == 2
        await ledger.wake("ep-c")
        await ledger.append("ep-c", stepped(1))
        assert [row.steps for row in await ledger.rows()] == [1, 2, 2]
        assert ledger.live == 3


async def test_a_group_larger_than_a_statement_is_still_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "APPENDED_BYTES", 600)
    async with Ledger.open(tmp_path / "l") as ledger:
        await ledger.append("ep-a", opened())
        records = [stepped(0), stepped(1, size=300), Marked("m1"), stepped(2)]
        await asyncio.gather(*(ledger.append("ep-a", record) for record in records))
        assert await ledger.records("ep-a") == [opened(), *records]


async def test_many_appends_share_commits_and_each_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    async with Ledger.open(path) as ledger:
        ids = [f"ep-{number}" for number in range(200)]

        async def play(episode_id: str) -> None:
            await ledger.append(episode_id, opened())
            for index in range(5):
                await ledger.append(episode_id, stepped(index, size=300))

        await asyncio.gather(*map(play, ids))
    async with Ledger.open(path) as ledger:
        for episode_id in ids:
            records = await ledger.records(episode_id)
            assert [r.step.index for r in records if isinstance(r, Stepped)] == [0, 1, 2, 3, 4]


async def test_a_commit_that_fails_acknowledges_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    async with Ledger.open(path, busy_seconds=0.05) as ledger:
        await ledger.append("ep-a", opened())
        intruder = sqlite3.connect(path, isolation_level=None)
        intruder.execute("BEGIN IMMEDIATE")
        outcomes = await asyncio.gather(
            ledger.append("ep-a", stepped(0)),
            ledger.append("ep-b", opened()),
            return_exceptions=True,
        )
        assert all(isinstance(outcome, LedgerFailed) for outcome in outcomes)
        assert "locked" in str(outcomes[0])
        with pytest.raises(LedgerFailed):
            await ledger.keep_seat(("t", "shop", "ann"), "ep-a")
        row = await ledger.row("ep-a")
        assert row is not None
        assert row.steps == 0
        intruder.execute("ROLLBACK")
        intruder.close()
        await ledger.append("ep-a", stepped(0))
        assert await ledger.records("ep-a") == [opened(), stepped(0)]
        assert await ledger.row("ep-b") is None


async def test_an_append_that_is_cancelled_learns_what_became_of_it(tmp_path: Path) -> None:
    """The record is on disk, so the episode must hear so before it hears of the cancellation."""
    async with Ledger.open(tmp_path / "l") as ledger:
        await ledger.append("ep-a", opened())
        heard: list[str] = []

        async def step() -> None:
            await ledger.append("ep-a", stepped(0))
            heard.append("recorded")
            await asyncio.sleep(60)
            heard.append("slept")

        task = asyncio.create_task(step())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert heard == ["recorded"]
        assert task.cancelling() == 1
        assert await ledger.records("ep-a") == [opened(), stepped(0)]


async def test_a_record_without_an_episode_fails_alone(tmp_path: Path) -> None:
    async with Ledger.open(tmp_path / "l") as ledger:
        bad, good = await asyncio.gather(
            ledger.append("ep-x", stepped(0)),
            ledger.append("ep-a", opened()),
            return_exceptions=True,
        )
        assert isinstance(bad, LedgerFailed)
        assert good is None


async def test_a_closed_episode_may_still_be_scored(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    async with Ledger.open(path) as ledger:
        await ledger.append("ep-a", opened())
        await ledger.append("ep-a", Closed())
    async with Ledger.open(path) as ledger:
        await ledger.append("ep-a", Scored(Reward(value=0.5, outcome="partial")))
        row = await ledger.row("ep-a")
        assert row is not None
        assert (row.status, row.reward) == ("closed", 0.5)


@pytest.mark.parametrize("damage", ["text", "format", "record"])
async def test_damage_is_told_and_not_guessed_around(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger.sqlite3"
    if damage == "text":
        path.write_text("this is no database, and long enough to be looked at as one" * 20)
    else:
        async with Ledger.open(path) as ledger:
            await ledger.append("ep-a", opened())
        with sqlite3.connect(path) as connection:
            statement = {
                "format": "PRAGMA user_version = 99",
                "record": "UPDATE records SET body = x'0102'",
            }[damage]
            connection.execute(statement)
        connection.close()
    with pytest.raises(LedgerDamaged):
        async with Ledger.open(path) as ledger:
            await ledger.records("ep-a")


async def test_an_empty_file_is_no_new_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    path.touch()
    with pytest.raises(LedgerDamaged, match=r"empty file.*delete it to begin anew"):
        async with Ledger.open(path):
            pass
    assert path.stat().st_size == 0


OLDER = """
DROP INDEX episodes_by_tenant;
DROP INDEX episodes_by_tenant_and_finish;
ALTER TABLE episodes DROP COLUMN tenant;
DROP TABLE seats;
DROP TABLE documents;
CREATE TABLE seats (
    environment TEXT NOT NULL, key TEXT NOT NULL, episode TEXT NOT NULL,
    PRIMARY KEY (environment, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE documents (
    kind TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, id)
) STRICT;
INSERT INTO seats VALUES ('shop', 'ann', 'ep-a');
INSERT INTO documents VALUES ('schedule', 'scaling', x'007b7d'), ('trajectory', 'ep-a', x'007b7d');
PRAGMA user_version = 3;
"""


def tables(connection: sqlite3.Connection) -> dict[str, Any]:
    """Columns and indexes, however they came about."""
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]
    return {
        name: connection.execute(
            f"SELECT name, type, pk, \"notnull\" FROM pragma_table_info('{name}') UNION ALL "
            f"SELECT name, 0, 0, 0 FROM pragma_index_info('{name}')"
        ).fetchall()
        for name in names
        if not name.startswith("sqlite_")
    }


async def test_a_ledger_from_before_there_were_tenants_is_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    async with Ledger.open(path) as ledger:
        await ledger.append("ep-a", opened())
        await ledger.append("ep-a", Closed())
        await ledger.append("ep-b", opened())
    with closing(sqlite3.connect(path)) as connection:
        made = tables(connection)
        connection.executescript(OLDER)
    async with Ledger.open(path) as ledger:
        assert [row.tenant for row in await ledger.rows()] == ["local", "local"]
        assert [row.id for row in await ledger.finished(RowQuery(tenant="local"))] == ["ep-a"]
        assert await ledger.rows(RowQuery(tenant="other")) == []
        assert await ledger.seat(("local", "shop", "ann")) == "ep-a"
        assert await ledger.document("schedule", "scaling", "local") == b"{}"
        assert await ledger.document("trajectory", "ep-a") == b"{}"
    with closing(sqlite3.connect(path)) as connection:
        assert tables(connection) == made
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("make", [Ledger.open, lambda _: nullcontext(NullJournal())])
async def test_a_row_is_its_tenants_whatever_becomes_of_it(tmp_path: Path, make: Any) -> None:
    async with make(tmp_path / "l") as ledger:
        for tenant in ("ann", "bob"):
            with ledger.enrolling(None, {f"ep-{tenant}": Enrolment()}, tenant):
                for record in RUN[:4]:
                    await ledger.append(f"ep-{tenant}", record)
            await ledger.append(f"ep-{tenant}", opened())  # a reset
            await ledger.keep("group", f"gr-{tenant}", b"{}", tenant)
            await ledger.keep("sampler", "band", tenant.encode(), tenant)
            await ledger.append(f"ep-{tenant}", Closed())
        (row,) = await ledger.rows(RowQuery(tenant="ann"))
        assert (row.id, row.tenant) == ("ep-ann", "ann")
        assert await ledger.finished(RowQuery(tenant="bob")) == [await ledger.row("ep-bob")]
        assert await ledger.documents("group", "ann") == [("gr-ann", b"{}")]
        assert [name for name, _ in await ledger.documents("group", None)] == ["gr-ann", "gr-bob"]
        assert await ledger.document("group", "gr-bob", None) == b"{}"
        assert await ledger.document("sampler", "band", "bob") == b"bob"
        await ledger.forget("sampler", "band", "ann")
        assert await ledger.document("sampler", "band", "ann") is None
        assert await ledger.document("sampler", "band", "bob") == b"bob"


async def test_without_durability_the_index_is_the_same_and_closed_rows_end() -> None:
    journal = NullJournal()
    for record in RUN[:-1]:
        await journal.append("ep-a", record)
    await journal.append("ep-b", opened())
    assert journal.live == 2
    await journal.append("ep-a", Closed())
    a, b = await journal.rows()
    assert (a.status, a.steps, a.reward) == ("closed", 2, 1.0)
    assert (b.status, journal.live) == ("live", 1)
    assert await journal.records("ep-a") == []
    await journal.keep_seat(("t", "shop", "ann"), "ep-b")
    assert await journal.seat(("t", "shop", "ann")) == "ep-b"

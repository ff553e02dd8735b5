"""The ledger on a real disk: what it acknowledges is there, and what fails is not."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from environments.journal import Closed, JournalRecord, Marked, Opened, Rewound, Scored, Stepped
from environments.sandbox.wire import Moment
from environments.trajectory import Reward, Step
from hub.errors import LedgerDamaged, LedgerFailed
from hub.ledger import Ledger, NullJournal, RowQuery, disk

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
        await ledger.keep_seat("shop", "ann", "ep-b")
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
        assert await ledger.seat("shop", "ann") == "ep-b"
        assert await ledger.seat("shop", "bob") is None
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
            await ledger.keep_seat("shop", "ann", "ep-a")
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
    await journal.keep_seat("shop", "ann", "ep-b")
    assert await journal.seat("shop", "ann") == "ep-b"

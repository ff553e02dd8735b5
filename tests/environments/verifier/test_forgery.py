"""A worker that lies earns nothing: what a run changed is told from its pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import ForgedChanges, FrameRejected
from environments.sandbox import wire
from environments.sandbox import worker as host_worker
from environments.trajectory import Change, Reward, Step
from environments.verifier import Attempt, changes_of, score_episode
from snapshots import PAGE_SIZE, Branch, PageDelta
from tests.environments.verifier.conftest import CANCELLED, Shop, task

pytestmark = pytest.mark.anyio


@pytest.fixture
async def episode(shop: Shop) -> Episode:
    environment = await shop(task(CANCELLED))
    return await Episode.start(environment, task="t")


def edited(branch: Branch, folder: Path, *statements: str) -> Branch:
    """The branch as another program leaves it: nobody reports a change."""
    path = folder / "edited.sqlite"
    branch.flatten(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    data = path.read_bytes()
    pages = {n: data[n * PAGE_SIZE : (n + 1) * PAGE_SIZE] for n in range(len(data) // PAGE_SIZE)}
    other = branch.fork()
    other.commit(PageDelta(pages, len(data), min(branch.head.base_pages, len(pages))), ())
    return other


def step(*changes: Change) -> Step:
    return Step(index=0, tool="cancel", arguments={"id": "o-1"}, changes=changes, clock_ms=0)


def agent(changes: dict[str, Any]) -> Change:
    return Change(actor="agent", changes=changes)


def row(table: str, key: dict[str, Any], before: Any, after: Any) -> dict[str, Any]:
    """A changeset of one changed row."""
    entry = {"key": key, "before": before, "after": after}
    return {table: {"key": list(key), "added": [], "removed": [], "changed": [entry]}}


CLAIM = row("orders", {"id": "o-1"}, {"status": "pending"}, {"status": "cancelled"})


async def scored(episode: Episode, attempt: Attempt) -> Reward:
    environment = episode.environment
    assert episode.task is not None
    return await score_episode(environment.sandbox, environment.pack, episode.task, attempt)


def unpaid(reward: Reward) -> str:
    assert (reward.value, reward.outcome, reward.failure_kind) == (None, "unset", "environment")
    return reward.reason


async def test_an_honest_run_is_paid(episode: Episode) -> None:
    await episode.call("cancel", {"id": "o-1"})
    assert (await episode.score()).value == 1.0


async def test_a_page_without_a_report_earns_nothing(episode: Episode, tmp_path: Path) -> None:
    attempt = episode.attempt(episode.task)  # type: ignore[arg-type]
    end = edited(attempt.start, tmp_path, "UPDATE customers SET name = 'x' WHERE id = 1")
    reason = unpaid(await scored(episode, replace(attempt, end=end)))
    assert (
        "customers 1 was changed otherwise by the pages, and not changed by the reports" in reason
    )


async def test_damage_beside_an_honest_change_earns_nothing(
    episode: Episode, tmp_path: Path
) -> None:
    await episode.call("cancel", {"id": "o-1"})
    attempt = episode.attempt(episode.task)  # type: ignore[arg-type]
    end = edited(attempt.end, tmp_path, "DELETE FROM customers WHERE id = 2")
    assert "customers 2 was removed by the pages" in unpaid(
        await scored(episode, replace(attempt, end=end))
    )


async def test_a_report_without_a_page_earns_nothing(episode: Episode) -> None:
    attempt = replace(episode.attempt(episode.task), steps=(step(agent(CLAIM)),))  # type: ignore[arg-type]
    reason = unpaid(await scored(episode, attempt))
    assert "orders o-1 was not changed by the pages, and changed otherwise by the reports" in reason


async def test_a_report_of_another_value_earns_nothing(episode: Episode) -> None:
    await episode.call("charge", {"id": "o-1", "amount": 1.0})
    attempt = episode.attempt(episode.task)  # type: ignore[arg-type]
    claimed = row("orders", {"id": "o-1"}, {"total": 12.5}, {"total": 13.0})
    unpaid(await scored(episode, replace(attempt, steps=(step(agent(claimed)),))))


async def test_reports_that_do_not_follow_one_another_earn_nothing(episode: Episode) -> None:
    added = {"notes": {"key": ["_rowid_"], "added": [{"_rowid_": 1, "body": "x"}],
                       "removed": [], "changed": []}}  # fmt: skip
    attempt = replace(
        episode.attempt(episode.task),  # type: ignore[arg-type]
        steps=(step(agent(added)), step(agent(added))),
    )
    assert "contradict" in unpaid(await scored(episode, attempt))


async def test_pages_that_are_no_database_earn_nothing(episode: Episode) -> None:
    await episode.call("cancel", {"id": "o-1"})
    attempt = episode.attempt(episode.task)  # type: ignore[arg-type]
    head, reasons = attempt.end.head, []
    for number in range(1, head.size_bytes // PAGE_SIZE):
        page = {number: b"\x0d" + b"\xff" * (PAGE_SIZE - 1)}
        end = attempt.end.fork()
        end.commit(PageDelta(page, head.size_bytes, head.base_pages), ())
        reward = await scored(episode, replace(attempt, end=end))
        if reward.value is None:
            reasons.append(unpaid(reward))
        else:  # an index: it does not count
            assert reward.value == 1.0
    assert len(reasons) >= 5, "every table"
    assert all("damaged" in reason for reason in reasons)


async def test_an_index_that_lies_does_not_answer_for_the_rows(shop: Shop, tmp_path: Path) -> None:
    """A state is judged as its rows make it. The forger changes one entry of an index."""
    count = {"sql": "SELECT count(*) FROM orders WHERE status = 'pending'"}
    states = [{"at": "final", "table": "orders", "where": {"status": "shipped"}, "count": 2}]
    environment = await shop(task({"state": states}), task({"answer": {"numeric": count}}, "u"))
    episode = await Episode.start(environment, task="t")
    attempt = episode.attempt(environment.pack.task("t"))
    snapshot, head = environment.snapshot, attempt.start.head
    (number,) = [
        n
        for n in range(snapshot.size_bytes // PAGE_SIZE)
        if snapshot.page(n)[0] == 10 and b"pendingo-1" not in snapshot.page(n)
        and b"pending" in snapshot.page(n)
    ]  # fmt: skip
    page = snapshot.page(number)
    at = page.rfind(b"pending")
    forged = page[:at] + b"shipped" + page[at + 7 :]
    end = attempt.start.fork()
    end.commit(PageDelta({number: forged}, head.size_bytes, head.base_pages), ())
    reward = await score_episode(
        environment.sandbox, environment.pack, environment.pack.task("t"), replace(attempt, end=end)
    )
    assert reward.value == 0.0
    assert reward.reason.startswith("state[0]")


# --- forged replies, as the gateway receives them -------------------------------------------------


async def forging(
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    forge: Callable[[wire.Report, PageDelta | None], tuple[wire.Report, PageDelta | None]],
) -> Episode:
    """An episode whose worker's replies to calls are altered on the way."""
    decode = wire.decode_reply

    def altered(data: Any) -> wire.Reply:
        reply = decode(data)
        try:
            report = wire.decode_report(reply.payload)
        except msgspec.MsgspecError:
            return reply
        if report.moment is None:
            return reply
        report, delta = forge(report, reply.delta)
        return msgspec.structs.replace(reply, payload=msgspec.json.encode(report), delta=delta)

    episode = await Episode.start(environment, task="t")
    monkeypatch.setattr(host_worker.wire, "decode_reply", altered)
    return episode


async def test_a_reply_with_pages_and_an_empty_changeset(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write that the task forbids is left out of the report."""
    environment = await shop(task({"answer": {"exact": "done"}}))
    episode = await forging(
        environment, monkeypatch, lambda r, d: (msgspec.structs.replace(r, commits=()), d)
    )
    assert (await episode.call("charge", {"id": "o-3", "amount": -99.0})).error is None
    assert not episode.changes()
    reason = unpaid(await episode.score("done"))
    assert "orders o-3 was changed otherwise by the pages" in reason


async def test_a_reply_with_a_changeset_and_no_pages_for_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A harmless write is reported as the one that is paid for."""
    environment = await shop(task(CANCELLED))
    claim = wire.Claim(actor="agent", changes=msgspec.Raw(msgspec.json.encode(CLAIM)))
    episode = await forging(
        environment, monkeypatch, lambda r, d: (msgspec.structs.replace(r, commits=(claim,)), d)
    )
    await episode.call("note", {"body": "harmless"})
    assert episode.changes(actor="agent").to_json() == CLAIM
    unpaid(await episode.score())


@pytest.mark.parametrize("event", [None, "dearer", "nothing"])
async def test_a_reply_that_blames_the_world(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, event: str | None
) -> None:
    """No event was due: the changes of the tool would escape the frame."""

    def blame(report: wire.Report, delta: PageDelta | None) -> Any:
        commits = tuple(
            msgspec.structs.replace(claim, actor="environment", event=event)
            for claim in report.commits
        )
        return msgspec.structs.replace(report, commits=commits), delta

    environment = await shop(task({"answer": {"exact": "done"}}))
    episode = await forging(environment, monkeypatch, blame)
    made = await episode.call("charge", {"id": "o-3", "amount": -99.0})
    assert made.error is not None
    assert (made.error.kind, made.error.code) == ("environment", FrameRejected.code)
    assert (await episode.score("done")).value == 1.0, "nothing of the call counts"


async def test_what_the_world_changed_is_told_apart(shop: Shop) -> None:
    environment = await shop(task(CANCELLED))
    episode = await Episode.start(environment, task="t")
    await episode.call("cancel", {"id": "o-1"})
    await episode.call("wait", {"seconds": 4 * 3600})
    assert episode.changes(actor="environment").tables == ("prices",)
    assert (await episode.score()).value == 1.0


async def test_forks_rewinds_and_nothing_at_all_are_scored(episode: Episode) -> None:
    assert (await episode.score()).value == 0.0
    mark = await episode.mark()
    await episode.call("charge", {"id": "o-2", "amount": 5.0})
    twin = await episode.fork()
    await twin.call("cancel", {"id": "o-1"})
    assert (await twin.score()).value == 0.0
    await episode.rewind(mark)
    await episode.call("cancel", {"id": "o-1"})
    assert (await episode.score()).value == 1.0


# --- honest runs that are not simple --------------------------------------------------------------


async def test_a_schema_that_changes_is_scored(shop: Shop) -> None:
    tools = """
    @tool(read_only=False)
    def extend(db: Database) -> None:
        "Make room."
        db.run("CREATE TABLE extra (id INTEGER PRIMARY KEY, text)")
        db.insert("extra", text="first")
        db.run("ALTER TABLE orders ADD COLUMN note DEFAULT 'none'")

    @tool(read_only=False)
    def fill(db: Database) -> None:
        "Use it."
        db.insert("extra", text="second")
        db.run("UPDATE orders SET note = 'seen' WHERE id = 'o-2'")
    """
    environment = await shop(task(CANCELLED), tools=tools, manifest="allow_ddl = true\n")
    episode = await Episode.start(environment, task="t")
    for call in ("extend", "fill"):
        assert (await episode.call(call, {})).error is None
    await episode.call("cancel", {"id": "o-1"})
    reward = await episode.score()
    assert reward.value == 0.0, reward.reason
    assert "extra 1 was added" in reward.reason


async def test_writes_kept_from_a_call_that_failed_are_scored(shop: Shop) -> None:
    tools = """
    @tool(read_only=False)
    def half(db: Database) -> None:
        "Do half of it."
        db.run("UPDATE orders SET status = 'cancelled' WHERE id = 'o-1'")
        raise ToolError("TOO_BAD", "it went wrong")
    """
    environment = await shop(task(CANCELLED), tools=tools, manifest='on_error = "keep"\n')
    episode = await Episode.start(environment, task="t")
    assert (await episode.call("half", {})).error is not None
    assert (await episode.score()).value == 1.0


async def test_an_event_that_comes_due_in_a_call_is_not_the_agents(shop: Shop) -> None:
    verifier = {"expect": [{"table": "prices", "where": {"sku": "tea"}, "set": {"cents": 510}}]}
    tools = """
    @tool(read_only=False)
    def price(db: Database, sku: str, more: int) -> None:
        "Change a price."
        db.run("UPDATE prices SET cents = cents + ? WHERE sku = ?", more, sku)
    """
    manifest = "[clock]\nstart = 2026-01-05T09:00:00Z\nstep_seconds = 14400\n"
    environment = await shop(task(verifier), tools=tools, manifest=manifest)
    episode = await Episode.start(environment, task="t")
    step = await episode.call("price", {"sku": "tea", "more": 10})
    assert [change.actor for change in step.changes] == ["agent", "environment"]
    reward = await episode.score()
    assert reward.value == 1.0, reward.reason


async def test_a_task_with_statements_of_its_own(shop: Shop) -> None:
    initial = ["UPDATE orders SET status = 'held'", "INSERT INTO notes VALUES ('start')"]
    environment = await shop(task(CANCELLED, initial=initial))
    episode = await Episode.start(environment, task="t")
    assert (await episode.score()).value == 0.0
    await episode.call("cancel", {"id": "o-1"})
    assert (await episode.score()).value == 1.0


async def test_many_rows_without_a_key(shop: Shop) -> None:
    """A session loses track of such tables; the report would not be what is on the pages."""
    tools = """
    @tool(read_only=False)
    def flood(db: Database) -> None:
        "Write, then take back."
        for number in range(300):
            db.insert("notes", body=str(number))
        db.run("DELETE FROM notes WHERE rowid > 10")
        db.run("UPDATE notes SET body = body || '!'")
    """
    verifier = {"answer": {"exact": "x"}, "allow": [{"table": "notes"}]}
    environment = await shop(task(verifier), tools=tools)
    episode = await Episode.start(environment, task="t")
    await episode.call("flood", {})
    assert len(episode.changes()) == 10
    assert (await episode.score("x")).value == 1.0


def test_reports_that_contradict_one_another_are_the_packs_fault() -> None:
    row = {"id": "o-9", "status": "new"}
    made = {"orders": {"key": ["id"], "added": [row], "removed": [], "changed": []}}
    steps = [
        Step(
            index=n,
            tool="t",
            arguments={},
            clock_ms=0,
            changes=(Change(actor="agent", changes=made),),
        )
        for n in range(2)
    ]
    assert len(changes_of(steps[:1])) == 1
    with pytest.raises(ForgedChanges, match="contradict") as raised:
        changes_of(steps)
    assert raised.value.kind == "environment"

"""Every word of a verifier, from an episode through the workers to the reward."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from environments.episode import Episode
from environments.errors import EpisodeEnded
from environments.journal import JournalRecord
from environments.llm import Llm
from environments.trajectory import Reward, Step
from environments.verifier.judge import Judge
from tests.environments.model_server import ModelServer, answering
from tests.environments.verifier.conftest import CANCELLED, Shop, task

pytestmark = pytest.mark.anyio

Calls = list[tuple[str, dict[str, Any]]]
CANCEL: Calls = [("cancel", {"id": "o-1"})]


async def play(shop: Shop, verifier: Any, calls: Calls, answer: str | None = None) -> Reward:
    environment = await shop(task(verifier))
    episode = await Episode.start(environment, task="t")
    for tool, arguments in calls:
        await episode.call(tool, arguments)
    return await episode.score(answer)


FREE = {"allow": [{"table": "orders"}, {"table": "audit"}]}
STATE = {"state": [{"at": "final", "table": "orders", "where": {"status": "cancelled"}}], **FREE}
PROBE = {"probe": [{"tool": "open_orders", "result": {"0": "o-2"}}], **FREE}
FAILING = {
    "probe": [{"tool": "find", "arguments": {"id": "o-9"}, "ended": "NO_SUCH_ORDER"}],
    **CANCELLED,
}
TRACE = {"trace": [{"tool": "find", "before": "cancel"}], **CANCELLED}
NEVER_WROTE = {"trace": [{"wrote": True, "called": False}], "answer": {"exact": "done"}}
BY_QUERY = {
    "answer": {"numeric": {"sql": "SELECT count(*) FROM orders WHERE status = 'pending'"}},
}
EITHER = {"any_of": [CANCELLED, {"answer": {"exact": "impossible"}}]}


@pytest.mark.parametrize(
    ("verifier", "calls", "answer", "value"),
    [
        (STATE, CANCEL, None, 1.0),
        (STATE, [("charge", {"id": "o-1", "amount": 1.0})], None, 0.0),
        (TRACE, [("find", {"id": "o-1"}), *CANCEL], None, 1.0),
        (TRACE, [*CANCEL, ("find", {"id": "o-1"})], None, 0.0),
        (FAILING, CANCEL, None, 1.0),
        (NEVER_WROTE, [("find", {"id": "o-1"})], "done", 1.0),
        (
            NEVER_WROTE,
            [("charge", {"id": "o-1", "amount": 1.0}), ("charge", {"id": "o-1", "amount": -1.0})],
            "done",
            0.0,
        ),
        (BY_QUERY, [], "2", 1.0),
        (BY_QUERY, [], "3", 0.0),
        (EITHER, CANCEL, None, 1.0),
        (EITHER, [], "impossible", 1.0),
        (EITHER, CANCEL, "impossible", 1.0),
        (EITHER, [("charge", {"id": "o-1", "amount": 1.0})], "impossible", 0.0),
    ],
)
async def test_words(
    shop: Shop, verifier: Any, calls: Calls, answer: str | None, value: float
) -> None:
    reward = await play(shop, verifier, calls, answer)
    assert reward.value == value, reward.reason


@pytest.mark.parametrize(("calls", "value"), [(CANCEL, 1.0), ([], 0.0)])
async def test_a_probe_looks_at_the_final_state(shop: Shop, calls: Calls, value: float) -> None:
    reward = await play(shop, PROBE, calls)
    assert reward.value == value, reward.reason


async def test_a_query_that_fails_is_the_packs_fault(shop: Shop) -> None:
    verifier = {"answer": {"numeric": {"sql": "SELECT total FROM orders"}}}
    reward = await play(shop, verifier, [], "1")
    assert (reward.value, reward.failure_kind) == (None, "environment")
    assert "several rows" in reward.reason or "3 rows" in reward.reason


async def test_a_probe_whose_tool_crashes_is_the_packs_fault(shop: Shop) -> None:
    tools = """
    @tool(read_only=True)
    def broken(db: Database) -> int:
        "Never answers."
        return 1 // 0
    """
    verifier = {**CANCELLED, "probe": [{"tool": "broken", "result": {"0": 1}}]}
    environment = await shop(task(verifier), tools=tools)
    episode = await Episode.start(environment, task="t")
    reward = await episode.score()
    assert (reward.value, reward.failure_kind) == (None, "environment")
    assert "probe broken: ZeroDivisionError" in reward.reason


# --- the reward a task declares -------------------------------------------------------------------


async def test_the_task_declares_its_reward_and_the_caller_may_override_it(shop: Shop) -> None:
    verifier = {**CANCELLED, "answer": {"exact": "done"}, "reward": "fraction"}
    environment = await shop(task(verifier))
    episode = await Episode.start(environment, task="t")
    await episode.call("cancel", {"id": "o-1"})
    assert (await episode.score()).value == 0.5
    assert (await episode.score(mode="binary")).value == 0.0
    assert (await episode.score(mode="awm")).value == 0.1


async def test_a_mixture_through_an_episode(shop: Shop) -> None:
    mixture = {"parts": {"changes": 0.6, "oracle": 0.4}, "penalties": {"malformed": 0.25}}
    oracle = [
        {"tool": "find", "arguments": {"id": "o-1"}},
        {"tool": "cancel", "arguments": {"id": "o-1"}},
    ]
    environment = await shop(task({**CANCELLED, "reward": mixture}, oracle=oracle))
    episode = await Episode.start(environment, task="t")
    await episode.call("cancel", {"id": "o-1"})
    await episode.call("cancel", {"order": "o-1"})
    reward = await episode.score()
    assert reward.value == pytest.approx(0.6 + 0.4 * 0.5 - 0.25)
    assert {term.name: term.value for term in reward.terms} == {
        "changes": 1.0, "oracle": 0.5, "malformed": 1.0,
    }  # fmt: skip


# --- malformed calls ------------------------------------------------------------------------------


class Kept:
    """A journal in memory."""

    keeps_pages = True

    def __init__(self) -> None:
        self.records: list[JournalRecord] = []

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        self.records.append(
            msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=JournalRecord)
        )


WRONG: Calls = [("nowhere", {}), ("cancel", {"order": 1}), ("find", {})]


@pytest.mark.parametrize(("tool", "arguments"), WRONG)
async def test_a_malformed_call_is_an_observation_unless_told_otherwise(
    shop: Shop, tool: str, arguments: dict[str, Any]
) -> None:
    environment = await shop(task(CANCELLED))
    episode = await Episode.start(environment, task="t")
    step = await episode.call(tool, arguments)
    assert (step.is_error, step.reward, episode.status) == (True, None, "live")
    await episode.call("cancel", {"id": "o-1"})
    assert (await episode.score()).value == 1.0


async def test_malformed_calls_are_penalised(shop: Shop) -> None:
    environment = await shop(task(CANCELLED))
    episode = await Episode.start(environment, task="t", malformed="penalise")
    assert [(await episode.call(*call)).reward for call in WRONG] == [-0.1, -0.1, -0.1]
    assert (await episode.call("find", {"id": "o-9"})).reward is None, "well-formed, and refused"
    await episode.call("cancel", {"id": "o-1"})
    reward = await episode.score()
    assert reward.value == pytest.approx(0.7)
    assert reward.outcome == "complete"


async def test_a_malformed_call_ends_a_strict_episode(shop: Shop) -> None:
    journal = Kept()
    environment = await shop(task(CANCELLED))
    episode = await Episode.start(
        environment, task="t", journal=journal, malformed="end", horizon=5
    )
    await episode.call("cancel", {"id": "o-1"})
    mark = await episode.mark()
    step: Step = await episode.call("cancel", {"id": 7}, call_key="k")
    assert (step.reward, episode.status) == (-1.0, "ended")
    with pytest.raises(EpisodeEnded, match="malformed"):
        await episode.call("find", {"id": "o-1"})
    assert (await episode.call("cancel", {"id": 7}, call_key="k")) is step
    assert (await episode.score()).value == -1.0
    again = await Episode.replay(environment, episode.id, journal.records)
    assert (again.status, again.malformed) == ("ended", "end")
    await episode.rewind(mark)
    assert episode.status == "live"
    assert (await episode.score()).value == 1.0
    await episode.reset()
    assert (episode.status, episode.malformed) == ("live", "end")
    assert (await episode.fork()).malformed == "end"


# --- with a judge ---------------------------------------------------------------------------------

AWM_SQL = """
def verify_task(initial_db_path, final_db_path):
    import sqlite3
    conn = sqlite3.connect(final_db_path)
    return {"status": conn.execute("SELECT status FROM orders WHERE id = 'o-1'").fetchone()[0]}
"""


def opinion(verdict: str) -> str:
    return json.dumps({"reason": "It is so.", "verdict": verdict, "confidence": 0.8})


async def judged(shop: Shop, verifier: Any, verdict: str) -> tuple[Reward, ModelServer]:
    server = ModelServer(opinion(verdict))
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(answering(server))
        llm = await stack.enter_async_context(Llm(endpoint))
        environment = await shop(task(verifier), code=AWM_SQL, judge=Judge(llm))
        episode = await Episode.start(environment, task="t")
        await episode.call("cancel", {"id": "o-1"})
        return await episode.score("done"), server


@pytest.mark.parametrize(("verdict", "value"), [("complete", 1.0), ("partial", 0.1), ("none", 0.0)])
async def test_the_judge_decides_on_the_evidence_of_code(
    shop: Shop, verdict: str, value: float
) -> None:
    verifier = {"code": {"kind": "awm_sql"}, "judge": {"rubric": "Look at o-1."}, "reward": "awm"}
    reward, server = await judged(shop, verifier, verdict)
    assert reward.value == value
    evidence, opinion = reward.components
    assert json.loads(evidence.reason) == {"status": "cancelled"}
    assert (evidence.weight, opinion.name) == (0.0, "judge")
    text = server.asked[0]["messages"][1]["content"]
    for part in ("Look at o-1.", '\\"status\\":\\"cancelled\\"', '"orders"'):
        assert part in text


async def test_a_judge_may_find_the_environment_at_fault(shop: Shop) -> None:
    reward, _ = await judged(shop, {"judge": {}}, "environment_fault")
    assert (reward.value, reward.failure_kind) == (None, "environment")


async def test_the_judge_and_the_assertions_must_agree(shop: Shop) -> None:
    reward, server = await judged(shop, {**CANCELLED, "judge": {"signals": False}}, "none")
    assert (reward.value, reward.reason.split(":")[0]) == (0.0, "judge")
    assert "SIGNALS" not in server.asked[0]["messages"][1]["content"]


async def test_without_a_judge_the_reward_is_unset(shop: Shop) -> None:
    reward = await play(shop, {"judge": {"rubric": "Kindly."}}, CANCEL)
    assert (reward.value, reward.failure_kind) == (None, "infrastructure")
    assert "none is configured" in reward.reason

"""Verifiers that a pack wrote itself: what they may see, what they may answer, how they fail."""

from __future__ import annotations

from typing import Any

import pytest

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.oracle import play_oracle
from environments.sandbox.host import SandboxLimits
from environments.trajectory import Component, Reward
from tests.environments.verifier.conftest import CANCELLED, ORACLE, Shop, task

pytestmark = pytest.mark.anyio

NATIVE = {"code": {"kind": "native"}}
STATUS = """
def verify(initial, final, answer, trajectory):
    "Cancelled, and nothing else of it changed."
    was = initial.one("SELECT * FROM orders WHERE id = 'o-1'")
    now = final.one("SELECT * FROM orders WHERE id = 'o-1'")
    return now == {**was, "status": "cancelled"}
"""


async def both(environment: Environment, answer: str | None = None) -> tuple[Reward, Reward]:
    """The reward of doing nothing, and of the oracle."""
    idle = await Episode.start(environment, task="t")
    busy = await Episode.start(environment, task="t")
    await play_oracle(busy)
    return await idle.score(answer), await busy.score(answer)


async def judged(shop: Shop, code: str, verifier: Any = None, **options: Any) -> Reward:
    """The reward of the oracle by a verifier."""
    environment = await shop(task(verifier or NATIVE, oracle=ORACLE), code=code, **options)
    return (await both(environment, "done"))[1]


def faulty(reward: Reward) -> str:
    assert (reward.value, reward.outcome, reward.failure_kind) == (None, "unset", "environment")
    return reward.reason


# --- native ---------------------------------------------------------------------------------------


async def test_a_native_verifier_reads_both_states(shop: Shop) -> None:
    environment = await shop(task(NATIVE, oracle=ORACLE), code=STATUS)
    idle, busy = await both(environment)
    assert (idle.value, busy.value) == (0.0, 1.0)
    assert busy.components == (Component(name="code verify", passed=True, weight=1.0, reason=""),)
    assert idle.reason == "code verify: does not hold"


async def test_it_takes_what_it_names(shop: Shop) -> None:
    code = """
    def verify(answer, trajectory):
        (step,) = trajectory
        return answer == "done" and step["tool"] == "cancel" and step["result"] == {"id": "o-1"}
    """
    assert (await judged(shop, code)).value == 1.0


@pytest.mark.parametrize(
    ("answer", "value", "outcome"),
    [
        ("True", 1.0, "complete"),
        ("0.25", 0.25, "partial"),
        ("0", 0.0, "none"),
        ("1", 1.0, "complete"),
    ],
)
async def test_a_share_is_paid_as_a_fraction(
    shop: Shop, answer: str, value: float, outcome: str
) -> None:
    reward = await judged(
        shop, f"def verify():\n    return {answer}", {**NATIVE, "reward": "fraction"}
    )
    assert (reward.value, reward.outcome) == (value, outcome)


async def test_components_by_name_with_weights_and_reasons(shop: Shop) -> None:
    code = """
    def verify(final):
        return [
            {"name": "cancelled", "passed": True, "weight": 3},
            {"name": "told", "passed": 0.5, "reason": "half of it"},
        ]
    """
    reward = await judged(shop, code, {**NATIVE, "reward": "fraction"})
    assert reward.value == pytest.approx(3.5 / 4)
    first, second = reward.components
    assert (first.name, first.weight, first.passed) == ("code.cancelled", 3.0, True)
    assert (second.score, second.reason, second.passed) == (0.5, "half of it", False)


async def test_a_mapping_names_components_too(shop: Shop) -> None:
    reward = await judged(shop, "def verify():\n    return {'a': True, 'b': False}")
    assert [(part.name, part.passed) for part in reward.components] == [
        ("code.a", True), ("code.b", False),
    ]  # fmt: skip


async def test_assertions_and_code_are_judged_together(shop: Shop) -> None:
    environment = await shop(task({**CANCELLED, **NATIVE}, oracle=ORACLE), code=STATUS)
    idle, busy = await both(environment)
    assert (idle.value, busy.value) == (0.0, 1.0)
    assert [part.name for part in busy.components] == [
        "expect[0] orders changed", "frame", "code verify",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise KeyError('o-9')", "verifiers.py:2: KeyError: 'o-9'"),
        ("return None", "answered None"),
        ("return 1.5", "answered 1.5"),
        ("return float('nan')", "answered nan"),
        ("return []", "no components"),
        ("return [{'passed': True}]", "answered a component"),
        ("final.run(\"UPDATE orders SET status = 'cancelled'\"); return True", "wrote to a state"),
        ("initial.insert('notes', body='x'); return True", "wrote to a state"),
        ("raise SystemExit(0)", "ended its worker"),
        ("import os; os._exit(0)", "ended its worker"),
    ],
)
async def test_a_verifier_at_fault_leaves_the_reward_unset(
    shop: Shop, body: str, said: str
) -> None:
    assert said in faulty(await judged(shop, f"def verify(initial, final):\n    {body}"))


async def test_a_verifier_that_hangs_is_stopped(shop: Shop) -> None:
    limits = SandboxLimits(score_timeout_seconds=0.5)
    reason = faulty(await judged(shop, "def verify():\n    while True: pass", limits=limits))
    assert "the verifier of task t ran past its 0.5 seconds" in reason


async def test_a_file_that_does_not_load(shop: Shop) -> None:
    assert "verifiers.py:3" in faulty(await judged(shop, "x = 1\ndef verify(): ...\nnope()"))


async def test_a_verifier_does_not_see_the_tools(shop: Shop) -> None:
    code = """
    from pathlib import Path

    def verify(final):
        import sys
        assert "tools" not in sys.modules
        try:
            Path(__file__).with_name("tools.py").read_text()
        except PermissionError:
            return {"hidden": True}
        return {"hidden": False}
    """
    reward = await judged(shop, code)
    assert [part.passed for part in reward.components] == [True]


async def test_tools_do_not_see_the_verifiers(shop: Shop) -> None:
    tools = """
    import sys
    from pathlib import Path

    @tool(read_only=True)
    def peek(name: str) -> str:
        "Look beside the tools."
        return (Path(__file__).parent / name).read_text()
    """
    environment = await shop(task(NATIVE), code=STATUS, tools=tools)
    episode = await Episode.start(environment, task="t")
    for name in ("verifiers.py", "tasks.jsonl", "events.jsonl"):
        step = await episode.call("peek", {"name": name})
        assert step.error is not None
        assert "PermissionError" in step.error.message


# --- AWM ------------------------------------------------------------------------------------------

AWM = """
def helper(path):
    conn = sqlite3.connect(path)
    try:
        return conn.execute("SELECT status FROM orders WHERE id = 'o-1'").fetchone()[0]
    finally:
        conn.close()

def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    if helper(initial_db_path) == "pending" and helper(final_db_path) == "cancelled":
        return {"result": "complete"}
    return {"result": "others"}
"""


async def test_awm_code_is_given_two_files(shop: Shop) -> None:
    environment = await shop(task({"code": {"kind": "awm_code"}}, oracle=ORACLE), code=AWM)
    idle, busy = await both(environment)
    assert (idle.value, busy.value) == (0.0, 1.0)
    assert idle.reason == "code verify_task_completion: answered others"


async def test_awm_code_by_position_and_with_the_answer(shop: Shop) -> None:
    code = """
    def verify_this(before, after, said):
        return {"result": "Complete" if said == "done" and before != after else "others"}
    """
    assert (await judged(shop, code, {"code": {"kind": "awm_code"}})).value == 1.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return True", "not a dictionary"),
        ("return {'result': 'perhaps'}", "complete or others"),
        ("return {}", "complete or others"),
        ("sqlite3.connect(b).execute('DELETE FROM orders')", "OperationalError"),
        ("open(b, 'ab').write(b'x')", "PermissionError"),
    ],
)
async def test_awm_code_at_fault(shop: Shop, body: str, said: str) -> None:
    code = f"def verify_it(a, b):\n    {body}"
    assert said in faulty(await judged(shop, code, {"code": {"kind": "awm_code"}}))


async def test_awm_sql_without_its_judge_is_refused(shop: Shop) -> None:
    with pytest.raises(PackInvalid, match="evidence for a judge"):
        await shop(task({"code": {"kind": "awm_sql"}}), code=AWM)


# --- EnvScaler ------------------------------------------------------------------------------------

CHECK = """
def check_func(final_state):
    order = final_state["orders"]["o-1"]
    return order["status"] == "cancelled" and initial_state["orders"]["o-1"] != order
"""
UNTOUCHED = (
    "def check_func(final_state):\n    return final_state['prices'] == initial_state['prices']"
)


async def test_a_checklist_over_documents(shop: Shop) -> None:
    checks = [
        {"item": "o-1 is cancelled", "code": CHECK, "weight": 3},
        {"item": "prices are as they were", "code": UNTOUCHED},
    ]
    environment = await shop(
        task({"code": {"kind": "envscaler", "checks": checks}, "reward": "fraction"}, oracle=ORACLE)
    )
    idle, busy = await both(environment)
    assert (idle.value, busy.value) == (0.25, 1.0)
    assert idle.reason == "code[0] o-1 is cancelled: does not hold"


SAY = """
import json

@tool(read_only=False)
def say(db: Database, text: str) -> None:
    "Say something."
    db.insert("entries", name="greeting", value=json.dumps({"text": text}))
"""


async def test_a_checklist_in_a_file_over_a_table_of_entries(shop: Shop) -> None:
    code = """
    def said(final_state):
        return final_state == {"greeting": {"text": "hello"}} and initial_state == {}
    """
    verifier = {
        "code": {
            "kind": "envscaler",
            "checks": [{"function": "said"}],
            "document": {"table": "entries"},
        }
    }
    environment = await shop(task(verifier), code=code, tools=SAY)
    episode = await Episode.start(environment, task="t")
    assert (await episode.score()).value == 0.0
    await episode.call("say", {"text": "hello"})
    assert (await episode.score()).value == 1.0


async def test_a_document_that_is_none(shop: Shop) -> None:
    document = {"table": "entries", "name": "nome"}
    code = {"kind": "envscaler", "checks": [{"code": UNTOUCHED}], "document": document}
    environment = await shop(task({"code": code}))
    episode = await Episode.start(environment, task="t")
    assert "entries is no state document: no such column" in faulty(await episode.score())


@pytest.mark.parametrize(("raising", "value"), [("fault", None), ("fails", 0.0)])
async def test_a_check_that_raises(shop: Shop, raising: str, value: float | None) -> None:
    checks = [{"code": "def check_func(final_state):\n    return final_state['nowhere']"}]
    code = {"kind": "envscaler", "checks": checks, "raising": raising}
    environment = await shop(task({"code": code}))
    episode = await Episode.start(environment, task="t")
    reward = await episode.score()
    assert reward.value == value
    assert "KeyError: 'nowhere'" in reward.reason


# --- refused when the pack loads ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ({"kind": "nativ"}, "nativ"),
        ({"kind": "native", "functon": "verify"}, "did you mean function"),
        ({"kind": "native", "function": "verify_all"}, "has no function verify_all"),
        ({"kind": "native", "file": "other.py"}, "has no other.py"),
        ({"kind": "native", "file": "../tools.py"}, "no verifier file"),
        ({"kind": "native", "file": "tools.py"}, "no verifier file"),
        ({"kind": "native", "weight": 0}, "weight"),
        ({"kind": "envscaler"}, "checks"),
        ({"kind": "native", "checks": [{"code": "x"}]}, "checks"),
    ],
)
async def test_declarations_with_a_typo(shop: Shop, code: Any, said: str) -> None:
    with pytest.raises(PackInvalid) as caught:
        await shop(task({"code": code}), code=STATUS)
    assert said in str(caught.value)

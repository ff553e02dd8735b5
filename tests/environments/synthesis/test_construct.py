"""The verifier that an oracle's changes make."""

from __future__ import annotations

import pytest

from environments.check.runs import oracle_plan, play
from environments.spec import EnvironmentSpec, OracleCall, Task
from environments.synthesis.construct import UNJUDGED, construct
from environments.synthesis.workshop import Draft, workshop

pytestmark = pytest.mark.anyio

DESK = Draft(
    EnvironmentSpec(name="desk", version="1.0.0", title="Desk", summary="Calls.", domain="desk"),
    schema="""
CREATE TABLE callers (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE calls (
    id TEXT NOT NULL PRIMARY KEY,
    caller_id TEXT REFERENCES callers (id),
    said TEXT NOT NULL,
    at TEXT NOT NULL
);
""",
    tools='''"""The tools of a desk."""

from environments.authoring import Database, new_id, now, tool


@tool(read_only=False)
def take_call(db: Database, said: str, caller_id: str | None = None) -> dict:
    """Note a call."""
    key = new_id("CA")
    db.run("INSERT INTO calls VALUES (?, ?, ?, ?)", key, caller_id, said, now().isoformat())
    return {"id": key}


@tool(read_only=False)
def add_caller(db: Database, name: str) -> dict:
    """Note who calls."""
    key = new_id("P")
    db.run("INSERT INTO callers VALUES (?, ?)", key, name)
    return {"id": key}
''',
)
TASK = Task(
    id="three-calls",
    instruction="Ann called to say hello, and two more said hello who gave no name.",
    verifier=UNJUDGED,
    oracle=(
        OracleCall(tool="add_caller", arguments={"name": "Ann"}),
        OracleCall(tool="take_call", arguments={"said": "hello", "caller_id": "${0.id}"}),
        OracleCall(tool="take_call", arguments={"said": "hello"}),
        OracleCall(tool="take_call", arguments={"said": "hello"}),
    ),
)


async def test_ids_are_bound_where_they_occur_again_and_what_is_equal_is_counted() -> None:
    async with workshop() as place:
        environment = await place.opened(DESK.with_tasks([TASK]))
        built = await construct(environment, TASK)
        expect = built.expect({}, without=())
        assert [entry for entry in expect if entry["table"] == "callers"] == [
            {
                "table": "callers",
                "change": "added",
                "where": {"id": {"bind": "made1"}, "name": "Ann"},
            }
        ]
        calls = [entry for entry in expect if entry["table"] == "calls"]
        hello = {"table": "calls", "change": "added"}
        assert {**hello, "where": {"caller_id": {"bind": "made1"}, "said": "hello"}} in calls
        assert {**hello, "where": {"caller_id": None, "said": "hello"}, "count": 2} in calls
        assert len(calls) == 2
        judged = Task(
            id=TASK.id,
            instruction=TASK.instruction,
            verifier={"expect": expect},
            oracle=TASK.oracle,
        )
        plan = oracle_plan(judged)
        place_with = environment.with_tasks([judged])
        assert (await play(place_with, judged, plan)).value == 1.0
        assert (await play(place_with, judged, plan[:-1])).value == 0.0

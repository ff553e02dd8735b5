"""What is refused when a pack loads, and by the schema; and what only a run can show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import environments.assertions.schema as schema
from environments.assertions import Assertions
from environments.errors import EnvhubError, InfrastructureFault, PackInvalid
from tests.environments.assertions.shop import TABLES, TOOLS, Judge

CANCEL = {"table": "orders", "where": {"id": "o_17"}, "set": {"status": "cancelled"}}
ORDER = {"table": "orders", "change": "added", "where": {"id": {"bind": "order"}}}
SCHEMA = jsonschema_rs.validator_for(schema.verifier_schema())


def state(**entry: Any) -> dict[str, Any]:
    return {"state": [{"table": "orders", **entry}]}


def probe(**entry: Any) -> dict[str, Any]:
    found = {"tool": "get_order", "arguments": {"order_id": "o_17"}, "result": {"status": "x"}}
    return {"probe": [{**found, **entry}]}


def trace(**entry: Any) -> dict[str, Any]:
    return {"trace": [{"tool": "get_order", **entry}]}


def sql(query: Any) -> dict[str, Any]:
    return {"expect": [{**CANCEL, "set": {"total": {"ge": {"sql": query}}}}]}


STRUCTURE = [
    (state(wher={}), "state[0]: unknown key 'wher' (did you mean where?)"),
    ({"state": [{"where": {}}]}, "state[0]: has no table"),
    (state(at="finally"), "state[0].at: unknown moment 'finally' (did you mean final?)"),
    (state(weight=-1), "state[0].weight: must be a number, not negative"),
    ({"probe": [{"arguments": {}}]}, "probe[0]: has no tool"),
    (probe(arguments=[]), "probe[0].arguments: must be an object"),
    (probe(result=7), "probe[0].result: must be an object of paths, not 7"),
    (probe(results={}), "probe[0]: unknown key 'results' (did you mean result?)"),
    (trace(wrote=1), "trace[0].wrote: must be true, false or a table, not 1"),
    (trace(calls=1), "trace[0]: unknown key 'calls'"),
    (trace(arguments="o_17"), "trace[0].arguments: must be an object of paths"),
    ({"all_of": {}}, "all_of: must be a list"),
    ({"all_of": [[]]}, "all_of[0]: must be an object"),
    ({"any_of": [{"expect": [{**CANCEL, "st": {}}]}]}, "any_of[0].expect[0]: unknown key 'st'"),
    ({"any_of": [{"expct": []}]}, "any_of[0]: unknown section 'expct' (did you mean expect?)"),
    ({"any_of": [{"answer": {"nrm": "x"}}]}, "any_of[0].answer: unknown gate 'nrm'"),
    ({"all_of": [{"expect": [CANCEL], "weight": 0}]}, "all_of[0].weight: must be a number above 0"),
    ({"expect": [CANCEL], "weight": 2}, "verifier: unknown section 'weight'"),
    ({"expect": [CANCEL], "any_of": [{"code": {}}]}, "any_of[0]: code stands only in the whole"),
    (sql(7), "expect[0].set.total.ge: sql stands alone"),
    ({"expect": [{**CANCEL, "set": {"total": {"sql": "SELECT 1", "ge": 2}}}]}, "sql stands alone"),
]
"""What the schema refuses as well."""

MEANING = [
    (state(table="orders_"), "state[0].table: unknown table 'orders_' (did you mean orders?)"),
    (state(table="$schema"), "state[0].table: $schema stands only where changes are judged"),
    (state(where={"staus": "x"}), "state[0].where: unknown column of orders: 'staus' (did you"),
    (state(where={"total": {"delta": 1}}), "state[0].where.total: delta, old and bind stand only"),
    (state(where={"id": {"bind": "x"}}), "state[0].where.id: delta, old and bind stand only"),
    (state(where={"id": {"var": "x"}}), "unknown variable 'x' (bind it in an earlier expect"),
    (state(count=-1), "state[0].count: must be a whole number, not -1"),
    (state(count={"delta": 1}), "state[0].count: delta compares with the row before"),
    (probe(tool="get_ordr"), "probe[0].tool: unknown tool 'get_ordr' (did you mean get_order"),
    (probe(tool="cancel_order"), "probe[0].tool: cancel_order writes (a probe looks"),
    (probe(arguments={}), "probe[0].arguments: get_order needs order_id"),
    (
        probe(arguments={"ordr_id": 1}),
        "probe[0].arguments: unknown argument of get_order: 'ordr_id'",
    ),
    (probe(result={}), "probe[0]: asks for nothing"),
    (
        probe(result={"status": {"contain": "x"}}),
        "probe[0].result.status: unknown matcher 'contain'",
    ),
    (probe(result={"status": {"bind": "x"}}), "probe[0].result.status: bind stands only in expect"),
    (trace(tool="get_ordr"), "trace[0].tool: unknown tool 'get_ordr' (did you mean get_order"),
    (trace(before="cancel"), "trace[0].before: unknown tool 'cancel' (did you mean cancel_order?)"),
    (
        trace(arguments={"orderid": "x"}),
        "trace[0].arguments: unknown argument of get_order: 'orderid'",
    ),
    (
        trace(arguments={"order_id": {"eqq": 1}}),
        "trace[0].arguments.order_id: unknown matcher 'eqq'",
    ),
    (trace(arguments={"order_id": {"delta": 1}}), "delta compares with the row before"),
    (trace(wrote="order"), "trace[0].wrote: unknown table 'order' (did you mean orders?)"),
    (trace(called="twice"), "trace[0].called: must be a whole number, not 'twice'"),
    ({"trace": [{"called": True}]}, "trace[0]: names no calls"),
    (trace(called=False), "the verifier pays for doing nothing"),
    ({"any_of": []}, "any_of: has no verifier to choose from"),
    ({"any_of": [{"expect": [CANCEL]}, {}]}, "pays for doing nothing by any_of[1]"),
    (
        {"any_of": [{"expect": [CANCEL]}, {"allow": [CANCEL]}]},
        "pays for doing nothing by any_of[1]",
    ),
    (
        {"all_of": [{"any_of": [{"answer": {"norm": "x"}}] * 5}] * 3},
        "verifier: 125 ways to hold, at most 64",
    ),
    (
        {
            "any_of": [
                {"expect": [ORDER]},
                {"expect": [{**CANCEL, "where": {"id": {"var": "order"}}}]},
            ]
        },
        "any_of[1].expect[0] orders changed: unknown variable 'order'",
    ),
    (sql("SELECT max(totl) FROM orders"), "ge.sql: unknown column 'totl' (did you mean total?)"),
    (
        sql("SELECT max(total) FROM order_s"),
        "ge.sql: unknown table 'order_s' (did you mean orders?)",
    ),
    (sql("SELECT o.totl FROM orders o"), "ge.sql: unknown column 'totl' (did you mean total?)"),
    (
        sql("SELECT id, total FROM orders"),
        "not a query for one value: sub-select returns 2 columns",
    ),
    (sql("DELETE FROM orders"), "ge.sql: not a query for one value"),
    (sql("SELECT 1; SELECT 2"), "ge.sql: not a query for one value"),
    (sql("SELECT 1); DELETE FROM orders; SELECT (1"), "ge.sql: not a query for one value"),
    (sql("SELEC total FROM orders"), "ge.sql: not a query for one value"),
    (sql("PRAGMA user_version"), "ge.sql: not a query for one value"),
]
"""What depends on the pack."""


@pytest.mark.parametrize(("verifier", "message"), [*STRUCTURE, *MEANING])
def test_it_is_refused_where_it_stands(verifier: dict[str, Any], message: str) -> None:
    with pytest.raises(PackInvalid) as refused:
        Assertions.parse(verifier, TABLES, TOOLS)
    assert message in str(refused.value)


@pytest.mark.parametrize("verifier", [verifier for verifier, _ in STRUCTURE])
def test_the_schema_refuses_it_too(verifier: dict[str, Any]) -> None:
    assert not SCHEMA.is_valid(verifier)


def test_the_schema_is_published() -> None:
    published = Path(schema.__file__).with_name("schema.json")
    assert json.loads(published.read_text()) == schema.verifier_schema(), (
        "run python -m environments.assertions.schema > environments/assertions/schema.json"
    )
    assert jsonschema_rs.meta.is_valid(schema.verifier_schema())


def test_a_query_is_prepared_and_not_run() -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    assert Assertions.parse(sql(endless), TABLES).asks


def test_without_tools_their_names_are_taken_on_trust() -> None:
    parsed = Assertions.parse(probe(tool="get_ordr", arguments={"id": 1}), TABLES)
    assert [call.tool for call in parsed.probes] == ["get_ordr"]


def test_a_probe_asked_twice_is_made_once() -> None:
    twice = {"any_of": [probe(), probe(result={"lines": {"any": True}})], **probe()}
    assert len(Assertions.parse(twice, TABLES, TOOLS).probes) == 1


# --- only a run can show ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        (sql("SELECT total FROM orders"), "gives several rows, and must give one value"),
        (
            sql("SELECT total FROM orders WHERE id = 'o_99'"),
            "gives 0 rows, and must give one value",
        ),
        (sql("SELECT note FROM orders WHERE id = 'o_17'"), "must be a number or text, not null"),
        (
            sql("SELECT abs(-9223372036854775807 - 1)"),
            "fails on the initial state: integer overflow",
        ),
        (
            {"answer": {"norm": {"sql": "SELECT total FROM orders WHERE id = 'o_17'"}}},
            "answer.norm: must be text, not 25",
        ),
        (
            {"expect": [{**CANCEL, "count": {"sql": "SELECT 0.5"}}]},
            "expect[0].count: must be a whole number, not 0.5",
        ),
    ],
)
def test_a_query_without_a_fitting_value_is_the_packs_fault(
    judge: Judge, verifier: dict[str, Any], message: str
) -> None:
    with pytest.raises(PackInvalid) as refused:
        judge(verifier)
    assert message in str(refused.value)


def test_a_probe_nobody_made_is_no_verdict(judge: Judge) -> None:
    with pytest.raises(EnvhubError) as raised:
        judge(probe(), probes=())
    assert isinstance(raised.value, InfrastructureFault)


# --- judged elsewhere ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "elsewhere", [{"code": {"kind": "native"}}, {"judge": {"rubric": "Well?"}}]
)
def test_changes_nobody_speaks_of_are_left_to_code_and_judge(
    judge: Judge, elsewhere: dict[str, Any]
) -> None:
    stray = "UPDATE users SET name = 'x' WHERE id = 'u_1'"
    assert judge(elsewhere, stray) == {}
    assert "frame" not in judge({**elsewhere, "answer": {"norm": "x"}}, stray, "x")
    assert not judge({**elsewhere, "allow": []}, stray)["frame"].passed
    assert not judge({**elsewhere, "expect": [CANCEL]}, stray)["frame"].passed


def test_a_reward_is_no_judge() -> None:
    with pytest.raises(PackInvalid, match="pays for doing nothing"):
        Assertions.parse({"reward": "binary"}, TABLES)

"""The REST API through the whole hub: every answer is also held against the API's description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest

from hub.app import Hub
from tests.hub.conftest import Rest

pytestmark = pytest.mark.anyio

BUY = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
CUP = {"tool": "order", "arguments": {"sku": "CUP-01", "quantity": 1}}


async def stock(rest: Rest, path: str) -> dict[str, int]:
    """What the episode's own tool says is in stock, asked of a fork so that no step is taken."""
    fork = (await rest.ask("POST", f"{path}/fork", {}))["results"][0]["episode"]
    forked = f"/v1/episodes/{fork['id']}"
    step = (await rest.ask("POST", f"{forked}/call", {"tool": "list_products"}))["step"]
    await rest.ask("DELETE", forked)
    return {row["sku"]: row["stock"] for row in step["result"]}


# --- environments ----------------------------------------------------------------------------


async def test_environments_are_found_by_words_domain_and_tag(rest: Rest) -> None:
    async def names(**query: str) -> list[str]:
        found = await rest.ask("GET", "/v1/environments", **query)
        return [each["name"] for each in found["environments"]]

    assert await names() == ["shop"]
    assert await names(q="CORNER shop") == ["shop"]
    assert await names(q="bank") == []
    assert await names(domain="retail", tag="test") == ["shop"]
    assert await names(tag="other") == []


async def test_an_environment_shows_tools_tables_and_policy(rest: Rest) -> None:
    shop = await rest.ask("GET", "/v1/environments/shop")
    assert {"list_products", "order", "wait"} <= {tool["name"] for tool in shop["tools"]}
    assert shop["tables"]["orders"][0] == "id"
    assert shop["policy"] == "Sell only what is in stock.\n"
    assert shop["tasks"] == 3


async def test_tasks_show_neither_verifier_nor_oracle(rest: Rest) -> None:
    listed = await rest.ask("GET", "/v1/environments/shop/tasks")
    assert [task["id"] for task in listed["tasks"]] == ["buy-tea", "last-cup", "wait-for-tea"]
    easy = await rest.ask("GET", "/v1/environments/shop/tasks", difficulty="medium")
    assert [task["id"] for task in easy["tasks"]] == ["wait-for-tea"]
    task = await rest.ask("GET", "/v1/environments/shop/tasks/buy-tea")
    assert task == listed["tasks"][0]
    assert not {"verifier", "oracle", "answer", "initial"} & set(task)


# --- the life of an episode ------------------------------------------------------------------


async def test_an_episode_from_beginning_to_end(rest: Rest, episode: dict[str, Any]) -> None:
    path = f"/v1/episodes/{episode['id']}"
    assert (episode["status"], episode["steps"], episode["reward"]) == ("live", 0, None)
    assert episode["instruction"].startswith("Please order two packs")
    assert (await stock(rest, path))["TEA-100"] == 12

    mark = (await rest.ask("POST", f"{path}/marks", expect=201))["mark"]
    answer = await rest.ask("POST", f"{path}/call", CUP)
    assert answer["step"]["result"]["price_cents"] == 1200
    assert (answer["status"], answer["remaining"]) == ("live", 11)
    assert (await rest.ask("POST", f"{path}/score", {}))["reward"]["value"] == 0.0

    info = await rest.ask("POST", f"{path}/rewind", {"mark": mark})
    assert (info["steps"], info["reward"], info["marks"]) == (0, None, [mark])
    assert (await rest.ask("GET", f"{path}/changes"))["changes"] == {}

    await rest.ask("POST", f"{path}/call", BUY)
    changes = (await rest.ask("GET", f"{path}/changes", actor="agent"))["changes"]
    assert changes["products"]["changed"][0]["after"] == {"stock": 10}
    assert (await rest.ask("GET", f"{path}/changes", since="1"))["changes"] == {}
    assert (await rest.ask("GET", f"{path}/changes", since=mark))["changes"] == changes
    assert (await rest.ask("GET", f"{path}/changes", actor="environment"))["changes"] == {}
    assert (await rest.ask("POST", f"{path}/score", {}))["reward"]["value"] == 1.0

    for method, place in (("DELETE", path), ("DELETE", path), ("POST", f"{path}/close")):
        await rest.ask(method, place)
    closed = await rest.ask("GET", path)
    assert (closed["status"], closed["reward"], closed["steps"]) == ("closed", 1.0, 1)
    assert [step["tool"] for step in (await rest.ask("GET", f"{path}/steps"))["steps"]] == ["order"]
    assert (await rest.ask("GET", f"{path}/changes"))["changes"] == changes
    error = await rest.fails("POST", f"{path}/call", BUY, status=409)
    assert (error["kind"], error["code"]) == ("agent", "EPISODE_CLOSED")


async def test_reset_starts_over_on_the_same_or_another_task(
    rest: Rest, episode: dict[str, Any]
) -> None:
    path = f"/v1/episodes/{episode['id']}"
    await rest.ask("POST", f"{path}/call", BUY)
    again = await rest.ask("POST", f"{path}/reset", {"seed": 7})
    assert (again["task"], again["seed"], again["steps"]) == ("buy-tea", 7, 0)
    assert (await stock(rest, path))["TEA-100"] == 12
    other = await rest.ask("POST", f"{path}/reset", {"task": "last-cup"})
    assert (other["task"], other["seed"], other["horizon"]) == ("last-cup", 7, 3)
    assert (await stock(rest, path))["CUP-01"] == 1
    free = await rest.ask("POST", f"{path}/reset", {"task": None})
    assert free["task"] is None
    error = await rest.fails("POST", f"{path}/score", {}, status=400)
    assert "no task" in error["message"]


async def test_forks_go_their_own_ways(rest: Rest, episode: dict[str, Any]) -> None:
    path = f"/v1/episodes/{episode['id']}"
    await rest.ask("POST", f"{path}/call", BUY)
    forks = (await rest.ask("POST", f"{path}/fork", {"count": 3}))["results"]
    ids = [fork["episode"]["id"] for fork in forks]
    assert len({*ids, episode["id"]}) == 4
    await rest.ask("POST", f"/v1/episodes/{ids[0]}/call", CUP)
    rewards = [
        (await rest.ask("POST", f"/v1/episodes/{each}/score", {}))["reward"]["value"]
        for each in ids
    ]
    assert rewards == [0.0, 1.0, 1.0]
    assert (await rest.ask("GET", path))["steps"] == 1


async def test_batches_succeed_and_fail_one_by_one(rest: Rest) -> None:
    wanted = [{"environment": "shop", "task": "buy-tea"}, {"environment": "shopp"}]
    good, bad = (await rest.ask("POST", "/v1/episodes/batch", {"episodes": wanted}))["results"]
    assert bad["error"]["code"] == "UNKNOWN_ENVIRONMENT"
    assert "shop" in bad["error"]["hint"]
    made = good["episode"]["id"]
    calls = [
        {"episode": made, **BUY},
        {"episode": "ep-none", **BUY},
        {"episode": made, "tool": "order", "arguments": {"sku": "TEA-250", "quantity": 1}},
    ]
    results = (await rest.ask("POST", "/v1/episodes/batch/call", {"calls": calls}))["results"]
    assert results[0]["answer"]["step"]["result"]["price_cents"] == 900
    assert results[1]["error"]["code"] == "UNKNOWN_EPISODE"
    assert results[2]["answer"]["step"]["error"]["code"] == "OUT_OF_STOCK"
    closed = await rest.ask("POST", "/v1/episodes/batch/close", {"episodes": [made, "ep-none"]})
    assert [result.get("error", {}).get("code") for result in closed["results"]] == [
        None,
        "UNKNOWN_EPISODE",
    ]
    assert (await rest.ask("GET", f"/v1/episodes/{made}"))["status"] == "closed"


async def test_episodes_are_listed_with_a_cursor(rest: Rest) -> None:
    wanted = [{"environment": "shop", "seed": seed} for seed in range(5)]
    made = (await rest.ask("POST", "/v1/episodes/batch", {"episodes": wanted}))["results"]
    ids = {result["episode"]["id"] for result in made}
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await rest.ask("GET", "/v1/episodes", limit="2", after=after, status="live")
        seen += [each["id"] for each in page["episodes"]]
        after = page["next"]
    assert ids <= set(seen)
    assert len(seen) == len(set(seen))
    assert (await rest.ask("GET", "/v1/episodes", environment="bank"))["episodes"] == []


async def test_a_call_key_makes_a_retry_harmless(rest: Rest, episode: dict[str, Any]) -> None:
    path = f"/v1/episodes/{episode['id']}"
    keyed = {**BUY, "call_key": "turn-1"}
    first = await rest.ask("POST", f"{path}/call", keyed)
    assert await rest.ask("POST", f"{path}/call", keyed) == first
    error = await rest.fails("POST", f"{path}/call", {**CUP, "call_key": "turn-1"}, status=409)
    assert error["code"] == "CALL_KEY_REUSED"
    endless = {**BUY, "call_key": "k" * 129}
    error = await rest.fails("POST", f"{path}/call", endless, status=422)
    assert error["details"]["field"] == "call_key"
    assert (await rest.ask("GET", path))["steps"] == 1
    await rest.ask("POST", f"{path}/call", {**BUY, "call_key": "k" * 128})


# --- what goes wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "code", "word"),
    [
        ({"tool": "ordr"}, "agent", "UNKNOWN_TOOL", "ordr"),
        (
            {"tool": "order", "arguments": {"sku": "TEA-100"}},
            "agent",
            "INVALID_ARGUMENTS",
            "quantity",
        ),
        (
            {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": "2x"}},
            "agent",
            "INVALID_ARGUMENTS",
            "quantity",
        ),
        (
            {"tool": "order", "arguments": {"sku": "TEA-999", "quantity": 1}},
            "agent",
            "NO_SUCH_PRODUCT",
            "TEA-999",
        ),
        ({"tool": "break_down"}, "environment", "TOOL_CRASHED", "on fire"),
        ({"tool": "leave"}, "environment", "WORKER_EXITED", "leave"),
        ({"tool": "hang"}, "environment", "TOOL_TIMED_OUT", "hang"),
    ],
)
async def test_a_failing_call_is_an_observation_and_changes_nothing(
    rest: Rest, episode: dict[str, Any], call: dict[str, Any], kind: str, code: str, word: str
) -> None:
    path = f"/v1/episodes/{episode['id']}"
    answer = await rest.ask("POST", f"{path}/call", call)
    error = answer["step"]["error"]
    assert (error["kind"], error["code"]) == (kind, code)
    assert word in error["message"]
    assert "Traceback" not in str(answer)
    assert (await rest.ask("GET", f"{path}/changes"))["changes"] == {}
    assert (await stock(rest, path)) == {"CUP-01": 5, "TEA-100": 12, "TEA-250": 0}
    assert "step" in await rest.ask("POST", f"{path}/call", BUY), "the episode goes on"


async def test_calls_after_the_horizon_are_refused(rest: Rest) -> None:
    body = {"environment": "shop", "task": "buy-tea", "horizon": 1}
    episode = await rest.ask("POST", "/v1/episodes", body, expect=201)
    path = f"/v1/episodes/{episode['id']}"
    answer = await rest.ask("POST", f"{path}/call", BUY)
    assert (answer["status"], answer["remaining"]) == ("truncated", 0)
    error = await rest.fails("POST", f"{path}/call", CUP, status=409)
    assert (error["kind"], error["code"]) == ("agent", "HORIZON_REACHED")
    assert (await rest.ask("POST", f"{path}/score", {}))["reward"]["value"] == 1.0
    assert (await rest.ask("GET", path))["steps"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "word"),
    [
        ("GET", "/v1/nothing", None, 404, "UNKNOWN_ROUTE", "/v1/nothing"),
        ("GET", "/v1/", None, 404, "UNKNOWN_ROUTE", "/v1/"),
        ("GET", "/v1/episodes//steps", None, 404, "UNKNOWN_ROUTE", "steps"),
        ("GET", "/v1/episodes/a/b/c/d", None, 404, "UNKNOWN_ROUTE", "/a/b/c/d"),
        ("PUT", "/v1/episodes", None, 405, "METHOD_NOT_ALLOWED", "GET, POST"),
        ("GET", "/v1/environments/shopp", None, 404, "UNKNOWN_ENVIRONMENT", "shop"),
        ("GET", "/v1/environments/shop/tasks/buy-te", None, 404, "UNKNOWN_TASK", "buy-tea"),
        ("GET", "/v1/environments/shop/tasks?difficulty=odd", None, 422, "INVALID_REQUEST", "diff"),
        ("GET", "/v1/environments?colour=red", None, 422, "INVALID_REQUEST", "colour"),
        ("GET", "/v1/episodes?limit=0", None, 422, "INVALID_REQUEST", "limit"),
        ("GET", "/v1/episodes?after=%C2%B2", None, 422, "INVALID_REQUEST", "after"),
        ("GET", f"/v1/episodes?after={10**19}", None, 422, "INVALID_REQUEST", "after"),
        ("GET", f"/v1/trajectories?cursor={2**63}", None, 422, "INVALID_REQUEST", "cursor"),
        ("POST", "/v1/episodes", {"environment": "shopp"}, 404, "UNKNOWN_ENVIRONMENT", "shop"),
        (
            "POST",
            "/v1/episodes",
            {"environment": "shop", "task": "buy"},
            404,
            "UNKNOWN_TASK",
            "buy-tea",
        ),
        ("POST", "/v1/episodes", None, 422, "INVALID_REQUEST", "environment"),
        ("POST", "/v1/episodes", b"[]", 422, "INVALID_REQUEST", "object"),
        ("POST", "/v1/episodes", b'{"environment":"shop",}', 400, "MALFORMED_JSON", "byte 22"),
        ("POST", "/v1/episodes", b'{"environment":"sh', 400, "MALFORMED_JSON", "byte 18"),
        ("POST", "/v1/episodes", b'{"environment":"\xff"}', 400, "MALFORMED_JSON", "byte 16"),
        (
            "POST",
            "/v1/episodes/ep-1/call",
            b'{"tool":"order","arguments":{"sku":' + b"[" * 9999 + b"]" * 9999 + b"}}",
            400,
            "NESTED_TOO_DEEPLY",
            "nested",
        ),
        ("POST", "/v1/episodes", {"environment": 5}, 422, "INVALID_REQUEST", "environment"),
        (
            "POST",
            "/v1/episodes",
            {"environment": "shop", "sede": 1},
            422,
            "INVALID_REQUEST",
            "sede",
        ),
        (
            "POST",
            "/v1/episodes",
            {"environment": "shop", "seed": -1},
            422,
            "INVALID_REQUEST",
            "seed",
        ),
        (
            "POST",
            "/v1/episodes",
            {"environment": "shop", "horizon": 0},
            422,
            "INVALID_REQUEST",
            "horizon",
        ),
        (
            "POST",
            "/v1/episodes/batch",
            {"episodes": [{"environment": "shop"}, {"environment": None}]},
            422,
            "INVALID_REQUEST",
            "episodes[1].environment",
        ),
        ("GET", "/v1/episodes/ep-none", None, 404, "UNKNOWN_EPISODE", "ep-none"),
        ("POST", "/v1/episodes/ep-none/call", {"tool": "x"}, 404, "UNKNOWN_EPISODE", "ep-none"),
        ("DELETE", "/v1/episodes/ep-none", None, 404, "UNKNOWN_EPISODE", "ep-none"),
    ],
)
async def test_bad_input_is_told_in_words(
    rest: Rest, method: str, path: str, body: Any, status: int, code: str, word: str
) -> None:
    error = await rest.fails(method, path, body, status=status)
    assert (error["kind"], error["code"]) == ("agent", code)
    assert word in f"{error['message']} {error.get('hint', '')}"


def nested(levels: int) -> bytes:
    """A call whose argument is a list in a list in a list."""
    return b'{"tool":"order","arguments":{"sku":%b%b}}' % (b"[" * levels, b"]" * levels)


@pytest.mark.parametrize(
    ("verb", "body", "status", "code", "word"),
    [
        ("call", {"tool": 5}, 422, "INVALID_REQUEST", "tool"),
        ("call", {"tool": "order", "arguments": [1]}, 422, "INVALID_REQUEST", "arguments"),
        ("call", nested(20_000), 400, "NESTED_TOO_DEEPLY", "deep"),
        ("rewind", {"mark": "m9"}, 404, "UNKNOWN_MARK", "m9"),
        ("reset", {"task": "buy"}, 404, "UNKNOWN_TASK", "buy-tea"),
        ("score", {"mode": "kind"}, 422, "INVALID_REQUEST", "mode"),
        ("fork", {"count": 0}, 422, "INVALID_REQUEST", "count"),
    ],
)
async def test_bad_input_leaves_the_episode_as_it_was(
    rest: Rest,
    episode: dict[str, Any],
    verb: str,
    body: Any,
    status: int,
    code: str,
    word: str,
) -> None:
    path = f"/v1/episodes/{episode['id']}"
    error = await rest.fails("POST", f"{path}/{verb}", body, status=status)
    assert error["code"] == code
    assert word in f"{error['message']} {error.get('hint', '')}"
    assert await rest.ask("GET", path) == episode


@pytest.mark.parametrize(
    ("body", "word"),
    [({"tool": "order", "arguments": {"n": 2**64}}, "64-bit"), (nested(300), "200 levels")],
)
async def test_arguments_that_no_record_can_hold_are_a_step_without_them(
    rest: Rest, episode: dict[str, Any], body: Any, word: str
) -> None:
    answer = await rest.ask("POST", f"/v1/episodes/{episode['id']}/call", body)
    error = answer["step"]["error"]
    assert (error["kind"], error["code"]) == ("agent", "INVALID_ARGUMENTS")
    assert word in error["message"]
    assert answer["step"]["arguments"] == {}


async def test_a_mistyped_id_is_met_with_the_right_one(rest: Rest, episode: dict[str, Any]) -> None:
    mistyped = episode["id"][:-1] + "x"
    error = await rest.fails("GET", f"/v1/episodes/{mistyped}", status=404)
    assert episode["id"] in error["hint"]


async def test_changes_since_a_point_that_is_not_there(rest: Rest, episode: dict[str, Any]) -> None:
    for since in ("m9", "4", "²", "9" * 5000):
        path = f"/v1/episodes/{episode['id']}/changes?since={since}"
        error = await rest.fails("GET", path, status=404)
        assert error["code"] == "UNKNOWN_MARK"


async def test_a_body_over_the_limit_is_refused(rest: Rest) -> None:
    large = b'{"environment":"' + b"x" * 70_000 + b'"}'
    error = await rest.fails("POST", "/v1/episodes", large, status=413)
    assert (error["kind"], error["code"]) == ("agent", "BODY_TOO_LARGE")

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 10_000):
            yield large[start : start + 10_000]

    response = await rest.client.post("/v1/episodes", content=chunks())
    assert response.status_code == 413


# --- the description -------------------------------------------------------------------------


async def test_the_description_is_whole(rest: Rest) -> None:
    description = rest.description
    schemas = description["components"]["schemas"]
    operations = [
        operation for path in description["paths"].values() for operation in path.values()
    ]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids)) > 20
    for operation in operations:
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body and "example" in body:
            jsonschema.validate(
                body["example"], {**body["schema"], "components": {"schemas": schemas}}
            )
    references = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            references.update([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(description)
    assert {reference.rsplit("/", 1)[1] for reference in references} <= set(schemas)
    assert not {"Task", "OracleCall"} & set(schemas)


# --- for operators ---------------------------------------------------------------------------


async def test_health_readiness_and_metrics(rest: Rest, hub: Hub, episode: dict[str, Any]) -> None:
    assert (await rest.client.get("/healthz")).json() == {"status": "alive"}
    ready = (await rest.client.get("/readyz")).json()
    assert (ready["status"], ready["environments"]) == ("ready", 1)
    path = f"/v1/episodes/{episode['id']}"
    before = samples((await rest.client.get("/metrics")).text)
    await asyncio.gather(
        rest.ask("POST", f"{path}/call", BUY),
        rest.ask("POST", f"{path}/call", {"tool": "break_down"}),
        rest.ask("POST", f"{path}/call", {"tool": "nothing"}),
    )
    after = samples((await rest.client.get("/metrics")).text)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    for outcome in ("ok", "agent", "environment"):
        assert grown(f'envhub_calls_total{{environment="shop",outcome="{outcome}"}}') == 1
    assert grown('envhub_faults_total{code="TOOL_CRASHED",kind="environment"}') == 1
    assert grown('envhub_call_seconds_count{environment="shop"}') == 3
    assert after["envhub_live_episodes"] >= 1
    assert grown("envhub_dirty_bytes") > 0
    assert after['envhub_workers{environment="shop",state="idle"}'] >= 1


def samples(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}

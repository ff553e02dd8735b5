"""Every route of the application, as it tells of itself: who is let in, and what of another
tenant's can be reached. A route, or a field of a request, that this does not know is a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from environments.sampling import SamplerSpec
from hub.api.rest import PREFIX, tables_of
from hub.api.routing import Route, captures
from hub.app import App, Hub
from hub.auth import SCOPES, Access
from hub.settings import Durability
from hub.training import CreateGroup, Outcomes, RenewLeases, Schedule
from hub.wire import (
    CallTools,
    CloseEpisodes,
    CreateEpisode,
    CreateEpisodes,
    Transcript,
)
from tests.hub.auth.asking import HANDSHAKE, Answer, Asking
from tests.hub.auth.conftest import Bearer
from tests.hub.mcp_server.conftest import request

pytestmark = pytest.mark.anyio

IDS = re.compile(r"(?:ep|gr)-[0-9a-f]{20}", re.IGNORECASE)

PLAIN = frozenset((
    "seed", "horizon", "training_step", "faults", "fault_curriculum", "malformed", "window",
    "policy_version", "lease_seconds", "wait_seconds", "environment", "task", "size", "sample",
    "tool", "arguments", "call_key", "since", "actor", "answer", "mode", "count", "mark",
    "messages", "calls", "tokens", "phases", "fixed", "rounds_ctrl", "passed", "kind", "low",
    "high", "where", "weights", "status", "limit", "q", "domain", "tag", "difficulty", "split",
    "revisit", "recent",
))  # fmt: skip
"""Fields of requests that name nothing of anybody's."""


@pytest.fixture(scope="module", params=["step", "none"])
def durability(request: pytest.FixtureRequest) -> Durability:
    """With a ledger, and with what stands for one."""
    kept: Durability = request.param
    return kept


class Things(msgspec.Struct, frozen=True):
    """Names of things, somebody's or nobody's."""

    episode: str
    closed: str
    group: str
    named: str
    """A schedule and a sampler."""
    key: str
    session: str
    cursor: str


NOBODYS = Things(
    episode="ep-" + "0" * 20,
    closed="ep-" + "1" * 20,
    group="gr-" + "0" * 20,
    named="unheard-of",
    key="a key nobody has used",
    session="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    cursor="0",
)


async def things_of(asking: Asking) -> Things:
    """A live episode with a step, a closed one, a group, a curriculum, a session with a seat."""
    shop: dict[str, Any] = {"environment": "shop", "task": "buy-tea"}
    order = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
    key = "the key of somebody else"
    live = (await asking.made("/v1/episodes", {**shop, "key": key}))["id"]
    await asking.made(f"/v1/episodes/{live}/call", order)
    await asking.made(f"/v1/episodes/{live}/marks", {})
    closed = (await asking.made("/v1/episodes", shop))["id"]
    await asking.made(f"/v1/episodes/{closed}/close", {})
    group = (await asking.made("/v1/groups", {**shop, "size": 2, "key": key}))["id"]
    await asking.made("/v1/schedules/mine", {"fixed": 7}, "PUT")
    await asking.made("/v1/samplers/mine", {"kind": "uniform"}, "PUT")
    session = await asking.session("/environments/shop/mcp")
    ordered = {"name": "order", "arguments": order["arguments"]}
    await asking.rpc("/environments/shop/mcp", "tools/call", ordered, mcp_session_id=session)
    return Things(live, closed, group, "mine", key, session, "0")


def routes(hub: Hub) -> Iterator[Route]:
    for _, table in tables_of(hub.groups):
        yield from table


# --- who is let in ---------------------------------------------------------------------------


def filled(path: str, things: Things = NOBODYS) -> str:
    """The path with a name in each gap."""
    gaps = {"name": "shop", "task": "buy-tea", "id": things.episode, "below:path": "/x"}
    collection = path.removeprefix(PREFIX).split("/")[1]
    if collection in ("schedules", "samplers"):
        gaps["name"] = things.named
    if collection == "groups":
        gaps["id"] = things.group
    for gap in re.findall(r"{([a-z:_]+)}", path):
        path = path.replace(f"{{{gap}}}", gaps[gap])
    return path


def test_every_mount_tells_of_its_routes(app: App) -> None:
    access = app.access
    assert len(set(access)) == len(access) > 50
    assert {each.scope for each in access} == {"public", "any", *SCOPES}
    public = {each.path for each in access if each.scope == "public"}
    assert public == {
        "/healthz", "/readyz", "/.well-known/oauth-protected-resource{below:path}",
    }  # fmt: skip


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"authorization": "Bearer eh_" + "A" * 43},
        {"authorization": "Bearer"},
        {"authorization": "Basic Zmlyc3Q6Zmlyc3Q="},
        {"token": "revoked"},
        {"token": "expired"},
    ],
    ids=str,
)
async def test_without_a_good_token_nothing_but_the_public_is_there(
    app: App, file: Any, shown: dict[str, str]
) -> None:
    if shown.get("token") == "revoked":
        shown = {"token": file.create("revoked", "revoked", ["admin"])}
        file.revoke("revoked")
    elif shown.get("token") == "expired":
        shown = {"token": file.create("expired", "expired", ["admin"], expires=1)}
    asking = Asking(app, **shown)
    nowhere = [Access("GET", "/v1/nothing", "any"), Access("PATCH", "/episodes/x/mcp", "play")]
    for each in (*app.access, *nowhere):
        answer = await asking.ask(each.method, filled(each.path), pieces=1)
        if each.scope == "public":
            assert answer.status in (200, 404), each
            continue
        assert answer.status == 401, each
        assert answer.headers["www-authenticate"].startswith('Bearer realm="envhub"'), each
        error = answer.json["error"]
        code = error["code"] if isinstance(error["code"], str) else error["data"]["code"]
        assert code in ("UNAUTHENTICATED", "TOKEN_MISSING"), each


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_token_opens_what_its_scope_says_and_nothing_else(
    app: App, bearer: Bearer, scope: str
) -> None:
    asking = bearer(f"only-{scope}", scope)
    for each in app.access:
        body = None if each.method == "GET" else {}
        answer = await asking.ask(each.method, filled(each.path), body)
        if each.scope in ("public", "any", scope) or scope == "admin":
            assert answer.status not in (401, 403), each
        else:
            assert answer.status == 403, each
            challenge = f'Bearer realm="envhub", error="insufficient_scope", scope="{each.scope}"'
            assert answer.headers["www-authenticate"] == challenge, each


# --- what of another's can be reached --------------------------------------------------------


def body_of(kind: Any, things: Things) -> Any:
    """A request of this type that names all it can name of these things."""
    if kind is None:
        return None
    special: dict[Any, Any] = {
        CreateEpisode: {"environment": "shop", "schedule": things.named},
        CreateEpisodes: {"episodes": [{"environment": "shop", "schedule": things.named}]},
        CreateGroup: {"sampler": things.named, "size": 2},
        CallTools: {"calls": [{"episode": things.episode, "tool": "list_products"}]},
        CloseEpisodes: {"episodes": [things.episode, things.closed]},
        RenewLeases: {"episodes": [things.episode, things.closed]},
        Outcomes: {"environment": "shop", "task": "buy-tea", "passed": [True]},
        Schedule: {"fixed": 9},
        SamplerSpec: {"kind": "uniform"},
        Transcript: {"messages": []},
    }
    if kind in special:
        return special[kind]
    given = {"tool": "list_products", "mark": "m1", "training_step": 3, "key": things.key}
    required = [field for field in msgspec.structs.fields(kind) if field.required]
    return {field.encode_name: given[field.encode_name] for field in required}


NAMING = frozenset((
    "schedule", "sampler", "episode", "episodes", "key", "group", "cursor", "after",
))  # fmt: skip
"""Fields that may name something of somebody's; each is tried in this file."""


def test_every_field_of_every_request_is_known_here(guarded: Hub) -> None:
    for route in routes(guarded):
        assert set(captures(route.path)) <= {"id", "name", "task"}, route.path
        for kind in (route.request, route.query):
            for field in msgspec.structs.fields(kind) if kind else ():
                assert field.name in PLAIN | NAMING, f"{route.path}: is {field.name} anybody's?"


def same(answer: Answer, things: Things) -> tuple[Any, ...]:
    """An answer without what it was asked for and what is new each time."""
    text = answer.body.decode()
    for name in (things.named, things.key, things.session):
        text = text.replace(name, "<asked>").replace(name.upper(), "<ASKED>")
    text = re.sub(IDS, "<id>", text)
    text = re.sub(r'"seconds":[0-9.]+', '"seconds":0', text)
    return answer.status, answer.headers.get("content-type"), text


def alterations(name: str) -> list[str]:
    """What a careless parser might take for this name."""
    return [
        name.upper(),
        f"{name}/",
        f"{name}\0",
        f" {name}",
        f"{name} ",
        f"./{name}",
        f"{name}%20",
    ]


async def asked(asking: Asking, route: Route, things: Things) -> list[tuple[str, Answer]]:
    """Every way in which a route may be asked for these things."""
    path = filled(PREFIX + route.path, things)
    paths = [path]
    for name in (things.episode, things.group, things.named):
        if name in path:
            paths += [path.replace(name, other) for other in alterations(name)]
    if things.episode in path:
        paths.append(path.replace(things.episode, things.closed))
    queries = [""]
    for field in msgspec.structs.fields(route.query) if route.query else ():
        if field.name in NAMING:
            value = {"after": "0", "cursor": things.cursor}.get(field.name, things.group)
            queries.append(f"{field.name}={quote(value)}")
    bodies = [body_of(route.request, things)]
    keyed = {"environment": "shop", "task": "buy-tea", "key": things.key}
    if route.request is CreateEpisode:
        bodies.append(keyed)
    if route.request is CreateGroup:
        bodies.append({**keyed, "size": 2})
    return [
        (each, await asking.ask(route.method, each, body, query=query, last_event_id="0"))
        for each in paths
        for query in queries
        for body in bodies
    ]


async def test_what_is_anothers_is_answered_as_what_is_not_there(
    guarded: Hub, bearer: Bearer
) -> None:
    ann, bob, eve = bearer("ann"), bearer("bob"), bearer("eve")
    things = await things_of(ann)
    before = await standing(ann, things)
    for route in routes(guarded):
        # who asks for ann's, and somebody else in just the same position who asks for nobody's
        anns = await asked(bob, route, things)
        nobodys = await asked(eve, route, NOBODYS)
        for (path, answer), (_, other) in zip(anns, nobodys, strict=True):
            assert same(answer, things) == same(other, NOBODYS), f"{route.method} {path}"
            if things.episode in path or things.closed in path or things.group in path:
                assert answer.status == 404, f"{route.method} {path}: {answer.body!r}"
    assert await standing(ann, things) == before, "bob changed something of ann's"


async def standing(asking: Asking, things: Things) -> list[Any]:
    """All that can be seen of these things."""
    paths = [
        f"/v1/episodes/{things.episode}",
        f"/v1/episodes/{things.episode}/steps",
        f"/v1/episodes/{things.closed}/trajectory",
        f"/v1/groups/{things.group}",
        f"/v1/schedules/{things.named}",
        f"/v1/samplers/{things.named}",
        "/v1/episodes",
        "/v1/groups",
        "/v1/trajectories",
    ]
    return [(await asking.ask("GET", path)).body for path in paths]


async def test_a_key_begins_something_of_ones_own(bearer: Bearer) -> None:
    ann, bob = bearer("ann"), bearer("bob")
    for path, body in (
        ("/v1/episodes", {"environment": "shop", "key": "shared key"}),
        ("/v1/groups", {"environment": "shop", "task": "buy-tea", "size": 2, "key": "shared key"}),
    ):
        anns, bobs = await ann.made(path, body), await bob.made(path, body)
        assert anns["id"] != bobs["id"]
        assert (await ann.made(path, body))["id"] == anns["id"]


async def test_mcp_of_another_is_as_none(app: App, bearer: Bearer) -> None:
    ann, bob, eve = bearer("ann"), bearer("bob"), bearer("eve")
    things = await things_of(ann)
    own = await ann.session(f"/episodes/{things.episode}/mcp")
    assert {each.path.rpartition("/")[2] for each in app.access if each.scope == "play"} == {
        "mcp", "sse", "messages",
    }  # fmt: skip
    bodies = [
        request("initialize", HANDSHAKE),
        request("tools/list"),
        request("tools/call", {"name": "list_products"}),
        None,
    ]
    for each in app.access:
        if each.scope != "play" or "{id}" not in each.path:
            continue
        for anns, unheard in (
            (things.episode, NOBODYS.episode),
            (things.closed, NOBODYS.closed),
        ):
            for body in bodies:
                for headers in ({}, {"mcp_session_id": own}):
                    path = each.path.replace("{id}", anns)
                    answer = await bob.ask(each.method, path, body, **headers)
                    nobodys = each.path.replace("{id}", unheard)
                    other = await eve.ask(each.method, nobodys, body, **headers)
                    assert answer.status == 404, (each, body, answer)
                    assert same(answer, things) == same(other, NOBODYS), (each, body)


async def test_a_session_is_good_for_its_tenant_alone(bearer: Bearer) -> None:
    ann, bob = bearer("ann"), bearer("bob")
    things = await things_of(ann)
    path = "/environments/shop/mcp"
    altered = [
        things.session,
        things.session[:-1] + ("A" if things.session[-1] != "A" else "B"),
        things.session[:-4],
        things.session + "AAAA",
        NOBODYS.session,
        "",
    ]
    for method, body in (
        ("POST", request("tools/call", {"name": "list_products"})),
        ("POST", request("ping")),
        ("DELETE", None),
    ):
        answers = [await bob.ask(method, path, body, mcp_session_id=session) for session in altered]
        assert {answer.status for answer in answers} == {404}, method
        assert len({answer.body for answer in answers}) == 1
    ping = await ann.rpc(path, "ping", mcp_session_id=things.session)
    assert ping.status == 200


async def test_a_seat_is_its_tenants(bearer: Bearer) -> None:
    ann, bob = bearer("ann"), bearer("bob")
    order = {"name": "order", "arguments": {"sku": "TEA-100", "quantity": 5}}

    async def stock(asking: Asking) -> int:
        call = {"name": "list_products"}
        answer = await asking.ask(
            "POST", "/environments/shop/mcp", request("tools/call", call), query="seat=desk"
        )
        rows = msgspec.json.decode(answer.json["result"]["content"][0]["text"])
        return next(row["stock"] for row in rows if row["sku"] == "TEA-100")

    before = await stock(bob)
    ordered = await ann.ask(
        "POST", "/environments/shop/mcp", request("tools/call", order), query="seat=desk"
    )
    assert not ordered.json["result"].get("isError"), ordered.body
    assert await stock(ann) == before - 5
    assert await stock(bob) == before


async def test_events_tell_of_ones_own_episodes(bearer: Bearer) -> None:
    ann, bob, root = bearer("ann"), bearer("bob"), bearer("root", "admin")
    ids = {}
    for name, asking in (("ann", ann), ("bob", bob)):
        ids[name] = (await asking.made("/v1/episodes", {"environment": "shop"}))["id"]
        await asking.made(f"/v1/episodes/{ids[name]}/close", {})
    mine = set(IDS.findall((await bob.ask("GET", "/v1/trajectories")).body.decode()))
    told = await bob.ask("GET", "/v1/events", query="cursor=0", pieces=1 + len(mine))
    assert set(IDS.findall(told.body.decode())) <= mine
    assert ids["bob"].encode() in told.body
    assert ids["ann"].encode() not in told.body
    everything = (await root.ask("GET", "/v1/trajectories", query="limit=1000")).body.decode()
    assert {ids["ann"], ids["bob"]} <= set(IDS.findall(everything))


async def test_an_admin_sees_everybodys(bearer: Bearer) -> None:
    ann, root = bearer("ann"), bearer("root", "admin")
    things = await things_of(ann)
    for path in (f"/v1/episodes/{things.episode}", f"/v1/groups/{things.group}"):
        assert (await root.ask("GET", path)).body == (await ann.ask("GET", path)).body
    fork = await root.made(f"/v1/episodes/{things.episode}/fork", {})
    forked = fork["results"][0]["episode"]["id"]
    assert (await ann.ask("GET", f"/v1/episodes/{forked}")).status == 200, "it is still ann's"
    assert b"envhub_live_episodes" in (await root.ask("GET", "/metrics")).body


@pytest.mark.parametrize("path", ["/v1/groups", "/metrics", "/environments/shop/mcp"])
async def test_who_is_refused_is_counted_wherever_it_was(
    app: App, bearer: Bearer, guarded: Hub, path: str
) -> None:
    def counted() -> dict[str, float]:
        return {
            code: guarded.metrics.registry.get_sample_value(
                "envhub_faults_total", {"kind": "agent", "code": code}
            )
            or 0
            for code in ("TOKEN_MISSING", "UNAUTHENTICATED", "SCOPE_MISSING")
        }

    before = counted()
    lacking = bearer("roller", "rollout")
    for asking in (Asking(app), Asking(app, "no token"), lacking):
        assert (await asking.ask("GET", path)).status in (401, 403)
    assert (await Asking(app).ask("GET", "/healthz")).status == 200
    assert counted() == {code: count + 1 for code, count in before.items()}

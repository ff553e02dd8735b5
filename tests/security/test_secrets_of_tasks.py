"""What an agent must never read: verifiers, oracles, answers, rubrics and what is yet to happen.

A pack is marked with a word in each of those places; then everything that a client can reach is
read, over MCP in both eras and over REST, in answers and in errors, and searched for the words.
"""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hub.app import App, Hub
from hub.settings import Settings
from tests.hub.mcp_server.conftest import BASE, Raw, request

pytestmark = pytest.mark.anyio

PLACES = (
    "expected", "answer", "oracle", "said", "code", "inline", "rubric", "state", "probe", "trace",
    "event", "forbidden", "query",
)  # fmt: skip
MARK = "MARK"
MARKED = "".join(("MA", "RK-"))  # not a constant of the tools, which look for it


def mark(place: str) -> str:
    return f"{MARK}-{place}-5f3a"


TOOLS = '''
import gc
import os
import sys
from pathlib import Path

from environments.authoring import Database, ToolError, tool

WORD = "MA" + "RK-"


@tool(read_only=True)
def look(db: Database, id: str) -> dict:
    """An order."""
    row = db.one("SELECT * FROM orders WHERE id = ?", id)
    if row is None:
        raise ToolError("NO_SUCH_ORDER", f"there is no {id}")
    return row


@tool(read_only=False)
def settle(db: Database, id: str) -> dict:
    """Settle an order."""
    db.run("UPDATE orders SET status = 'settled' WHERE id = ?", id)
    return {}


@tool(read_only=True)
def crash() -> None:
    """Fail."""
    raise RuntimeError("it fell over")


@tool(read_only=True)
def files() -> list[str]:
    """Whatever of the pack and around it can be read, if it has the word."""
    here = Path(__file__).parent
    found = []
    for folder in (here, here.parent, here.parent.parent, Path.cwd(), Path("/proc/self")):
        for name in [*(("tasks.jsonl", "verifiers.py", "events.jsonl", "environment.toml")),
                     "environ", "cmdline", "maps"]:
            try:
                text = (folder / name).read_bytes()
            except OSError:
                continue
            if WORD.encode() in text:
                found.append(str(folder / name))
    return found


@tool(read_only=True)
def memory(db: Database) -> list[str]:
    """Whatever this process holds, if it has the word."""
    found = []
    for thing in gc.get_objects():
        try:
            parts = list(thing.items()) if isinstance(thing, dict) else list(thing)
        except Exception:
            continue
        for part in parts:
            for each in part if isinstance(part, tuple) else (part,):
                if isinstance(each, bytes):
                    each = each.decode(errors="ignore")
                if isinstance(each, str) and WORD in each and each != WORD:
                    found.append(each[:80])
    found += [name for name in os.environ if WORD in os.environ[name]]
    return sorted(set(found))


kept = []


@tool(read_only=True)
def keep(text: str) -> None:
    """Remember one text."""
    kept[:] = [text]


@tool(read_only=True)
def rows(db: Database) -> list[dict]:
    """All that is in the database."""
    tables = [row["name"] for row in db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return [row for table in tables for row in db.rows(f'SELECT * FROM "{table}"')]
'''
VERIFIERS = f'''
def verify(final, answer):
    return answer == "{mark("code")}"
'''
TASKS: list[dict[str, Any]] = [
    {
        "id": "settle",
        "instruction": "Settle o-1.",
        "answer": mark("said"),
        "oracle": [
            {
                "tool": "look",
                "arguments": {"id": mark("oracle")},
                "expect_error": "NO_SUCH_ORDER",
            }
        ],
        "verifier": {
            "expect": [
                {"table": "orders", "where": {"id": "o-1"}, "set": {"status": mark("expected")}}
            ],
            "forbid": [{"table": "orders", "where": {"note": mark("forbidden")}}],
            "answer": {"norm": mark("answer")},
            "state": [{"at": "final", "table": "orders", "where": {"note": mark("state")}}],
            "trace": [{"tool": "look", "arguments": {"id": mark("trace")}}],
            "probe": [{"tool": "look", "arguments": {"id": mark("probe")}, "ended": "error"}],
            "code": {"kind": "native"},
        },
    },
    {
        "id": "judged",
        "instruction": "Be kind.",
        "verifier": {
            "answer": {"exact": {"sql": f"SELECT '{mark('query')}'"}},
            "judge": {"rubric": mark("rubric")},
            "code": {
                "kind": "envscaler",
                "checks": [{"code": f"def check_func(state):\n    return '{mark('inline')}'"}],
            },
        },
    },
]  # fmt: skip
EVENTS = [
    {
        "id": "later",
        "at": "2027-01-01T00:00:00Z",
        "statements": [f"UPDATE orders SET note = '{mark('event')}'"],
    }
]


@pytest.fixture(scope="module")
async def hub(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hub]:
    folder = write_pack(tmp_path_factory.mktemp("packs"))
    settings = Settings(data_dir=tmp_path_factory.mktemp("hub"), packs=(folder,), shipped=False)
    async with Hub.open(settings) as opened:
        yield opened


def write_pack(root: Path) -> Path:
    folder = root / "marked"
    folder.mkdir()
    files = {
        "environment.toml": 'name = "marked"\nversion = "1"\ntitle = "M"\nsummary = "Marked"\n',
        "schema.sql": "CREATE TABLE orders (id TEXT NOT NULL PRIMARY KEY, status TEXT, note TEXT);",
        "data.sql": "INSERT INTO orders VALUES ('o-1', 'open', NULL);",
        "tools.py": textwrap.dedent(TOOLS),
        "verifiers.py": VERIFIERS,
        "policy.md": "Be careful.",
        "tasks.jsonl": "".join(json.dumps(task) + "\n" for task in TASKS),
        "events.jsonl": "".join(json.dumps(event) + "\n" for event in EVENTS),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    written = "".join(files.values())
    assert all(mark(place) in written for place in PLACES), "each place is marked"
    return folder


@pytest.fixture
async def client(hub: Hub) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(App(hub))
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as opened:
        yield opened


async def episode(client: httpx2.AsyncClient, task: str = "settle", **more: Any) -> str:
    made = await client.post(
        "/v1/episodes", json={"environment": "marked", "task": task, "seed": 3, **more}
    )
    assert made.status_code == 201, made.text
    made_id: str = made.json()["id"]
    return made_id


def clean(*texts: str) -> None:
    """No mark is in any of the texts, not even in base64."""
    encoded = base64.b64encode(MARKED.encode()).decode()[:6]
    for text in texts:
        assert MARKED not in text, text[max(0, text.index(MARKED) - 200) :][:400]
        assert encoded not in text


# --- MCP ------------------------------------------------------------------------------------------

GUESSES = (
    "verifier", "tasks/settle/verifier", "tasks.jsonl", "verifiers.py", "events.jsonl", "oracle",
    "../tasks.jsonl", "tasks/../verifiers.py", "tasks/settle/../../tasks.jsonl", "tasks/judged",
    "tasks/settle", "tasks", "policy", "snapshot", "reward",
)  # fmt: skip


def attempts(uris: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests an agent may make, sensible and not."""
    base = next((uri.rsplit("/", 1)[0] for uri in uris if "/" in uri), "envhub://marked")
    guessed = [f"{base}/{guess}" for guess in GUESSES]
    for uri in [*uris, *guessed, "file:///etc/passwd", "file:tasks.jsonl", "tasks.jsonl"]:
        yield "resources/read", {"uri": uri}
    for name in ("settle", "judged", "verifier", "oracle", "task", "policy", "start"):
        yield "prompts/get", {"name": name}
        yield "prompts/get", {"name": name, "arguments": {"task": "settle"}}
    for prefix in ("", "s", "MA", "verif"):
        for name in ("task", "id", "verifier"):
            reference = {"type": "ref/prompt", "name": "task"}
            argument = {"name": name, "value": prefix}
            yield "completion/complete", {"ref": reference, "argument": argument}
    for method in (
        "server/discover", "tools/list", "resources/list", "resources/templates/list",
        "prompts/list", "envhub/score", "envhub/changes", "envhub/reset", "envhub/verifier",
    ):  # fmt: skip
        yield method, {}
    yield "envhub/score", {"answer": "x"}
    calls: list[tuple[str, Any]] = [
        ("look", {"id": "o-1"}), ("look", {"id": "nobody"}), ("look", {}), ("look", {"id": 7}),
        ("look", {"id": "' OR 1=1 --"}), ("crash", {}), ("files", {}), ("memory", {}),
        ("rows", {}), ("wait", {"seconds": 60}), ("wait", {"seconds": -1}), ("verify", {}),
        ("settle", {"id": "o-1"}), ("score", {"answer": "x"}), ("reset_environment", {"task": "x"}),
        ("reset_environment", {"task": "judged"}), ("check_func", {}), ("", {}),
    ]  # fmt: skip
    for name, arguments in calls:
        yield "tools/call", {"name": name, "arguments": arguments}


async def read_all(raw: Raw, *, modern: bool) -> list[str]:
    headers = {} if modern else await raw.session()

    async def ask(method: str, params: dict[str, Any]) -> str:
        if modern:
            return (await raw.modern(method, params)).text
        return (await raw.send(request(method, params), headers)).text

    listed = await ask("resources/list", {})
    uris = [uri.split('"')[0] for uri in listed.split('"uri":"')[1:]]
    texts = [listed]
    for method, params in attempts(uris):
        texts.append(await ask(method, params))
    return texts


@pytest.mark.parametrize("modern", [True, False])
async def test_an_agent_reads_no_secret_at_its_episode(
    hub: Hub, client: httpx2.AsyncClient, modern: bool
) -> None:
    for scored in (False, True):
        own = await episode(client, horizon=400)
        if scored:  # what the trainer was told is not for the agent
            reward = await client.post(f"/v1/episodes/{own}/score", json={"answer": "no"})
            assert mark("expected") in reward.text
        raw = Raw(App(hub), f"/episodes/{own}/mcp")
        async with raw.client:
            texts = await read_all(raw, modern=modern)
        clean(*texts)
        called = "".join(texts)
        assert "it fell over" in called, "the tools were called"
        assert '"open"' in called or "open" in called


@pytest.mark.parametrize("modern", [True, False])
async def test_a_person_reads_no_secret_at_the_environment(hub: Hub, modern: bool) -> None:
    raw = Raw(App(hub), "/environments/marked/mcp?seat=somebody")
    async with raw.client:
        texts = await read_all(raw, modern=modern)
    clean(*texts)
    assert "Settle o-1." in "".join(texts), "instructions are for everybody"


async def call(
    client: httpx2.AsyncClient, episode_id: str, tool: str, **arguments: Any
) -> dict[str, Any]:
    """One step by REST."""
    body = {"tool": tool, "arguments": arguments}
    answer = await client.post(f"/v1/episodes/{episode_id}/call", json=body)
    step: dict[str, Any] = answer.json()["step"]
    return step


async def test_the_worker_of_the_tools_holds_no_secret(client: httpx2.AsyncClient) -> None:
    """Not on disk, not in memory, not after the run was scored either."""
    own = await episode(client, horizon=50)
    for _ in range(2):
        for tool in ("files", "memory"):
            assert (await call(client, own, tool)).get("result") == [], tool
        await call(client, own, "settle", id="o-1")
        await client.post(f"/v1/episodes/{own}/score", json={"answer": mark("answer")})


async def test_the_tool_that_searches_memory_does_find(client: httpx2.AsyncClient) -> None:
    own = await episode(client, horizon=50)
    await call(client, own, "keep", text=f"{MARKED}of the test")
    assert f"{MARKED}of the test" in (await call(client, own, "memory"))["result"]
    await call(client, own, "keep", text="nothing")


# --- REST -----------------------------------------------------------------------------------------


async def test_no_route_that_reads_tells_a_secret(client: httpx2.AsyncClient) -> None:
    """All of them, with names that fit and names that do not, before anybody scored."""
    own = await episode(client)
    await call(client, own, "look", id="o-1")
    description = (await client.get("/v1/openapi.json")).json()
    read = 0
    for route, operations in description["paths"].items():
        if "get" not in operations or "text/event-stream" in str(operations["get"]["responses"]):
            continue  # a stream stays open; what it tells is what other routes tell
        for task in ("settle", "judged", "nobody"):
            path = (
                route.replace("{name}", "marked").replace("{task}", task).replace("{id}", own)
                .replace("{mark}", "m1")
            )  # fmt: skip
            for query in ("", "?full=true", "?include=verifier", "?q=MA", "?tag=x", "?after=0"):
                clean((await client.get(path + query)).text)
                read += 1
    assert read > 60
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/",
        "/console",
        "/v1/environments/marked/pack",
    ):
        clean((await client.get(path)).text)


async def test_no_error_tells_a_secret(client: httpx2.AsyncClient) -> None:
    own = await episode(client)
    for path, body in (
        ("/v1/episodes", {"environment": "marked", "task": "settl"}),
        ("/v1/episodes", {"environment": "markt", "task": "settle"}),
        ("/v1/episodes", {"environment": "marked", "task": {"id": "settle"}}),
        (f"/v1/episodes/{own}/call", {"tool": "verify", "arguments": {}}),
        (f"/v1/episodes/{own}/call", {"tool": "look", "arguments": {"id": 1}}),
        (f"/v1/episodes/{own}/call", {"tool": "look", "arguments": []}),
        (f"/v1/episodes/{own}/rewind", {"mark": "verifier"}),
        (f"/v1/episodes/{own}/reset", {"task": "judge"}),
    ):
        answer = await client.post(path, json=body)
        clean(answer.text)

"""Many packs: listed by pages, searched, opened when wanted, kept while held, told if broken."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from environments import environment as environments_module
from environments.catalogue import Catalogue
from environments.environment import open_environments
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.recent import Recent
from hub.app import App, Hub
from hub.cli import main
from hub.settings import Settings
from tests.hub.conftest import Rest
from tests.many_packs import BROKEN, CALL, break_pack, make_pack, make_packs, name_of

pytestmark = pytest.mark.anyio
COUNT = 60


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty packs, and one more for each way of being broken."""
    folder = tmp_path_factory.mktemp("packs")
    make_packs(folder, COUNT)
    for number, how in enumerate(BROKEN):
        break_pack(make_pack(folder, 914 + 15 * number, f"broken-{how}"), how)
    return folder


@pytest.fixture
async def rest(packs: Path, tmp_path: Path) -> AsyncIterator[Rest]:
    settings = Settings(data_dir=tmp_path / "data", packs=(packs,), shipped=False)
    async with Hub.open(settings) as hub:
        transport = httpx2.ASGITransport(App(hub))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            description = (await client.get("/v1/openapi.json")).json()
            yield Rest(client, description)


async def test_the_list_comes_in_pages_and_is_searched(rest: Rest) -> None:
    names: list[str] = []
    query: dict[str, Any] = {"limit": 25}
    while True:
        page = await rest.ask("GET", "/v1/environments", **query)
        assert page["total"] == COUNT + 2, "those that are not known yet to be broken among them"
        assert bool(page["invalid"]) == (not names)
        names += [each["name"] for each in page["environments"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert names == sorted(names)
    assert names[2:] == [name_of(number) for number in range(COUNT)]
    found = await rest.ask("GET", "/v1/environments", q="of HEALTH", tag="payments")
    assert [each["name"] for each in found["environments"]] == [
        name_of(number) for number in range(COUNT) if number % 5 == 2 and number % 3 == 1
    ]
    of_finance = await rest.ask("GET", "/v1/environments", domain="finance", limit=1)
    assert (of_finance["total"], of_finance["next"]) == (COUNT // 5, name_of(3))
    error = await rest.fails("GET", "/v1/environments?limit=0", status=422)
    assert "limit" in error["message"]


async def test_broken_packs_say_so_once_that_is_known(rest: Rest) -> None:
    async def broken() -> dict[str, str]:
        page = await rest.ask("GET", "/v1/environments")
        return {each["path"]: each["message"] for each in page["invalid"]}

    known = await broken()
    assert sorted(known) == ["broken-manifest", "broken-tasks"]
    assert "verifyer" in known["broken-tasks"]
    for name, why in (("broken-schema", "schema.sql"), ("broken-tools", "nothing_of_that_name")):
        wanted = {"environment": name}
        error = await rest.fails("POST", "/v1/episodes", wanted, status=500)
        assert (error["kind"], error["code"]) == ("environment", "PACK_INVALID")
        again = await rest.fails("POST", "/v1/episodes", wanted, status=500)
        assert again["message"] == error["message"]
        assert why in (await broken())[name]
    page = await rest.ask("GET", "/v1/environments")
    assert page["total"] == COUNT
    ready = (await rest.client.get("/readyz")).json()
    assert (ready["environments"], ready["invalid"]) == (COUNT, len(BROKEN))


async def test_opening_again_builds_and_asks_nothing(packs: Path, tmp_path: Path) -> None:
    for starts in (2, 0):  # one worker builds it, another describes it
        async with open_environments((packs,), data_dir=tmp_path) as environments:
            opened = await environments.get(name_of(7))
            assert "find_books" in opened.tools
            assert environments.sandbox.statistics().starts == starts
            episode = await Episode.start(opened)
            step = await episode.call(CALL["tool"], CALL["arguments"])
            assert "of 7" in json.dumps(step.result)
            assert [path.name for path in (tmp_path / "snapshots" / "descriptions").iterdir()] == [
                f"{opened.digest}.json"
            ]


async def test_only_what_is_played_or_recent_stays_open(
    packs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments_module, "KEPT", 2)
    async with open_environments((packs,), data_dir=tmp_path) as environments:
        played = await Episode.start(await environments.get(name_of(0)))
        faulty = await Episode.start((await environments.get(name_of(1))).under("flaky"))
        resting = id(await environments.get(name_of(2)))
        for number in range(3, 6):
            await environments.get(name_of(number))
        assert await environments.get(name_of(0)) is played.environment
        assert await environments.get(name_of(1)) is faulty.environment.origin
        gc.collect()
        there = {id(each) for each in gc.get_objects() if type(each) is type(played.environment)}
        assert resting not in there


def test_what_is_held_is_there_and_of_the_rest_the_last_few() -> None:
    class Thing:
        pass

    recent: Recent[Thing] = Recent(2)
    held = Thing()
    recent.put("held", held)
    for name in "abc":
        recent.put(name, Thing())
    assert recent.get("held") is held
    assert [recent.get(name) is not None for name in "abc"] == [False, False, True]


async def test_a_digest_is_that_of_the_files_that_are_played(tmp_path: Path) -> None:
    path = make_pack(tmp_path, 1)
    catalogue = Catalogue((tmp_path,))
    (listed,) = catalogue.listed()
    pack = catalogue.get(name_of(1))
    assert listed.digest == pack.digest
    (path / "policy.md").write_text("changed")
    with pytest.raises(PackInvalid, match="have changed since it was read"):
        pack.recipe()
    assert catalogue.get(name_of(1)) is pack, "as long as somebody holds it, it is what it was"
    del pack
    assert Catalogue((tmp_path,)).get(name_of(1)).digest != listed.digest
    other = Catalogue((tmp_path,))
    other.listed()
    (path / "policy.md").write_text("changed again")
    with pytest.raises(PackInvalid, match="have changed since it was read"):
        other.get(name_of(1))
    assert list(other.invalid) == [path]


def test_the_command_shows_some_and_says_how_to_find_others(
    packs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ENVHUB_SHIPPED", "false")
    monkeypatch.setenv("ENVHUB_PACKS", str(packs))
    monkeypatch.setenv("COLUMNS", "120")

    def said(*options: str) -> tuple[list[str], str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["list", *options])
        assert ended.value.code == 1, "two packs are broken"
        out, err = capsys.readouterr()
        return out.splitlines(), err

    lines, err = said()
    assert len(lines) == 1 + 50
    assert "50 of 62\n--search, --domain and --tag find fewer, --limit shows more" in err
    assert "verifyer" in err
    lines, err = said("--domain", "retail", "--tag", "payments", "--search", "library", "--long")
    assert [line.split()[0] for line in lines[1:]] == [name_of(n) for n in (10, 25, 40, 55)]
    assert "4 of 4 that fit, of 62" in err
    assert len(said("--limit", "60")[0]) == 1 + 60
    assert "nothing fits" in said("--search", "zebra")[1]
    lines, _ = said("--json", "--domain", "health")
    assert len(json.loads(lines[0])) == COUNT // 5

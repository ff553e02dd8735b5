"""EnvScaler's classes become packs whose state is their attributes."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from environments.catalogue import load_pack
from environments.check import check_pack
from environments.documents import read_binding
from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.importers.envscaler import sources
from environments.importers.source import ImportRefused, Written
from environments.importers.trial import trying_out
from tests.envscaler_files import CODE, write_envscaler

CLINIC = "env-1-rl"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_envscaler(tmp_path_factory.mktemp("envscaler"))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs") / CLINIC
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def told(files: Path, pack: Path) -> Written:
    return next(source for source in sources(files) if source.name == CLINIC).write(pack)


@pytest.fixture(scope="module")
async def environments(
    anyio_backend: object, pack: Path, told: Written
) -> AsyncIterator[Environments]:
    async with open_environments([pack]) as opened:
        yield opened


@pytest.fixture
async def clinic(environments: Environments) -> Environment:
    return await environments.get(CLINIC)


def test_the_class_is_copied_and_what_is_weak_is_told(pack: Path, told: Written) -> None:
    assert (pack / "tools.py").read_text() == CODE
    assert told.weaknesses[0] == "tool 'cancel' is left out: Clinic has no such method"
    assert told.weaknesses[1].startswith("task t-4 is left out: ValueError: invalid literal")
    assert told.weaknesses[2] == "1 tasks have no check: a judge decides"
    read_only = {bound.name: bound.read_only for bound in read_binding(pack).tools}
    assert read_only == {
        "get_patient": True,
        "free_rooms": True,
        "book": False,
        "close_day": False,
        "open_room": False,
        "admit": False,
        "last": True,
    }
    loaded = load_pack(pack)
    assert (loaded.spec.runtime, loaded.spec.licence) == ("state", "MIT License")
    assert loaded.policy.endswith("- Nobody is booked on a closed day.\n")


def test_what_cannot_run_here_is_refused(files: Path, tmp_path: Path) -> None:
    reasons = {}
    with trying_out():
        for source in sources(files):
            if source.name != CLINIC:
                with pytest.raises(ImportRefused) as raised:
                    source.write(tmp_path)
                reasons[source.name] = raised.value.message
    assert reasons["env-2-rl"] == "Clinic:1: invalid syntax"
    assert reasons["env-3-rl"] == "its code has no class 'Hospital'"
    assert reasons["env-4-rl"].endswith("a lock has no place in a document")
    with pytest.raises(ImportRefused, match="no environments of EnvScaler"):
        list(sources(tmp_path))


@pytest.mark.anyio
async def test_the_state_is_what_the_attributes_are(clinic: Environment) -> None:
    episode = await Episode.start(clinic)
    free = await episode.call("free_rooms", {})
    assert free.result == {"success": True, "data": [[2, "Blue"], [3, "Red"]]}
    assert not free.changes
    booked = await episode.call("book", {"patient_id": "p-1", "day": "Mon", "room": 2})
    assert booked.result == {"success": True, "id": "a-1", "today": 1}
    changes = booked.changes[0].changes
    assert changes["patients"]["changed"][0]["after"] == {"visits": 3}
    closed = await episode.call("close_day", {"day": "Tue"})
    assert closed.changes[0].changes["_document"]["changed"][0]["after"] == {
        "value": '{"$set":["Sun","Tue"]}'
    }
    half = await episode.call("open_room", {"number": 9, "name": "Green"})
    assert half.error is not None
    assert (half.error.code, half.error.message) == ("TYPE_ERROR", "half done")
    assert [row["_key"] for row in half.changes[0].changes["rooms"]["added"]] == [9, "9"]
    other = await Episode.start(clinic)
    again = await other.call("book", {"patient_id": "p-1", "day": "Mon", "room": 2})
    assert again.result["today"] == 1  # a global of the module is this episode's own


@pytest.mark.anyio
async def test_what_is_one_object_in_two_places_stays_one(clinic: Environment) -> None:
    episode = await Episode.start(clinic)
    await episode.call("admit", {"patient_id": "p-9", "name": "Cy"})
    last = (await episode.call("last", {})).result
    assert last["data"] == {"name": "Cy", "visits": 0}
    assert (last["name"], last["served"]) == ("Cy", 1)
    other = await Episode.start(clinic)
    nobody = await other.call("last", {})  # a global that only a call makes
    assert nobody.error is not None
    await other.call("admit", {"patient_id": "p-8", "name": "Di"})
    assert (await other.call("last", {})).result["served"] == 1
    fork = await episode.fork()
    await episode.call("book", {"patient_id": "p-9", "day": "Sun", "room": 2})  # refused: logged
    await fork.call("book", {"patient_id": "p-9", "day": "Mon", "room": 2})
    seen = [await each.call("get_patient", {"patient_id": "p-9"}) for each in (episode, fork)]
    assert [step.result["data"]["visits"] for step in seen] == [0, 1]
    logged = fork.changes().to_json()["log"]["added"]
    assert [json.loads(row["value"]) for row in logged] == [
        {"name": "Cy", "visits": 1},
        ["p-9", "Mon"],
    ]


@pytest.mark.anyio
async def test_tasks_begin_with_their_document_and_are_judged_by_their_checklist(
    clinic: Environment,
) -> None:
    assert list(clinic.pack.tasks) == ["t-1", "t-2", "t-3"]
    episode = await Episode.start(clinic, task="t-1")
    assert (await episode.score()).value == 0.0
    await episode.call("book", {"patient_id": "p-1", "day": "Mon", "room": 2})
    assert (await episode.score()).value == 1.0
    other = await Episode.start(clinic, task="t-2")
    assert (await other.call("free_rooms", {})).result["data"] == []
    await other.call("book", {"patient_id": "p-1", "day": "Sun", "room": 1})
    assert (await other.score()).value == 0.5  # a check that raises has not passed


@pytest.mark.anyio
async def test_the_pack_passes_its_check(pack: Path, told: Written) -> None:
    report = await check_pack(pack)
    assert [finding.name for finding in report.failures] == []


@pytest.mark.anyio
async def test_the_mcp_client_plays_it(pack: Path, told: Written) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "hub.cli", "stdio", CLINIC, "--packs", str(pack.parent)],
    )
    async with Client(server) as client:
        found = await client.call_tool("get_patient", {"patient_id": "p-1"})
        assert json.loads(found.content[0].text)["data"]["name"] == "Åsa"

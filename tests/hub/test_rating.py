"""``envhub rate`` on the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from environments.catalogue import SHIPPED, load_pack, pack_digest
from environments.evaluation.rating import band_of
from hub.cli import main
from tests.environments.model_server import ModelServer, Reply, answering
from tests.environments.playing_server import PlayingServer, knowing, playing, say

SHOP = Path(__file__).parents[1] / "packs" / "shop"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return shutil.copytree(SHOP, tmp_path / "packs" / "shop")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what was said on both streams."""
    capsys.readouterr()
    code: Any = 0
    try:
        main(("rate", *arguments))
    except SystemExit as ended:
        code = ended.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_model_is_rated_by_how_often_it_passes(
    capsys: pytest.CaptureFixture[str], shop: Path
) -> None:
    """It knows one task, and another every fourth time it is asked."""
    tasks = load_pack(shop).tasks
    solves = knowing(list(tasks.values()))
    begun: list[str] = []

    def mind(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        text = next(m["content"] for m in messages if m["role"] == "user")
        if not any(m["role"] == "tool" for m in messages):
            begun.append(text)
        knows = text == tasks["buy-tea"].instruction or (
            text == tasks["last-cup"].instruction and begun.count(text) % 4 == 1
        )
        return solves(messages) if knows else say("I do not know.")

    server = PlayingServer(mind)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(playing(server)) as address,
    ):
        asked = ("--policy", "greedy", "--model", "solomon", "--base-url", address)
        code, out, err = run(capsys, str(shop), *asked, "-k", "4", "--concurrency", "1", "--json")
    assert code == 0, err
    rated = {one["task"]: one for one in json.loads(out)["tasks"]}
    assert [rated[task]["passed"] for task in ("buy-tea", "last-cup", "wait-for-tea")] == [4, 1, 0]
    assert rated["last-cup"]["pass_at"] == {"1": 0.25, "2": 0.5, "4": 1.0}
    assert [one["band"] for one in rated.values()] == ["easy", "hard", "expert"]
    assert {body["temperature"] for body in server.asked} == {0.0}
    written = json.loads((shop.parent / "shop.ratings.json").read_text())
    assert written == json.loads(out)
    assert written["digest"] == pack_digest(shop), "the pack is as it was"


def test_bands_go_into_the_tasks_only_when_asked_and_the_digest_is_told(
    capsys: pytest.CaptureFixture[str], shop: Path, tmp_path: Path
) -> None:
    before = load_pack(shop)
    out = tmp_path / "elsewhere.json"
    code, table, err = run(
        capsys, str(shop), "--policy", "oracle", "--k", "2", "--out", str(out), "--write"
    )
    assert code == 0, err
    assert "pass@2" in table
    after = load_pack(shop)
    assert {task.difficulty for task in after.tasks.values()} == {"easy"}
    assert [task.oracle for task in after.tasks.values()] == [
        task.oracle for task in before.tasks.values()
    ]
    assert before.digest in err
    assert after.digest in err
    assert json.loads(out.read_text())["digest"] == before.digest


def test_a_folder_is_rated_also_where_a_shipped_pack_has_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "supplier"
    shutil.copytree(SHIPPED / "supplier", folder, ignore=shutil.ignore_patterns("__pycache__"))
    first = (folder / "tasks.jsonl").read_text().splitlines(keepends=True)[0]
    (folder / "tasks.jsonl").write_text(first)
    code, _, err = run(capsys, str(folder), "--policy", "oracle", "-k", "1")
    assert code == 0, err
    written = json.loads((tmp_path / "supplier.ratings.json").read_text())
    assert [one["task"] for one in written["tasks"]] == [json.loads(first)["id"]]


def test_runs_that_could_not_be_made_are_no_rating(
    capsys: pytest.CaptureFixture[str], shop: Path
) -> None:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(answering(ModelServer(Reply(status=401)))) as endpoint,
    ):
        asked = ("--model", "solomon", "--base-url", endpoint.base_url, "--write")
        before = pack_digest(shop)
        code, out, err = run(capsys, str(shop), *asked, "-k", "2")
    assert (code, out) == (1, "")
    assert "refuses: 401" in err
    assert "runs could not be made; nothing is written" in err
    assert pack_digest(shop) == before
    assert not (shop.parent / "shop.ratings.json").exists()


def test_bands() -> None:
    assert [band_of(share) for share in (1.0, 0.75, 0.74, 0.4, 0.1, 0.09, 0.0)] == [
        "easy", "easy", "medium", "medium", "hard", "expert", "expert",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [([], 2, "--base-url"), (["--policy", "orcale"], 1, "patient-oracle")],
)
def test_options_that_make_no_sense_are_told(
    capsys: pytest.CaptureFixture[str], shop: Path, options: list[str], code: int, said: str
) -> None:
    found, _, err = run(capsys, str(shop), *options)
    assert (found, said in err) == (code, True), err
    assert not (shop.parent / "shop.ratings.json").exists()

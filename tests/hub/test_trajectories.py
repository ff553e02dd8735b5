"""Trajectories over REST, and ``envhub verify`` on what REST gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from environments.trajectory import TRAJECTORY_FORMAT
from hub.cli import main
from tests.environments.model_server import ModelServer, answering
from tests.hub.conftest import Rest

PACKS = Path(__file__).parents[1] / "packs"
SHOP = str(PACKS / "shop")
BUY = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")


class Said:
    """What the command said, and the code it ended with."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        self.code = ended.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.err


@pytest.fixture
async def runs(rest: Rest, tmp_path: Path) -> Path:
    """A file of two runs of the same task: one done, one left."""
    lines = []
    for buys in (True, False):
        wanted = {"environment": "shop", "task": "buy-tea", "seed": 3}
        made = await rest.ask("POST", "/v1/episodes", wanted, expect=201)
        path = f"/v1/episodes/{made['id']}"
        if buys:
            await rest.ask("POST", f"{path}/call", BUY)
        await rest.ask("POST", f"{path}/score", {"answer": "That is all."})
        await rest.ask("DELETE", path)
        lines.append(json.dumps(await rest.ask("GET", f"{path}/trajectory")))
    file = tmp_path / "runs.jsonl"
    await anyio.Path(file).write_text("\n".join(lines), encoding="utf-8")
    return file


def changed(file: Path, change: Any) -> str:
    """A copy of the file whose first run was tampered with."""
    first, *rest = file.read_text().splitlines()
    run = json.loads(first)
    change(run)
    copy = file.with_name("changed.jsonl")
    copy.write_text("\n".join([json.dumps(run), *rest]))
    return str(copy)


@pytest.mark.anyio
async def test_a_trajectory_over_rest(runs: Path) -> None:
    done, left = map(json.loads, (await anyio.Path(runs).read_text()).splitlines())
    assert done["format"] == TRAJECTORY_FORMAT
    assert (done["task"], done["seed"], done["answer"]) == ("buy-tea", 3, "That is all.")
    assert (done["reward"]["value"], left["reward"]["value"]) == (1.0, 0.0)
    assert done["stop_reason"] == "answered"
    assert [step["tool"] for step in done["steps"]] == ["order"]
    assert "verifier" not in done


def test_verify_confirms_what_was_recorded(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    said = Said(capsys, "verify", str(runs), "--packs", SHOP)
    assert said.code == 0, said.out + said.err
    assert "2 of 2 runs are confirmed" in said.out
    listed = json.loads(Said(capsys, "verify", str(runs), "--packs", SHOP, "--json").out)
    assert [run["status"] for run in listed] == ["identical", "identical"]
    assert [run["again"]["value"] for run in listed] == [1.0, 0.0]


def test_verify_names_the_step_that_differs(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    def cheaper(run: dict[str, Any]) -> None:
        run["steps"][0]["result"]["price_cents"] = 1

    said = Said(capsys, "verify", changed(runs, cheaper), "--packs", SHOP)
    assert said.code == 1
    assert "step 0: result.price_cents: 1 and 900" in said.out
    assert "1 of 2 runs are confirmed" in said.out

    def richer(run: dict[str, Any]) -> None:
        run["reward"]["value"] = 5.0

    said = Said(capsys, "verify", changed(runs, richer), "--packs", SHOP, "--json")
    assert said.code == 1
    assert json.loads(said.out)[0]["difference"] == "reward.value: 5.0 and 1.0"


def test_strategies_are_compared(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    opinion = json.dumps({"reason": "All is well.", "verdict": "complete", "confidence": 0.9})
    ways = ("--strategy", "code", "--strategy", "judge", "--strategy", "code+judge")

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(answering(ModelServer(opinion))) as endpoint,
    ):
        judge = ("--judge-url", endpoint.base_url, "--judge-model", endpoint.model)
        arguments = ("verify", str(runs), "--packs", SHOP, *ways, *judge)
        shown, told = Said(capsys, *arguments), Said(capsys, *arguments, "--json")
    assert shown.code == 0, shown.out + shown.err
    assert "code and judge agree on 1 of 2" in shown.out
    assert "judge: complete: All is well." in shown.out
    found = json.loads(told.out)
    assert [cost["scored"] for cost in found["costs"]] == [2, 2, 2]
    assert found["costs"][1]["cached"] == 2, "verdicts are kept in the data directory"


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("nowhere.jsonl",), 1, "cannot read nowhere.jsonl"),
        ((__file__,), 1, "line 1 is no trajectory"),
        (("nowhere.jsonl", "--strategy", "guess"), 2, "there are: code, judge, code+judge"),
    ],
)
def test_mistakes_are_told_in_words(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, word: str
) -> None:
    said = Said(capsys, "verify", *arguments)
    assert said.code == code
    assert word in said.err


def test_a_judge_must_be_named(
    capsys: pytest.CaptureFixture[str], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said(capsys, "verify", str(runs), "--packs", SHOP, "--strategy", "judge")
    assert (said.code, "ENVHUB_JUDGE_URL" in said.err) == (2, True)
    monkeypatch.setenv("ENVHUB_JUDGE_URL", "http://127.0.0.1:9/v1")
    said = Said(capsys, "verify", str(runs), "--packs", SHOP, "--strategy", "judge")
    assert (said.code, "ENVHUB_JUDGE_MODEL" in said.err) == (2, True)

"""``envhub replay``, ``export`` and ``schedule``, and trajectories as Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

from environments import parquet
from environments.chat import model_calls
from environments.record import read_lines, write_lines
from environments.trajectory import Trajectory, Window
from hub.client import Hub, asks
from tests.hub.served import PACKS, Served, served
from tests.hub.test_cli import Said

SHOP = str(PACKS / "shop")
BUY = {"sku": "TEA-100", "quantity": 2}


@pytest.fixture(autouse=True)
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("recorded") / "data") as hub:
        with Hub(hub.address) as client:
            for task in ("buy-tea", "wait-for-tea"):
                window = Window(turns=1)
                with client.group("shop", task, size=2, seed=3, window=window) as group:
                    for number, episode in enumerate(group):
                        episode.call("wait", {"seconds": 14_400})
                        episode.call("order", BUY)
                        episode.call("order", {"sku": "TEA-999", "quantity": number + 1})
                        episode.score("all done")
        yield hub


@pytest.fixture
def runs(running: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    out = tmp_path / "runs.jsonl"
    said = Said(capsys, "export", str(out), "--url", running.address)
    assert (said.code, said.out) == (0, f"4 runs written to {out}\n")
    return out


# --- replay ------------------------------------------------------------------------------------


def test_a_run_is_shown_step_by_step_with_its_rows(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Said(capsys, "replay", str(runs), "--packs", SHOP)
    assert said.code == 0, said.err
    for text in (
        "Please order two packs",
        "1/3  wait(seconds=14400)",
        "changed by environment (delivery)",
        '~ sku="TEA-250"   stock: 0 -> 20',
        '2/3  order(sku="TEA-100", quantity=2)',
        "changed by agent",
        '~ sku="TEA-100"   stock: 12 -> 10',
        "NO_SUCH_PRODUCT",
        "answered: all done",
        "reward 1 (complete)",
    ):
        assert text in said.out
    run = list(read_lines(runs))[2]
    chosen = Said(capsys, "replay", str(runs), "--packs", SHOP, "--run", run.id[:12])
    assert "once the delivery is in" in chosen.out
    assert "reward 0 (none)" in chosen.out


def test_a_step_that_is_not_as_recorded_is_pointed_out(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = next(iter(read_lines(runs)))
    steps = list(run.steps)
    steps[1] = msgspec.structs.replace(steps[1], result={"order_id": "forged"})
    forged = tmp_path / "forged.jsonl"
    write_lines(forged, [msgspec.structs.replace(run, steps=tuple(steps))])
    said = Said(capsys, "replay", str(forged), "--packs", SHOP)
    assert said.code == 1
    assert "not as recorded: result.order_id: 'forged' and" in said.out
    assert said.out.count("not as recorded") == 1


def test_what_cannot_be_replayed_is_said(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Said(capsys, "replay", str(runs), "--run", "ep-none")
    assert (said.code, "has no run ep-none" in said.err) == (1, True)
    said = Said(capsys, "replay", str(tmp_path / "none.jsonl"))
    assert (said.code, "cannot read" in said.err) == (1, True)
    run = msgspec.structs.replace(next(iter(read_lines(runs))), digest="0" * 64)
    write_lines(runs, [run])
    said = Said(capsys, "replay", str(runs), "--packs", SHOP)
    assert (said.code, "put the pack back" in said.err) == (1, True)


# --- export ------------------------------------------------------------------------------------


def test_lines_and_parquet_say_the_same(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.parquet"
    assert Said(capsys, "export", str(out), "--from", str(runs)).code == 0
    table: list[dict[str, Any]] = pyarrow.parquet.read_table(out).to_pylist()
    whole = list(read_lines(runs))
    assert len(table) == len(whole) == 4
    for row, run in zip(table, whole, strict=True):
        plain = json.loads(msgspec.json.encode(run))
        for name in parquet.PLAIN:
            assert row[name] == plain[name], name
        for name in parquet.NESTED:
            assert json.loads(row[name]) == plain[name], name
        assert json.loads(row["verdict"]) == plain["reward"]
        assert (row["reward"], row["step_count"]) == (run.reward and run.reward.value, 3)
    named = {*parquet.PLAIN, *parquet.NESTED, "reward"}
    assert named == set(Trajectory.__struct_fields__), "every field has a column"


def test_a_row_for_each_call_of_the_model(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, columns = tmp_path / "calls.jsonl", tmp_path / "calls.parquet"
    for out in (lines, columns):
        said = Said(capsys, "export", str(out), "--from", str(runs), "--calls")
        assert said.out == f"16 calls written to {out}\n"
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    table = pyarrow.parquet.read_table(columns).to_pylist()
    expected = [
        (run.id, prompt, completion)
        for run in read_lines(runs)
        for prompt, completion, _ in model_calls(run)
    ]
    assert [(row["id"], row["prompt"], row["completion"]) for row in rows] == expected
    assert [json.loads(row["prompt"]) for row in table] == [row["prompt"] for row in rows]
    assert {len(row["prompt"]) for row in rows} == {2, 4}, "a window of one turn"


def test_export_of_one_group(
    running: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    group = next(iter(read_lines(runs))).group
    out = tmp_path / "group.jsonl"
    said = Said(capsys, "export", str(out), "--url", running.address, "--group", str(group))
    assert said.code == 0
    assert {run.group for run in read_lines(out)} == {group}


def test_export_says_what_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = Said(capsys, "export", "out.jsonl")
    assert (said.code, "where from?" in said.err) == (2, True)
    said = Said(capsys, "export", "out.csv", "--from", str(tmp_path / "runs.jsonl"))
    assert (said.code, "neither .jsonl nor .parquet" in said.err) == (2, True)


# --- schedules ---------------------------------------------------------------------------------


def test_schedules_are_set_advanced_and_listed(
    running: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--url", running.address)
    said = Said(capsys, "schedule", "scaling", "--phase", "0:5", "--phase", "100:9", *at)
    assert re.search(r"^scaling +0:5, 100:9 +0 +5$", said.out, re.MULTILINE)
    said = Said(capsys, "schedule", "scaling", "--advance", "120", *at)
    assert re.search(r"^scaling +0:5, 100:9 +120 +9$", said.out, re.MULTILINE)
    settings = {"type": "scaling_inter_stepwise", "rounds": [6, 13], "steps_scaling_inter": 100}
    said = Said(capsys, "schedule", "babyai", "--rounds-ctrl", json.dumps(settings), *at)
    assert "0:6, 101:13" in said.out
    assert Said(capsys, "schedule", "same", "--fixed", "7", *at).code == 0
    listed = Said(capsys, "schedule", *at).out
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["babyai", "same", "scaling"]
    with Hub(running.address) as hub:
        assert hub.ask(asks.show_schedule("scaling")).horizon == 9


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--phase", "ten"), 2, "'ten' is no phase"),
        (("--phase", "0:9", "--phase", "5:3"), 2, "shrinks from 9 to 3"),
        (("--fixed", "3", "--phase", "0:9"), 2, "phases, or fixed, or rounds_ctrl"),
        (("--rounds-ctrl", "{"), 2, "Expecting"),
        (("--rounds-ctrl", '{"type": "odd"}'), 2, "type is 'odd'"),
        ((), 1, "there is no schedule 'odd'"),
    ],
)
def test_a_schedule_that_makes_no_sense(
    running: Served,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    said = Said(capsys, "schedule", "odd", *options, "--url", running.address)
    assert said.code == code
    assert message in " ".join(said.err.split())


def test_a_hub_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "schedule", "--url", "http://127.0.0.1:9")
    assert (said.code, "envhub serve" in said.err) == (1, True)

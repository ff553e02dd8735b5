"""Our packs as Agent World Model's files: imported again they are the same environments, and what
is in the files runs without envhub."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from environments.environment import Environment, Environments, open_environments
from environments.episode import Episode
from environments.exporters.awm import export, write
from environments.exporters.awm.tables import tables_of
from environments.importers.awm import sources
from environments.importers.awm.database import scripts_of
from environments.oracle import resolve_oracle
from environments.spec import OracleCall
from environments.trajectory import Step
from hub.cli import main
from snapshots import Snapshot

NAME = "inventory"


async def played(environment: Environment, task: str, calls: Sequence[OracleCall]) -> Episode:
    episode = await Episode.start(environment, task=task, horizon=100)
    results: list[Any] = []
    for call in calls:
        step = await episode.call(call.tool, resolve_oracle(call, results))
        results.append(step.result)
    return episode


def told(steps: Sequence[Step]) -> list[Any]:
    return [step.result if step.error is None else step.error.code for step in steps]


@pytest.mark.anyio
async def test_imported_again_it_is_the_same_environment(
    shipped: Environments, tmp_path: Path
) -> None:
    lines, (exported,) = await export(shipped, [NAME])
    write(lines, tmp_path)
    assert exported.left_out == ()
    (source,) = sources(tmp_path)
    (tmp_path / "packs" / NAME).mkdir(parents=True)
    written = source.write(tmp_path / "packs" / NAME)
    assert written.repairs == written.weaknesses == ()
    ours = await shipped.get(NAME)
    async with open_environments([tmp_path / "packs"]) as environments:
        theirs = await environments.get(NAME)
        assert {n: t.read_only for n, t in theirs.tools.items()} == {
            n: t.read_only for n, t in ours.tools.items()
        }
        for number, task in enumerate(ours.pack.tasks.values()):
            idle = await played(theirs, f"task-{number}", ())
            here = await played(ours, task.id, task.oracle)
            there = await played(theirs, f"task-{number}", task.oracle)
            changes = there.changes().to_json()
            changes.pop("envhub_counters", None)
            assert changes == here.changes().to_json()
            assert told(there.steps) == told(here.steps)
            assert (await idle.score(task.answer)).value == 0.0 or not task.oracle
            assert (await there.score(task.answer)).value == 1.0


@pytest.mark.anyio
async def test_what_is_in_the_files_runs_without_envhub(
    shipped: Environments, tmp_path: Path
) -> None:
    lines, _ = await export(shipped, [NAME])
    ours = await shipped.get(NAME)
    task = next(iter(ours.pack.tasks.values()))
    here = await played(ours, task.id, task.oracle)
    requests = []
    for step in here.steps:
        reading = ours.tools[step.tool].read_only
        requests.append(
            {
                "method": "GET" if reading else "POST",
                "path": f"/tools/{step.tool}",
                "query": step.arguments if reading else {},
                "body": None if reading else step.arguments,
            }
        )
    assert "environments" not in lines["envs"][0]["full_code"]
    job = {
        "folder": str(tmp_path),
        "code": lines["envs"][0]["full_code"],
        "tables": lines["db"][0]["db_schema"]["tables"],
        "samples": lines["sample"][0]["sample_data"]["tables"],
        "requests": requests,
        "verifiers": [lines["pure_code"][0]["verification"]["code"]],
        "pairs": {},
    }
    done = await anyio.run_process(
        [sys.executable, "-m", "tests.imports.awm_original"],
        input=json.dumps(job).encode(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answers = json.loads(done.stdout)
    assert [answer["body"] for answer in answers["answers"]] == told(here.steps)
    assert answers["verdicts"] == {"own": ["complete"], "idle": ["others"]}


def test_triggers_do_not_act_on_rows_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    schema = """
        CREATE TABLE sums (id INTEGER PRIMARY KEY, total INTEGER NOT NULL);
        CREATE TABLE people (id TEXT PRIMARY KEY NOT NULL, boss TEXT REFERENCES people, note BLOB);
        CREATE TABLE entries (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL);
        CREATE TRIGGER add_up AFTER INSERT ON entries BEGIN
            UPDATE sums SET total = total + new.amount; END;
        INSERT INTO sums VALUES (1, 0); INSERT INTO entries (amount) VALUES (2), (3);
        INSERT INTO people VALUES ('a', 'b', x'00ff'), ('b', NULL, 'it''s; so');
    """
    connection = apsw.Connection(str(path))
    connection.execute(schema)
    connection.close()
    scripts = scripts_of(*tables_of(Snapshot(path, "")), 0)
    assert scripts.repairs == ()
    again = apsw.Connection(":memory:")
    again.execute(scripts.schema + scripts.data)
    for table in ("sums", "entries", "people"):
        read = f"SELECT * FROM {table} ORDER BY id"
        assert again.execute(read).get == apsw.Connection(str(path)).execute(read).get
    again.execute("INSERT INTO entries (amount) VALUES (1)")
    assert again.execute("SELECT total FROM sums").get == 6


def test_the_command_says_what_it_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", "awm", "supplier", "--into", str(tmp_path / "out")])
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "left out: its events" in said
    assert (tmp_path / "out" / "gen_envs.jsonl").is_file()
    with pytest.raises(SystemExit) as ended:
        main(["export", "awm", "purchasing", "--into", str(tmp_path / "out")])
    assert ended.value.code == 1
    assert "mounts" in capsys.readouterr().err

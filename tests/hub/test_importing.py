"""``envhub import``: whole packs or none, one bad one alone, going on where it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from environments.catalogue import Catalogue
from environments.importers import IMPORTERS
from environments.importers.processes import Lost, spread
from hub.cli import main
from tests.hub.slow_bench import bench

IMPORTER = "tests.hub.plain_importer"


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IMPORTERS, "plain", IMPORTER)
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "from").mkdir()


class Run:
    """One run of the command on ``from``: its exit code, what it said, what it reported."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, *options: str, kind: str = "plain"
    ) -> None:
        capsys.readouterr()
        into = tmp_path / "into"
        with pytest.raises(SystemExit) as ended:
            main(["import", kind, str(tmp_path / "from"), "--into", str(into), *options])
        self.code = ended.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.err
        self.lines = reported(into / "import-report.jsonl")
        self.into = into

    @property
    def packs(self) -> Catalogue:
        return Catalogue((self.into,))


def reported(file: Path) -> dict[str, Any]:
    lines = map(json.loads, file.read_text().splitlines()) if file.is_file() else ()
    return {line["name"]: line for line in lines}


def put(tmp_path: Path, name: str, **said: object) -> None:
    (tmp_path / "from" / f"{name}.json").write_text(json.dumps(said))


def test_packs_are_made_checked_and_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put(tmp_path, "good", repairs=["a key is NOT NULL"], weaknesses=["a tool fails"])
    put(tmp_path, "bad", refuses="it has no tools")
    run = Run(capsys, tmp_path)
    assert run.code == 3
    assert run.packs.names() == ["good"]
    good, bad = run.lines["good"], run.lines["bad"]
    assert (good["outcome"], good["check"]) == ("imported with repairs", "passes")
    assert (good["repairs"], good["weaknesses"]) == (["a key is NOT NULL"], ["a tool fails"])
    assert good["digest"] == run.packs.get("good").digest
    assert (bad["outcome"], bad["reason"], bad["hint"]) == (
        "refused", "it has no tools", "write it anew",
    )  # fmt: skip
    assert "it has no tools" in run.out
    page = (tmp_path / "into" / "import-report.md").read_text()
    assert "- repaired: a key is NOT NULL" in page
    assert "- refused: it has no tools (write it anew)" in page
    again = Run(capsys, tmp_path)
    assert (again.lines["good"]["unchanged"], again.lines["good"]["check"]) == (True, "passes")
    assert again.lines["good"]["repairs"] == ["a key is NOT NULL"], "told from the pack"


def test_what_is_the_same_is_left_and_what_was_edited_is_not_lost(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("same", "moved_on", "edited"):
        put(tmp_path, name, policy="one")
    assert Run(capsys, tmp_path, "--no-check").code == 0
    into = tmp_path / "into"
    before = (into / "same" / "policy.md").stat()
    (into / "edited" / "policy.md").write_text("by hand")
    (into / "mine").mkdir()
    for name in ("moved_on", "edited", "mine"):
        put(tmp_path, name, policy="two")
    run = Run(capsys, tmp_path, "--no-check")
    assert run.code == 3
    assert run.lines["same"]["unchanged"]
    assert (into / "same" / "policy.md").stat() == before
    assert (into / "moved_on" / "policy.md").read_text() == "two"
    assert (into / "edited" / "policy.md").read_text() == "by hand"
    assert "was edited" in run.lines["edited"]["reason"]
    assert "was not imported" in run.lines["mine"]["reason"]
    assert run.lines["same"]["check"] == ""


def test_one_bad_environment_never_stops_the_rest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put(tmp_path, "Capital")
    put(tmp_path, "dies", dies=True)
    put(tmp_path, "good")
    put(tmp_path, "other", called="another")
    put(tmp_path, "twice.1")
    put(tmp_path, "twice.2")
    (tmp_path / "from" / "unreadable.json").write_text("{")
    run = Run(capsys, tmp_path, "--no-check", "--jobs", "2")
    assert run.code == 3
    assert run.packs.names() == ["good", "twice"]
    reasons = {name: line["reason"] for name, line in run.lines.items() if line["reason"]}
    assert "no name for a pack" in reasons["Capital"]
    assert "ended with code 9" in reasons["dies"]
    assert "is called another" in reasons["other"]
    assert "DecodeError" in reasons["unreadable"]
    assert {name: run.lines[name]["outcome"] for name in reasons if name != "twice"} == {
        "Capital": "refused", "dies": "lost", "other": "refused", "unreadable": "lost",
    }  # fmt: skip
    twice = [line for line in _lines(tmp_path) if line["name"] == "twice"]
    assert sorted(line["outcome"] for line in twice) == ["imported", "refused"]
    left = sorted(path.name for path in (tmp_path / "into").iterdir())
    assert left == [".import", "good", "import-report.jsonl", "import-report.md", "twice"]
    assert [path.name for path in (tmp_path / "into" / ".import").iterdir()] == ["lock"]


def _lines(tmp_path: Path) -> list[Any]:
    file = tmp_path / "into" / "import-report.jsonl"
    return list(map(json.loads, file.read_text().splitlines()))


def test_a_part_is_imported_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        put(tmp_path, name)
    report = tmp_path / "elsewhere.jsonl"
    options = ("--only", "one", "--only", "three", "--no-check", "--report", str(report))
    run = Run(capsys, tmp_path, *options)
    assert (run.code, run.packs.names()) == (0, ["one", "three"])
    assert sorted(reported(report)) == ["one", "three"]
    run = Run(capsys, tmp_path, "--only", "four", "--no-check")
    assert (run.code, "no environment 'four'" in run.err) == (1, True)


def test_what_makes_no_sense_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = Run(capsys, tmp_path / "nowhere")
    assert (run.code, "no folder of JSON files" in run.err) == (1, True)
    run = Run(capsys, tmp_path, kind="parquet")
    assert (run.code, "no format is called 'parquet'" in run.err) == (1, True)
    run = Run(capsys, tmp_path, "--report", str(tmp_path / "nowhere" / "report.jsonl"))
    assert (run.code, "report.jsonl: No such file" in run.err) == (1, True)
    (tmp_path / "into").rmdir()
    (tmp_path / "into").write_text("")
    run = Run(capsys, tmp_path)
    assert (run.code, "into: File exists" in run.err) == (1, True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_it_leaves_whole_packs_and_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, how: signal.Signals
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    put(tmp_path, "first")
    put(tmp_path, "second", waits=str(fifo))
    put(tmp_path, "third")
    into = tmp_path / "into"
    arguments = ["import", "plain", str(tmp_path / "from"), "--into", str(into), "--jobs", "1"]
    program = (
        "from environments.importers import IMPORTERS; from hub.cli import main;"
        f"IMPORTERS['plain'] = {IMPORTER!r}; main({[*arguments, '--no-check']!r})"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert fifo.read_text() == "here"
        process.send_signal(how)
        process.communicate()
    assert process.returncode == (-how if how == signal.SIGKILL else 130)
    assert Catalogue((into,)).names() == ["first"], "and no half of a second one"
    assert Catalogue((into,)).get("first").tasks
    put(tmp_path, "second")
    run = Run(capsys, tmp_path, "--no-check")
    assert (run.code, run.packs.names()) == (0, ["first", "second", "third"])
    assert [name for name in sorted(run.lines) if run.lines[name]["unchanged"]] == ["first"]
    assert [path.name for path in (into / ".import").iterdir()] == ["lock"]


def test_two_runs_do_not_write_into_one_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from environments.importers.importing import workplace

    put(tmp_path, "good")
    with workplace(tmp_path / "into"):
        (tmp_path / "into" / "import-report.jsonl").write_text('{"name": "theirs"}\n')
        run = Run(capsys, tmp_path)
    assert (run.code, "another import is writing" in run.err) == (1, True)
    assert list(run.lines) == ["theirs"], "the report of the import that is under way"
    again = Run(capsys, tmp_path, "--no-check")
    assert list(again.lines) == ["good"]


def test_what_is_not_done_yet_lies_at_a_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verifiers of others are handed files there, and their workers stand in another folder."""
    from environments.importers.importing import workplace

    monkeypatch.chdir(tmp_path)
    with workplace(Path("into")) as scratch:
        assert scratch.is_absolute()
        assert scratch.parent == tmp_path / "into" / ".import"


def test_an_item_that_hangs_is_lost_alone(tmp_path: Path) -> None:
    found = dict(spread(bench, ["hang", "b", "c"], jobs=2, seconds=5, scratch=tmp_path))
    assert found == {"hang": Lost("it took longer than 5 s"), "b": "B", "c": "C"}

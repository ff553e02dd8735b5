"""``envhub check``, ``lint`` and ``quality`` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from hub.cli import main
from tests.environments.model_server import ModelServer, answering

BROKEN = Path(__file__).parents[1] / "packs" / "broken"


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "160")


class Said:
    """What the command said, and the code it ended with."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        self.code = ended.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.err


@pytest.fixture
def library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert Said(capsys, "new", "library", "--in", str(tmp_path)).code == 0
    return str(tmp_path / "library")


def test_packs_are_checked_side_by_side_and_remembered(
    capsys: pytest.CaptureFixture[str], library: str, tmp_path: Path
) -> None:
    guessed = str(BROKEN / "guessed")
    said = Said(capsys, "check", library, guessed)
    assert said.code == 1
    assert "library passes" in said.out
    assert "guessed fails" in said.out
    assert "1 of 2 packs pass" in said.out
    assert len(list((tmp_path / "data" / "checks").glob("*.json"))) == 2
    again = Said(capsys, "check", library)
    assert (again.code, "known from before" in again.out) == (0, True)
    anew = json.loads(Said(capsys, "check", library, "--again", "--json").out)
    assert (anew[0]["cached"], anew[0]["passed"]) == (False, True)
    shutil.rmtree(tmp_path / "data" / "checks")
    told = json.loads(Said(capsys, "check", library, "--json").out)
    assert told[0]["cached"] is False


def test_lint_fails_with_the_hack_it_found(
    capsys: pytest.CaptureFixture[str], library: str
) -> None:
    assert Said(capsys, "lint", library).code == 0
    tasks = Path(library) / "tasks.jsonl"
    tasks.write_text(
        tasks.read_text().replace(
            '{"norm": "2026', '{"contains_all": ["2026-03-02"], "norm": "2026'
        )
    )
    assert Said(capsys, "lint", library).code == 0, "both must hold"
    tasks.write_text(tasks.read_text().replace(', "norm": "2026-03-02"', ""))
    said = Said(capsys, "lint", library)
    assert said.code == 1
    assert "lists all values of the database" in " ".join(said.out.split())
    (told,) = json.loads(Said(capsys, "lint", library, "--json").out)
    assert told["passed"] is False


def test_quality_tells_measured_from_judged(
    capsys: pytest.CaptureFixture[str], library: str
) -> None:
    said = Said(capsys, "quality", library)
    assert said.code == 0
    assert "3 of 3" in said.out
    assert "not judged: no judge is set" in said.out
    grade = {"reason": "As it should be.", "grade": 4}
    respects = ("task_feasibility", "data_alignment", "toolset_completeness")
    review = {**dict.fromkeys(respects, grade), "problems": ["table loans: short"]}
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(answering(ModelServer(json.dumps(review)))) as endpoint,
    ):
        judge = ("--judge-url", endpoint.base_url, "--judge-model", endpoint.model)
        shown = Said(capsys, "quality", library, *judge)
        told = json.loads(Said(capsys, "quality", library, *judge, "--json").out)
    assert "4 of 5" in shown.out
    assert "judged by solomon" in shown.out
    assert "solomon: table loans: short" in shown.out
    assert told[0]["review"]["data_alignment"]["grade"] == 4
    assert told[0]["measured"]["data_alignment"]["good"] == 3
    assert "requests" not in told[0]["usage"], "what was reached before costs nothing"


@pytest.mark.parametrize("command", ["check", "lint", "quality"])
def test_mistakes_are_told_in_words(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = Said(capsys, command, "bankin")
    assert (said.code, "did you mean banking" in said.err) == (1, True)

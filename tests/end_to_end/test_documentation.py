"""README and reference say what is so: every snippet is run as a reader would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.reference import PAGE, ROOT, page
from tests.hub.served import served

README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent


def snippets(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_reference_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run `make reference`"


PACKS = (ROOT / "docs" / "packs.md").read_text()
TRAINING = (ROOT / "docs" / "training.md").read_text()


@pytest.mark.parametrize(
    ("page", "number", "said"),
    [
        (README, 0, "(0.0, 0.0, 0.0, 0.0)"),
        (README, 1, "Kelly"),
        (TRAINING, 0, "0.0 (0.0, 0.0, 0.0, 0.0) True"),
        (TRAINING, 1, "completion=2, tokens={'token_ids': [1, 2], 'logprobs': [-0.1, -0.2]}"),
    ],
)
def test_the_python_snippets_run(page: str, number: int, said: str) -> None:
    found = snippets("python", page)
    assert len(found) == 2
    done = subprocess.run(
        [sys.executable, "-c", found[number]],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_the_curl_lines_answer(tmp_path: Path) -> None:
    (block,) = [text for text in snippets("") if "curl" in text]
    lines = block.replace("\\\n", " ").strip().splitlines()
    environment = dict(os.environ)
    with served(tmp_path / "data") as hub:
        for line in lines:
            done = subprocess.run(
                ["bash", "-c", line.replace("localhost:8765", hub.address)],
                check=False, capture_output=True, text=True, timeout=60, env=environment,
            )  # fmt: skip
            answer = json.loads(done.stdout)
            assert "error" not in answer, answer
            if "id" in answer:
                environment["ID"] = answer["id"]
            if "step" in answer:
                assert "Kelly" in json.dumps(answer["step"]["result"]), answer
            if isinstance(answer.get("reward"), dict):
                assert answer["reward"]["value"] == 0.0


@pytest.mark.parametrize("command", ["new", "check", "list", "show", "connect"])
def test_the_commands_run_as_they_stand(command: str, tmp_path: Path) -> None:
    found = re.search(rf"^\.venv/bin/(envhub {command}\b[^#\n]*)", README, re.MULTILINE)
    assert found is not None
    name, *arguments = found[1].split()
    if command == "check":
        subprocess.run([BIN / name, "new", "bookshop"], cwd=tmp_path, check=True, timeout=60)
    done = subprocess.run(
        [BIN / name, *arguments],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_about_archives_run_as_they_stand(tmp_path: Path) -> None:
    environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", HOME=str(tmp_path))
    for snippet in snippets("sh", PACKS):
        done = subprocess.run(
            ["bash", "-ec", snippet], check=False, cwd=tmp_path, capture_output=True, text=True,
            timeout=120, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "packs" / "bookshop" / "environment.toml").is_file()

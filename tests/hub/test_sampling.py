"""``envhub sample``: tasks of a pack by walks, worded by templates or by a model, well or badly."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from environments.catalogue import SHIPPED, load_pack
from hub.cli import main
from tests.environments.model_server import ModelServer, answering


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    folder = tmp_path / "packs" / "supplier"
    shutil.copytree(SHIPPED / "supplier", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class Said:
    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(("sample", *arguments))
        self.code = ended.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.err


def test_tasks_are_written_beside_the_pack_and_with_write_into_it(
    capsys: pytest.CaptureFixture[str], pack: Path
) -> None:
    before = load_pack(pack)
    said = Said(capsys, str(pack), "--count", "3")
    assert said.code == 0, said.err
    assert said.out.rstrip().splitlines()[-1].startswith("3 of 3 tasks, ")
    assert load_pack(pack).digest == before.digest, "the pack stays as it is"
    lines = (pack.parent / "supplier.sampled.jsonl").read_bytes()
    assert len(lines.splitlines()) == 3
    written = Said(capsys, str(pack), "--count", "3", "--write")
    after = load_pack(pack)
    assert (pack / "tasks.jsonl").read_bytes().endswith(lines), "the same seed, the same tasks"
    assert len(after.tasks) == len(before.tasks) + 3
    assert before.digest in written.err
    assert after.digest in written.err
    more = Said(capsys, str(pack), "--count", "3", "--write")
    assert more.code == 0, more.err
    assert len(load_pack(pack).tasks) == len(before.tasks) + 6, "ids and shapes are new ones"


def test_links_are_shown(capsys: pytest.CaptureFixture[str], pack: Path) -> None:
    said = Said(capsys, str(pack), "--links")
    assert said.code == 0
    row = r"search_suppliers +results\.\*\.id +get_offer +supplier_id +suppliers\.id"
    assert re.search(row, said.out)
    assert not list(pack.parent.glob("*.jsonl"))


def clerk(make: Callable[[str, int], str]) -> Callable[[dict[str, Any]], str]:
    """A model that makes an instruction of the plain words and the number of the attempt."""

    def mind(body: dict[str, Any]) -> str:
        asked = next(one["content"] for one in body["messages"] if one["role"] == "user")
        plain = re.findall(r"^> (.*)$", asked, re.MULTILINE)[0]
        attempt = re.findall(r"^# Attempt (\d+)$", asked, re.MULTILINE)
        return json.dumps({"instruction": make(plain, int(attempt[-1]) if attempt else 1)})

    return mind


def sampled(
    capsys: pytest.CaptureFixture[str],
    portal: BlockingPortal,
    pack: Path,
    make: Callable[[str, int], str],
) -> tuple[Said, list[str], ModelServer]:
    server = ModelServer(mind=clerk(make))
    with portal.wrap_async_context_manager(answering(server)) as endpoint:
        asked = ("--model", "solomon", "--base-url", endpoint.base_url, "--repairs", "1")
        said = Said(capsys, str(pack), "--count", "4", *asked)
    lines = (pack.parent / "supplier.sampled.jsonl").read_text().splitlines()
    return said, [json.loads(line)["instruction"] for line in lines], server


def test_a_model_words_them_and_is_told_what_it_left_out(
    capsys: pytest.CaptureFixture[str], portal: BlockingPortal, pack: Path
) -> None:
    plain = [
        json.loads(line)["instruction"] for line in _plain(capsys, pack).read_text().splitlines()
    ]
    said, worded, server = sampled(
        capsys, portal, pack, lambda text, attempt: f"Hello! {text}" if attempt == 2 else "Do it."
    )
    assert said.code == 0, said.err
    assert worded == [f"Hello! {text}" for text in plain]
    assert len(server.asked) == 8
    mended = [one for one in server.asked if "# Attempt 2" in one["messages"][-1]["content"]]
    assert all("which nobody can know who is not told" in str(one) for one in mended)


def test_what_a_model_cannot_say_templates_say(
    capsys: pytest.CaptureFixture[str], portal: BlockingPortal, pack: Path
) -> None:
    plain = _plain(capsys, pack).read_text()
    said, worded, _ = sampled(capsys, portal, pack, lambda text, attempt: "Just do it.")
    assert said.code == 0
    assert worded == [json.loads(line)["instruction"] for line in plain.splitlines()]
    assert said.err.count("is said as templates say it") == 4


def _plain(capsys: pytest.CaptureFixture[str], pack: Path) -> Path:
    out = pack.parent / "plain.jsonl"
    assert Said(capsys, str(pack), "--count", "4", "--out", str(out)).code == 0
    return out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("nowhere",), 1, "there is no environment 'nowhere'"),
        (("supplier", "--model", "solomon"), 2, "--base-url says so"),
        (("supplier", "--count", "0"), 2, "--count"),
    ],
)
def test_what_makes_no_sense_is_told(
    capsys: pytest.CaptureFixture[str],
    pack: Path,
    options: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    said = Said(capsys, *options)
    assert (said.code, words in said.err) == (code, True), said.err

"""``envhub synth`` with a language model, against a server that answers from recorded texts, that
answers badly, and whose asker is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from environments.catalogue import pack_digest
from environments.synthesis.journal import read_record
from environments.synthesis.pipeline import NAMES
from hub.cli import main
from tests.environments.model_server import ModelServer, Reply, answering
from tests.environments.synthesis.recorded import HERE, mind

SOON = {"retry-after-ms": "1"}
TERMS = ("--model", "solomon", "--tasks", "6", "--repairs", "2", "--attempts", "3")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_MODEL_KEY", "from-outside")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


class Said:
    """What the command said, and the code it ended with."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(("synth", *arguments))
        self.code = ended.value.code or 0
        self.out, self.err = capsys.readouterr()
        assert "Traceback" not in self.err

    @property
    def run(self) -> str:
        """The run to go on with."""
        return self.err.rsplit("--resume ", 1)[1].strip()


@contextmanager
def serving(portal: BlockingPortal, server: ModelServer) -> Iterator[str]:
    with portal.wrap_async_context_manager(answering(server)) as endpoint:
        yield endpoint.base_url


@pytest.fixture(scope="module")
def digest(
    portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[str]]:
    """Of the pack that a run makes nobody disturbs."""
    into = tmp_path_factory.mktemp("quiet")
    server = ModelServer(mind=mind)
    with serving(portal, server) as url, pytest.raises(SystemExit) as ended:
        main(("synth", "A tool library.", "--into", str(into), "--base-url", url, *TERMS))
    assert not ended.value.code
    return pack_digest(into / "tool-library"), questions(server)


def questions(server: ModelServer) -> list[str]:
    return sorted(one["messages"][-1]["content"] for one in server.asked)


BAD: dict[str, tuple[list[Reply | str], int, str]] = {
    "nonsense": (["Looks fine to me!"] * 9, 4, "answers that cannot be used"),
    "truncated JSON": (['{"environments": [{"name": "tool-'] * 9, 4, "cannot be used"),
    "other JSON": (['{"scenarios": []}'] * 9, 4, "`scenarios`"),
    "nothing": ([""] * 9, 4, "cannot be used"),
    "a body cut off": ([Reply(raw='{"choices": [{"mess')] * 9, 2, "gave nothing in 2 attempts"),
    "no completion": ([Reply(raw="{}")] * 9, 2, "gave nothing in 2 attempts"),
    "busy": ([Reply(status=429, headers=SOON)] * 9, 3, "429"),
    "broken": ([Reply(status=500, headers=SOON)] * 9, 3, "500"),
    "wrong key": ([Reply(status=401)] * 9, 1, "refuses: 401"),
    "silent": ([Reply(hang=True)] * 9, 2, "gave nothing in 2 attempts"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_server_that_answers_badly_costs_little_and_spoils_nothing(
    what: str, capsys: pytest.CaptureFixture[str], portal: BlockingPortal, tmp_path: Path
) -> None:
    replies, requests, words = BAD[what]
    server = ModelServer(*replies)
    patience = ["--attempts", "2", "--timeout-seconds", "0.3"] if requests == 2 else []
    with serving(portal, server) as url:
        said = Said(
            capsys, "A tool library.", "--into", str(tmp_path), "--base-url", url, *TERMS, *patience
        )
    assert (said.code, len(server.asked)) == (1, requests), said.err
    assert words in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name == said.run
    assert {path.name for path in run.iterdir()} - {"spending.jsonl"} == {
        "run.json", "record.jsonl", "report.md", "report.html",
    }  # fmt: skip
    lost = "".join(path.read_text() for path in run.glob("spending.jsonl")).count('"lost":true')
    assert lost == (requests if requests == 2 else 0), "what may have been answered is counted"


def test_an_endpoint_that_is_not_there_costs_nothing(
    capsys: pytest.CaptureFixture[str], portal: BlockingPortal, tmp_path: Path
) -> None:
    with serving(portal, ModelServer()) as url:
        pass
    dear = ("--price", "10", "100", "--budget-usd", "1.74")  # an answer that was lost is 1.6384
    once = ("--attempts", "2", "--embedder", "letters-1")
    said = Said(
        capsys, "A library.", "--into", str(tmp_path), "--base-url", url, *TERMS, *once, *dear
    )
    assert said.code == 1
    assert said.err.count("onnection") == 2, "each reason once"
    assert "All connection attempts failed" in said.err
    assert said.out.startswith("0.0000 USD"), "no table of nothing"
    assert not list(tmp_path.rglob("spending.jsonl")), "what was not sent is not paid for"


def test_a_server_that_fails_in_the_middle_is_gone_on_with(
    capsys: pytest.CaptureFixture[str],
    portal: BlockingPortal,
    tmp_path: Path,
    digest: tuple[str, list[str]],
) -> None:
    answers = iter(range(100))

    def tired(body: dict[str, Any]) -> str:
        return mind(body) if next(answers) < 5 else "I am tired."

    with serving(portal, ModelServer(mind=tired)) as url:
        said = Said(capsys, "A tool library.", "--into", str(tmp_path), "--base-url", url, *TERMS)
    assert said.code == 1
    assert "rejected" in said.out
    assert not (tmp_path / "tool-library").exists()
    (run,) = (tmp_path / "runs").iterdir()
    (record,) = read_record(run)
    assert "answers that cannot be used" in record.reason
    well = ModelServer(Reply(status=429, headers=SOON), Reply(status=500, headers=SOON), mind=mind)
    with serving(portal, well) as url:
        more = Said(
            capsys, "--into", str(tmp_path), "--resume", run.name, "--base-url", url,
            "--model", "solomon",
        )  # fmt: skip
    assert more.code == 0, more.err
    assert set(well.keys) == {"Bearer from-outside"}
    assert pack_digest(tmp_path / "tool-library") == digest[0]


@pytest.mark.parametrize(
    "kind", [("A library.", "--model", "anthropic:solomon"), ("--offline", "--count", "1")]
)
def test_without_matplotlib_nothing_is_begun(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: tuple[str, ...],
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = Said(capsys, *kind, "--into", str(tmp_path))
    assert refused.code == 1
    assert "matplotlib is not installed" in refused.err
    assert "mcp-env-hub[synth]" in refused.err
    assert not list(tmp_path.iterdir())


def test_the_budget_is_kept_and_a_larger_one_goes_on(
    capsys: pytest.CaptureFixture[str],
    portal: BlockingPortal,
    tmp_path: Path,
    digest: tuple[str, list[str]],
) -> None:
    """No request is made that might cost more than is left: all of its prompt, and the longest
    answer, which alone is 1.6384 dollars here."""
    dear = ("--price", "10", "100")
    server = ModelServer(mind=mind)
    with serving(portal, server) as url:
        common = ("--into", str(tmp_path), "--base-url", url)
        unknown = Said(capsys, "A tool library.", *common, *TERMS, "--budget-usd", "1.0")
        assert (unknown.code, len(server.asked)) == (1, 0)
        assert "--price" in unknown.err
        assert not list(tmp_path.iterdir()), "a run that cannot begin leaves nothing"
        none = Said(capsys, "A tool library.", *common, *TERMS, *dear, "--budget-usd", "1.6")
        assert (none.code, len(server.asked)) == (1, 0)
        some = Said(capsys, "A tool library.", *common, *TERMS, *dear, "--budget-usd", "1.74")
        made = len(server.asked)
        assert some.code == 1
        asked_for = (tmp_path / "runs" / some.run / "run.json").read_bytes()
        other = ("--model", "sibyl", "--redo", "tools", "--budget-usd", "1")
        unpriced = Said(capsys, *common, "--resume", some.run, *other)
        assert (unpriced.code, len(server.asked)) == (1, made)
        assert "--price" in unpriced.err
        assert (tmp_path / "runs" / some.run / "run.json").read_bytes() == asked_for
        assert 0 < made < len(digest[1])
        assert "US dollars are spent" in some.err
        assert "unfinished" in some.out
        more = Said(
            capsys, *common, "--resume", some.run, "--model", "solomon", *dear, "--budget-usd", "9"
        )
    assert more.code == 0, more.err
    assert len(server.asked) == len(digest[1]), "nothing is asked twice"
    assert pack_digest(tmp_path / "tool-library") == digest[0]
    lines = (tmp_path / "runs" / some.run / "spending.jsonl").read_text().splitlines()
    spent = sum(json.loads(line)["usd"] for line in lines)
    assert spent == pytest.approx(len(lines) * (100 * 10 + 20 * 100) / 1e6)
    assert f"{spent:.4f} USD" in more.out


def test_killed_after_any_stage_it_goes_on_to_the_same_pack(
    portal: BlockingPortal, tmp_path: Path, digest: tuple[str, list[str]]
) -> None:
    server = ModelServer(mind=mind)
    into = ("--into", str(tmp_path / "packs"))
    with serving(portal, server) as url, commands(tmp_path) as command:
        for number, stage in enumerate(NAMES):
            asked = ("--base-url", url, *TERMS)
            (run,) = [path.name for path in tmp_path.glob("packs/runs/*")] or [""]
            which = ("--resume", run) if number else ("A tool library.",)
            ended = command(("synth", *which, *into, *asked), kill_at=stage)
            assert ended == -signal.SIGKILL or stage == NAMES[-1], "only the last may be too quick"
        assert command(("synth", "--resume", run, *into, *asked)) == 0
    assert pack_digest(tmp_path / "packs" / "tool-library") == digest[0]
    assert set(questions(server)) == set(digest[1]), "the questions are the same"


def test_ended_from_the_keyboard_it_says_how_to_go_on(
    portal: BlockingPortal, tmp_path: Path
) -> None:
    into = ("--into", str(tmp_path / "packs"))
    said = [HERE / "tool-library" / f"{name}.1.json" for name in ("scenario", "tasks")]
    schema = json.dumps({"sql": (HERE / "tool-library" / "schema.2.sql").read_text()})
    server = ModelServer(*(path.read_text() for path in said), schema, Reply(hang=True))
    with serving(portal, server) as url, commands(tmp_path) as command:
        asked = ("A tool library.", *into, "--base-url", url, *TERMS)
        assert command(("synth", *asked), kill_at="schema", by=signal.SIGINT) == 130
    (run,) = (tmp_path / "packs" / "runs").iterdir()
    (record,) = read_record(run)
    assert (record.outcome, record.stages[-1].stage) == ("unfinished", "schema")
    assert "| not finished | 1 |" in (run / "report.md").read_text()


@contextmanager
def commands(scratch: Path) -> Iterator[Any]:
    """Runs commands in processes of their own, killing each when it has told of a stage."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.environments.synthesis.forking"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch)},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        into, out, told = process.stdin, process.stdout, process.stderr

        def command(
            arguments: tuple[str, ...], kill_at: str = "", by: signal.Signals = signal.SIGKILL
        ) -> int:
            into.write(json.dumps(arguments) + "\n")
            into.flush()
            child = int(out.readline())
            if kill_at:
                for line in told:
                    if line.startswith((f"{kill_at}: ", f"tool-library {kill_at}: ")):
                        with suppress(ProcessLookupError):
                            os.kill(child, by)
                        break
            return int(out.readline())

        yield command
        into.close()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["A library."], 2, "a model is needed"),
        (["A library.", "--model", "solomon"], 2, "--base-url says so"),
        (["--resume", "yesterday"], 1, "is no folder of a run"),
        (["--resume", "yesterday", "--model", "solomon"], 2, "--base-url says so"),
        (["--resume", "yesterday", "--redo", "tool"], 2, "there are: scenario, tasks, schema"),
        (["A library.", "--model", "recorded"], 2, "go with --resume"),
        (["A library.", "--offline"], 2, "--offline takes no sentence:"),
        (["--offline", "--tasks", "3", "--budget-usd", "1"], 2, "no --tasks, --budget-usd:"),
        (["A library.", "--domain", "zoo"], 2, "--domain goes with --offline"),
    ],
)
def test_options_that_make_no_sense_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], code: int, said: str
) -> None:
    told = Said(capsys, *options, "--into", str(tmp_path))
    assert (told.code, said in told.err) == (code, True), told.err

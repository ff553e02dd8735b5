"""``envhub eval`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from environments.catalogue import load_pack
from hub.cli import main
from tests.environments.playing_server import PlayingServer, knowing, playing

SHOP = str(Path(__file__).parents[1] / "packs" / "shop")


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


def test_a_model_plays_and_its_figures_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVHUB_MODEL_KEY", "from-outside")
    server = PlayingServer(knowing(list(load_pack(Path(SHOP)).tasks.values())))
    options = ["--model", "solomon", "-k", "2", "--price", "1", "5", "--out", str(tmp_path / "e")]
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(playing(server)) as address,
    ):
        said = Said(capsys, "eval", SHOP, "--base-url", address, *options)
        asked = len(server.asked)
        again = Said(capsys, "eval", SHOP, "--base-url", address, *options, "--json")
        assert len(server.asked) == asked, "what is there is not made again"
        server.down = True
        more = Said(capsys, "eval", SHOP, "--base-url", address, *options, "-k", "3")
    assert said.code == 0, said.err
    assert "pass@1   1.000" in said.out
    assert "pass@2   1.000" in said.out
    assert f"{asked} requests" in said.out
    assert server.keys == {"Bearer from-outside"}
    report = json.loads(again.out)
    assert report["figures"][0]["pass_at"]["2"]["value"] == 1.0
    assert report["figures"][0]["price"] == pytest.approx(asked * 1250 / 1e6)
    assert json.loads((tmp_path / "e" / "report.json").read_text())["tasks"][0]["tries"] == 2
    assert more.code == 1
    assert "401" in more.err
    verified = Said(capsys, "verify", str(tmp_path / "e" / "runs.jsonl"), "--packs", SHOP)
    assert verified.code == 0, verified.out


def test_scripts_need_no_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(SHOP).parent)
    said = Said(capsys, "eval", "shop", "--policy", "oracle", "--task", "buy-tea", "--json")
    assert said.code == 0
    report = json.loads(said.out)
    assert (report["figures"][0]["runs"], report["figures"][0]["reward"]) == (1, 1.0)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "--base-url"),
        (["--policy", "orcale"], 1, "patient-oracle"),
        (["--policy", "oracle", "--malformed", "forgive"], 2, "penalise"),
        (["--policy", "oracle", "--split", "exam"], 2, "validation"),
        (["--policy", "oracle", "--task", "buy-tee"], 1, "buy-tea"),
        (["--policy", "oracle", "--faults", "flacky"], 1, "flaky"),
    ],
)
def test_options_that_make_no_sense_are_told(
    capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str
) -> None:
    told = Said(capsys, "eval", SHOP, *options)
    assert told.code == code
    assert said in told.err
    assert told.err.count("error:") == 1
    assert "runs and report" not in told.out

"""What a hub is told, and by whom."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

from hub.data_dir import DataDir
from hub.errors import DataDirLocked, DataDirUnusable
from hub.settings import Settings, SettingsInvalid


def test_the_command_line_wins_over_the_environment(tmp_path: Path) -> None:
    environment = {
        "ENVHUB_PORT": "9000",
        "ENVHUB_HOST": "::1",
        "ENVHUB_PACKS": f"{tmp_path}:/b",
        "ENVHUB_SHIPPED": "false",
        "ENVHUB_ALLOWED_HOSTS": "hub.example, other.example",
        "HOME": "/nowhere",
    }
    settings = Settings.from_environment(environment, port=0, host=None)
    assert settings.port == 0
    assert settings.host == "::1"
    assert settings.packs == (tmp_path, Path("/b"))
    assert settings.shipped is False
    assert settings.allowed_hosts == ("hub.example", "other.example")


def test_the_data_directory_follows_xdg(tmp_path: Path) -> None:
    assert Settings.from_environment({"XDG_DATA_HOME": str(tmp_path)}).data_dir == (
        tmp_path / "envhub"
    )
    assert Settings.from_environment({}).data_dir == Path.home() / ".local/share/envhub"


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"ENVHUB_PORT": "http"}, "ENVHUB_PORT"),
        ({"ENVHUB_DURABILITY": "maybe"}, "ENVHUB_DURABILITY"),
        ({"ENVHUB_PROT": "1"}, "ENVHUB_PROT"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(environment: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsInvalid, match=word):
        Settings.from_environment(environment)


def test_an_option_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="durability"):
        Settings.from_environment({}, durability="sometimes")


def test_every_setting_can_be_given_as_text() -> None:
    for field in msgspec.structs.fields(Settings):
        default = field.default
        if isinstance(default, tuple | Path) or default is msgspec.NODEFAULT:
            continue
        text = "" if default is None else str(default)
        settings = Settings.from_environment({f"ENVHUB_{field.name.upper()}": text})
        assert getattr(settings, field.name) == default


def test_one_hub_at_a_time(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    with (
        data.lock(),
        pytest.raises(DataDirLocked, match=str(os.getpid())),
        DataDir(tmp_path / "data").lock(),
    ):
        pass
    with data.lock():
        pass


def test_the_secret_is_made_once_and_ours_alone(tmp_path: Path) -> None:
    secret = DataDir(tmp_path / "data").secret()
    assert len(secret) == 32
    assert DataDir(tmp_path / "data").secret() == secret
    assert DataDir(tmp_path / "other").secret() != secret
    assert stat.S_IMODE((tmp_path / "data/secret").stat().st_mode) == 0o600
    (tmp_path / "data/secret").write_bytes(b"short")
    with pytest.raises(DataDirUnusable, match="secret"):
        DataDir(tmp_path / "data").secret()


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataDirUnusable, match="file"):
        DataDir(tmp_path / "file" / "data")

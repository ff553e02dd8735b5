"""Packs that come as archives: served, signed, shown; from the command line to the API."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import httpx2
import pytest

from environments.archives import SecretKey, build_archive
from environments.archives.layout import ArchiveInvalid
from environments.archives.signatures import KeyInvalid, PackNotTrusted, signature_of
from hub.app import App, Hub
from hub.settings import Settings
from hub.supply import catalogue_of
from tests.hub.served import PACKS
from tests.hub.test_cli import Said

MANIFEST, ARCHIVE = build_archive(PACKS / "shop")
LICENCE, PROVENANCE = "Apache-2.0", "hand-written for the tests"


@pytest.fixture(autouse=True)
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHUB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ENVHUB_SHIPPED", "false")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "shop-1.0.0.tar.zst"
    path.write_bytes(ARCHIVE)
    return path


def settings(tmp_path: Path, *packs: Path, **given: object) -> Settings:
    return Settings(data_dir=tmp_path / "data", packs=packs, shipped=False, **given)  # type: ignore[arg-type]


def test_an_archive_is_unpacked_once_by_its_digest(tmp_path: Path, archive: Path) -> None:
    pack = catalogue_of(settings(tmp_path, archive)).get("shop")
    assert pack.digest == MANIFEST.digest
    assert pack.path == tmp_path / "data" / "packs" / MANIFEST.digest / "shop"
    inode = pack.path.stat().st_ino
    assert catalogue_of(settings(tmp_path, archive)).get("shop").path.stat().st_ino == inode
    (pack.path / "policy.md").write_text("somebody was here")
    assert catalogue_of(settings(tmp_path, archive)).get("shop").digest == MANIFEST.digest


def test_a_folder_may_hold_archives_and_a_bad_one_hides_no_other(
    tmp_path: Path, archive: Path
) -> None:
    folder = tmp_path / "packs"
    shutil.copytree(PACKS / "till", folder / "till")
    archive.rename(folder / archive.name)
    (folder / "cut.tar.zst").write_bytes(ARCHIVE[:100])
    catalogue = catalogue_of(settings(tmp_path, folder))
    assert catalogue.names() == ["shop", "till"]
    assert list(catalogue.invalid) == [folder / "cut.tar.zst"]
    with pytest.raises(ArchiveInvalid, match=r"cut\.tar\.zst: "):
        catalogue_of(settings(tmp_path, folder / "cut.tar.zst"))


def test_where_signatures_are_required_nothing_else_is_served(
    tmp_path: Path, archive: Path
) -> None:
    key = SecretKey.generate()
    trusting = {"require_signed": True, "trusted_keys": (key.public.text,)}
    with pytest.raises(PackNotTrusted, match="is not signed"):
        catalogue_of(settings(tmp_path, archive, **trusting))
    with pytest.raises(PackNotTrusted, match="folders cannot be signed"):
        catalogue_of(settings(tmp_path, PACKS / "shop", **trusting))
    folder = tmp_path / "packs"
    shutil.copytree(PACKS / "till", folder / "till")
    archive = archive.rename(folder / archive.name)
    signature_of(archive).write_text(key.sign(ARCHIVE, "mine"))
    catalogue = catalogue_of(settings(tmp_path, folder, **trusting))
    assert catalogue.names() == ["shop"]
    assert list(catalogue.invalid) == [folder / "till"]
    with pytest.raises(KeyInvalid):
        catalogue_of(settings(tmp_path, archive, trusted_keys=("no key",)))


@pytest.mark.parametrize(
    "command", [("rate", "--policy", "oracle", "-k", "1"), ("sample", "--links")]
)
def test_where_signatures_are_required_nothing_else_is_played(
    tmp_path: Path,
    archive: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    key = SecretKey.generate()
    once_unpacked = catalogue_of(settings(tmp_path, archive)).get("shop").path
    monkeypatch.setenv("ENVHUB_REQUIRE_SIGNED", "true")
    monkeypatch.setenv("ENVHUB_TRUSTED_KEYS", key.public.text)
    name, *options = command
    options += ["--out", str(tmp_path / "made.json")]
    for folder in (PACKS / "shop", once_unpacked):
        refused = Said(capsys, name, str(folder), *options)
        assert (refused.code, "folders cannot be signed" in refused.err) == (1, True)
    assert "is not signed" in Said(capsys, name, str(archive), *options).err
    signature_of(archive).write_text(key.sign(ARCHIVE, "mine"))
    assert Said(capsys, name, str(archive), *options).code == 0


@pytest.mark.anyio
async def test_what_a_pack_declares_is_told(tmp_path: Path, archive: Path) -> None:
    async with Hub.open(settings(tmp_path, archive)) as hub:
        transport = httpx2.ASGITransport(App(hub))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            told = (await client.get("/v1/environments/shop")).json()
    assert told["licence"] == LICENCE
    assert told["provenance"] == PROVENANCE
    assert told["digest"] == MANIFEST.digest


def test_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Said(capsys, "pack", "keygen", "--output", "my.key")
    public = made.out.splitlines()[-1]
    built = Said(capsys, "pack", "build", str(PACKS / "shop"), "--sign", "my.key")
    assert f"digest {MANIFEST.digest}" in built.out
    assert (tmp_path / "shop-1.0.0.tar.zst").read_bytes() == ARCHIVE
    for key in (public, "my.pub"):
        verified = Said(capsys, "pack", "verify", "shop-1.0.0.tar.zst", "--public-key", key)
        assert re.search(r"^signed by [0-9A-F]{16}$", verified.out, re.MULTILINE)
        assert verified.code == 0
    assert f"licence: {LICENCE}\nprovenance: {PROVENANCE}\n" in verified.out
    other = Said(capsys, "pack", "verify", "shop-1.0.0.tar.zst", "--digest", "0" * 64)
    assert (other.code, "holds the pack" in other.err) == (1, True)

    installed = Said(capsys, "pack", "install", "shop-1.0.0.tar.zst", "--into", "mine")
    assert installed.out.endswith("installed mine/shop\n")
    for packs in ("mine", "shop-1.0.0.tar.zst"):
        listed = Said(capsys, "list", "--long", "--packs", packs)
        row = rf"^shop +1\.0\.0 +{LICENCE} +{PROVENANCE} +{MANIFEST.digest[:12]}"
        assert re.search(row, listed.out, re.MULTILINE)
    for name in ("mine/shop", "shop-1.0.0.tar.zst"):
        shown = Said(capsys, "show", name)
        assert f"licence: {LICENCE}\nprovenance: {PROVENANCE}\n" in shown.out

    (tmp_path / "shop-1.0.0.tar.zst.minisig").unlink()
    unsigned = Said(
        capsys, "serve", "--require-signed", "--trusted-key", "my.pub", "--port", "0",
        "--packs", "shop-1.0.0.tar.zst",
    )  # fmt: skip
    assert unsigned.code == 1
    assert "shop-1.0.0.tar.zst is not signed" in unsigned.err


def test_a_signature_stays_beside_its_own_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pack, signature = tmp_path / "shop", tmp_path / "shop-1.0.0.tar.zst.minisig"
    shutil.copytree(PACKS / "shop", pack)
    Said(capsys, "pack", "keygen", "--output", "my.key")
    Said(capsys, "pack", "build", "shop", "--sign", "my.key")
    assert "removed" not in Said(capsys, "pack", "build", "shop").out
    assert signature.exists(), "the same bytes"
    (pack / "policy.md").write_text("Be kind.\n")
    assert f"{signature.name} was another file's" in Said(capsys, "pack", "build", "shop").out
    assert not signature.exists()


def test_what_a_pack_says_of_itself_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = Path(shutil.copytree(PACKS / "shop", tmp_path / "shop"))
    manifest = pack / "environment.toml"
    manifest.write_text(manifest.read_text().replace(PROVENANCE, "mine\\u001b[2J"))
    assert "\x1b" not in Said(capsys, "list", "--long", "--packs", str(pack)).out
    assert "provenance: mine [2J" in Said(capsys, "show", str(pack)).out

"""Commands about packs as one file: build, verify, install, and the keys that sign them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from environments.whole import write_whole
from hub.cli.output import say
from hub.cli.packs import declared, folder_of
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.archives import Archive
    from environments.catalogue import Pack

File = Annotated[Path, typer.Argument(help="A pack archive (.tar.zst).")]
PublicKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--public-key", help="Who must have signed it: base64 or a file; by default trusted_keys."
    ),
]
Digest = Annotated[str, typer.Option("--digest", help="The pack's digest that it must have.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command()(build)
    group.command()(verify)
    group.command()(install)
    group.command()(keygen)
    app.add_typer(group, name="pack", help="Packs as one file: build, sign, verify, install.")


def build(
    pack: Annotated[str, typer.Argument(help="A pack's folder, or the name of a shipped one.")],
    output: Annotated[
        Path | None, typer.Option(help="The file; by default NAME-VERSION.tar.zst.")
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(help="A secret key; the signature goes to FILE.minisig.")
    ] = None,
) -> None:
    """Make one file of a pack, the same bytes wherever it is done."""
    from environments.archives import SecretKey, build_archive
    from environments.archives.layout import SUFFIX
    from environments.archives.signatures import signature_of

    key = SecretKey.load(sign) if sign else None
    manifest, content = build_archive(folder_of(pack))
    path = output or Path(f"{manifest.name}-{manifest.version}{SUFFIX}")
    if not path.name.endswith(SUFFIX):
        raise typer.BadParameter(f"a pack archive is called *{SUFFIX}", param_hint="--output")
    signed = signature_of(path)
    outdated = signed.exists() and not (path.exists() and path.read_bytes() == content)
    write_whole(path, content)
    say(f"{path}  {len(content)} bytes")
    say(f"digest {manifest.digest}")
    if outdated and not key:  # beside another file it would have a hub refuse this one
        signed.unlink()
        say(f"{signed} was another file's signature, and is removed: --sign makes a new one")
    if key:
        comment = f"pack:{manifest.name}\tversion:{manifest.version}\tdigest:{manifest.digest}"
        write_whole(signed, key.sign(content, comment).encode())
        say(f"signed by {key.public.name}: {signed}")


def verify(file: File, public_key: PublicKeys = None, digest: Digest = "") -> None:
    """Say what an archive holds, and whether it is whole, signed and the one asked for.

    Exits with 1 if it is not.
    """
    archive = _read(file, public_key, digest)
    pack = archive.check()
    _describe(archive, pack)


def install(
    file: File,
    into: Annotated[Path, typer.Option("--into", help="The folder the pack's folder is put in.")],
    public_key: PublicKeys = None,
    digest: Digest = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in place of another version.")
    ] = False,
) -> None:
    """Unpack an archive into a folder of packs, whole or not at all."""
    from environments.catalogue import load_pack

    archive = _read(file, public_key, digest)
    path = archive.unpack(into, replace=replace)
    _describe(archive, load_pack(path))
    say(f"installed {path}")


def keygen(
    output: Annotated[
        Path, typer.Option(help="The secret key's file; the public half goes to *.pub.")
    ] = Path("envhub.key"),
) -> None:
    """Make a key that signs packs, and its public half. minisign reads both."""
    from environments.archives import SecretKey

    key = SecretKey.generate()
    public = key.save(output)
    say(f"secret key {output}  (keep it to yourself)")
    say(f"public key {public}")
    say(key.public.text)


def _read(file: Path, public_keys: list[str] | None, digest: str) -> Archive:
    """The archive, signed as it must be and of that digest."""
    from environments.archives import Trust, read_archive
    from environments.archives.layout import ArchiveInvalid

    settings = Settings.from_environment()
    required = settings.require_signed or bool(public_keys)
    trust = Trust.of(public_keys or settings.trusted_keys, required=required)
    archive = read_archive(file, trust)
    if digest not in ("", archive.manifest.digest):
        raise ArchiveInvalid(f"{file.name} holds the pack {archive.manifest.digest}, not {digest}")
    return archive


def _describe(archive: Archive, pack: Pack) -> None:
    say(f"{pack.name} {declared(pack.spec.version)}: {declared(pack.spec.title)}")
    say(f"digest {pack.digest}")
    say(f"signed by {archive.signer}" if archive.signer else "signed by nobody trusted here")
    say(f"licence: {declared(pack.spec.licence)}")
    say(f"provenance: {declared(pack.spec.provenance)}")

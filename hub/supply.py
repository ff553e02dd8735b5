"""Where a hub's packs come from: the shipped ones, folders, and archives, unpacked once."""

from __future__ import annotations

from pathlib import Path

from environments.archives import Trust, read_archive
from environments.archives.layout import SUFFIX
from environments.archives.signatures import PackNotTrusted
from environments.catalogue import MANIFEST, SHIPPED, Catalogue, read_pack
from environments.errors import PackInvalid
from hub.data_dir import DataDir
from hub.settings import Settings


def catalogue_of(settings: Settings) -> Catalogue:
    """The packs that ``settings`` name, those in archives as well.

    A pack that was named and cannot be had raises ``PackInvalid`` (not trusted ones
    ``PackNotTrusted``); one of many in a folder is in ``invalid`` and hides no other. Raises
    ``KeyInvalid`` for a trusted key that is none, ``DataDirUnusable``.
    """
    return Catalogue(*_supply(settings))


def catalogue_with(pack: Path, settings: Settings) -> Catalogue:
    """The packs that ``settings`` name, and before any other of its name the one in a folder, which
    may be played (see ``require_unsigned_may_be``); so are those beside it that a world mounts.
    Raises what ``catalogue_of`` does."""
    roots, invalid = _supply(settings)
    beside = (pack.parent / name for name in read_pack(pack).spec.environments)
    return Catalogue([pack, *(path for path in beside if path.is_dir()), *roots], invalid)


def require_unsigned_may_be(folder: Path, settings: Settings) -> None:
    """Raise ``PackNotTrusted`` where a folder was named itself and packs must be signed, wherever
    it lies: what was once unpacked need not have been."""
    if settings.require_signed:
        raise _no_archive(folder)


def _supply(settings: Settings) -> tuple[list[Path], dict[Path, PackInvalid]]:
    """Folders with packs, and archives that are none."""
    trust = Trust.of(settings.trusted_keys, required=settings.require_signed)
    roots: list[Path] = [SHIPPED] if settings.shipped else []
    invalid: dict[Path, PackInvalid] = {}
    for given in settings.packs:
        if is_archive(given):
            roots.append(_unpacked(given, trust, settings))
            continue
        if not trust.required:
            roots.append(given)
        elif (given / MANIFEST).is_file():
            raise _no_archive(given)
        else:
            invalid |= {
                each.parent: _no_archive(each.parent) for each in given.glob(f"*/{MANIFEST}")
            }
        for archive in sorted(given.glob(f"*{SUFFIX}")):
            try:
                roots.append(_unpacked(archive, trust, settings))
            except PackInvalid as error:
                invalid[archive] = error
    return roots, invalid


def is_archive(path: Path) -> bool:
    """Whether that is the name of a pack archive."""
    return path.name.endswith(SUFFIX)


def unpacked(path: Path, settings: Settings) -> Path:
    """The folder of the pack in an archive. Raises what ``catalogue_of`` raises of one."""
    trust = Trust.of(settings.trusted_keys, required=settings.require_signed)
    return _unpacked(path, trust, settings)


def _unpacked(path: Path, trust: Trust, settings: Settings) -> Path:
    archive = read_archive(path, trust)
    # by digest: a pack once unpacked is known again, two versions never mix, and what is there
    # under that digest without having it is nobody's
    return archive.unpack(DataDir(settings.data_dir).packs / archive.manifest.digest, replace=True)


def _no_archive(path: Path) -> PackNotTrusted:
    return PackNotTrusted(
        f"{path} is a folder, and folders cannot be signed",
        hint="`envhub pack build --sign KEY` makes a signed archive; or allow unsigned packs",
    )

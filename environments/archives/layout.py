"""What an archive looks like: its manifest, names it may hold, the one header of a file."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

import msgspec

from environments.catalogue import PACK_NAME
from environments.errors import PackInvalid

SUFFIX: Final = ".tar.zst"
MANIFEST: Final = ".pack.json"
"""In the pack's folder. Names that begin with a dot are no part of a pack's digest."""
FORMAT: Final = 1
BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)

MAX_ARCHIVE_BYTES: Final = 64 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 512 * 1024 * 1024
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
MAX_FILES: Final = 4096
MAX_NAME: Final = 100
"""Characters of a file's name with the folders before it, the pack's own included."""
MAX_DEPTH: Final = 8
MAX_MANIFEST_BYTES: Final = 4096
WINDOW_BYTES: Final = 8 * 1024 * 1024
"""What a frame may ask of the memory of whoever decompresses it."""

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,=+-]*(?<!\.)")


class ArchiveInvalid(PackInvalid):
    """A pack archive is damaged, is not what it says it is, or holds what no pack may hold."""

    code = "ARCHIVE_INVALID"


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``.pack.json``: what the archive says it holds."""

    format: int
    name: str
    version: str
    digest: str
    """Of the pack, as its folder has it: ``envhub show`` and ``GET /v1/environments`` tell it."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> ArchiveManifest:
        """Raises ``ArchiveInvalid``, also for what ``encode`` would have written otherwise."""
        try:
            manifest = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ArchiveInvalid(f"{MANIFEST} cannot be read: {error}") from None
        if manifest.format != FORMAT:
            raise ArchiveInvalid(
                f"the archive has format {manifest.format}, and {FORMAT} is the one known here",
                hint="a newer envhub may know it",
            )
        if not PACK_NAME.fullmatch(manifest.name) or manifest.encode() != data:
            raise ArchiveInvalid(f"{MANIFEST} is not as envhub writes it")
        manifest.check()
        return manifest

    def check(self) -> None:
        """Raise ``ArchiveInvalid`` for a version or a digest that may not stand in the name of a
        file or a folder, or in a signed comment."""
        if not _VERSION.fullmatch(self.version):
            raise ArchiveInvalid(
                f"{self.version[:40]!r} is no version for an archive",
                hint="letters, digits and . + _ - of ASCII, at most 64",
            )
        if not _DIGEST.fullmatch(self.digest):
            raise ArchiveInvalid(f"{self.digest[:40]!r} is no digest of a pack")


def check_name(name: str) -> None:
    """Raise ``ArchiveInvalid`` for a name no file of a pack may have in an archive.

    The rule is that of the most careful file systems: a name means the same everywhere, and cannot
    lead anywhere but down.
    """
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise ArchiveInvalid(f"{name!r} leads out of the pack")
    if len(name) > MAX_NAME or len(parts) > MAX_DEPTH:
        raise ArchiveInvalid(
            f"{name[:40]!r}... is too long or too deep",
            hint=f"at most {MAX_NAME} characters and {MAX_DEPTH} folders",
        )
    for part in parts:
        if not _PART.fullmatch(part) or part.startswith("__pycache__"):
            raise ArchiveInvalid(
                f"{name!r} is no name for a file of a pack",
                hint="letters, digits and _ . , = + - of ASCII, not beginning or ending with a dot",
            )


class Names:
    """The names an archive has so far."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Raise ``ArchiveInvalid`` if ``name`` may not be, or is another's on some file system."""
        check_name(name)
        folded = name.casefold()
        if folded in self._files:
            raise ArchiveInvalid(f"{name!r} is there twice, the other is {self._files[folded]!r}")
        folders = {str(above).casefold(): str(above) for above in PurePosixPath(name).parents}
        for key, folder in folders.items():
            if self._folders.setdefault(key, folder) != folder:
                raise ArchiveInvalid(f"{folder!r} and {self._folders[key]!r} differ only in case")
        self._files[folded] = name
        both = self._files.keys() & {folded, *folders} & self._folders.keys()
        if both:
            raise ArchiveInvalid(f"{self._files[min(both)]!r} is both a file and a folder")


def header(name: str, size_bytes: int) -> bytes:
    """The one header (POSIX ustar) that a file of this name and size has."""
    fields = (
        name.encode("ascii").ljust(100, b"\0"),
        b"0000644\0" + b"0000000\0" * 2,  # mode, owner, group
        b"%011o\0" % size_bytes,
        b"00000000000\0",  # the time
        b" " * 8,  # the checksum, while it is taken
        b"0".ljust(101, b"\0"),  # a plain file
        b"ustar\00000",
        bytes(64),
        b"0000000\0" * 2,
        bytes(155),
    )
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padding(size_bytes: int) -> int:
    """How many zeros follow a file of that size."""
    return -size_bytes % BLOCK

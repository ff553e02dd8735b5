"""From an archive to a pack's folder, believing nothing that stands in it.

Whatever bytes come in: either the very pack the archive names lies in the folder in the end, or
nothing does and an ``ArchiveInvalid`` says why. Headers are not interpreted but compared with the
one that a file of that name and size must have, so links, devices, owners, modes and extensions of
tar are refused by one rule. Memory is bounded by the archive's own size, the window and a piece.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import zstandard

from environments.archives.layout import (
    BLOCK,
    END,
    MANIFEST,
    MAX_ARCHIVE_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_MANIFEST_BYTES,
    MAX_TOTAL_BYTES,
    WINDOW_BYTES,
    ArchiveInvalid,
    ArchiveManifest,
    Names,
    header,
    padding,
)
from environments.archives.signatures import Trust
from environments.catalogue import Pack, load_pack, pack_digest
from environments.errors import PackInvalid

_FED_BYTES: Final = 512
"""Compressed bytes decompressed at once: a block of 128 KiB takes 4 at the least, so 16 MiB come
of them at the most."""
_KINDS: Final = {
    b"1": "a link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder of its own",
    b"6": "a pipe",
}
_SIZE: Final = re.compile(rb"([0-7]{11})\0")
_PIECE_BYTES: Final = 64 * 1024
_REBUILD: Final = "`envhub pack build` writes archives that are read here"


@dataclasses.dataclass(frozen=True, slots=True)
class Archive:
    """An archive as it was read from disk, not yet looked into further than its manifest."""

    path: Path
    content: bytes = dataclasses.field(repr=False)
    manifest: ArchiveManifest
    signer: str = ""
    """The trusted key that signed it, if one did."""

    def unpack(self, into: Path, *, replace: bool = False) -> Path:
        """Put the pack's folder into ``into``, which is made if it is missing; gives its path.

        The folder appears whole or not at all. One that is there already and is this very pack is
        left as it is. Raises ``ArchiveInvalid``, also for another pack of that name unless it is to
        be replaced, and ``PackInvalid`` for a pack that cannot be loaded.
        """
        target = into / self.manifest.name
        if self._stands_at(target):
            return target
        if os.path.lexists(target) and not replace:
            raise ArchiveInvalid(
                f"{target} is there already, and is not this pack",
                hint="remove it, or say --replace",
            )
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into, prefix=".unpacking-") as scratch:
            fresh = Path(scratch) / self.manifest.name
            self._write(fresh)
            for path in (*fresh.rglob("*"), fresh):
                _sync(path)
            if replace and os.path.lexists(target):
                target.rename(Path(scratch) / "replaced")
            try:
                fresh.rename(target)
            except OSError as error:
                if self._stands_at(target):  # somebody else was quicker
                    return target
                raise ArchiveInvalid(f"{target} cannot be made: {error.strerror}") from error
            _sync(into)
        return target

    def _stands_at(self, target: Path) -> bool:
        try:
            return not target.is_symlink() and pack_digest(target) == self.manifest.digest
        except PackInvalid:
            return False

    def check(self) -> Pack:
        """Unpack it where nobody looks; gives the pack, whose folder is gone by then.

        Raises what ``unpack`` raises of the archive.
        """
        with tempfile.TemporaryDirectory(prefix="envhub-pack-") as scratch:
            return self._write(Path(scratch) / self.manifest.name)

    def _write(self, folder: Path) -> Pack:
        with _naming(self.path):
            for name, pieces in _files(self.content, self.manifest.name):
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with os.fdopen(os.open(place, flags, 0o644), "wb") as file:
                    for piece in pieces:
                        file.write(piece)
        pack = load_pack(folder)
        declared = self.manifest
        found = (pack.name, pack.spec.version, pack.digest)
        if found != (declared.name, declared.version, declared.digest):
            raise ArchiveInvalid(
                f"{self.path.name} holds {' '.join(found)} and says it is "
                f"{declared.name} {declared.version} {declared.digest}"
            )
        return pack


def read_archive(path: Path, trust: Trust | None = None) -> Archive:
    """The archive in a file, its manifest read, and not even that before ``trust`` is content.

    Raises ``ArchiveInvalid`` and ``PackNotTrusted``.
    """
    try:
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > MAX_ARCHIVE_BYTES:
                raise ArchiveInvalid(f"{path.name} has more than {MAX_ARCHIVE_BYTES} bytes")
            content = file.read(size_bytes)
    except OSError as error:
        raise ArchiveInvalid(f"{path} cannot be read: {error.strerror}") from error
    signer = (trust or Trust()).check(path, content)
    with _naming(path):
        _, pieces = next(_files(content))
        return Archive(path, content, ArchiveManifest.decode(b"".join(pieces)), signer)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except ArchiveInvalid as error:
        raise ArchiveInvalid(f"{path.name}: {error.message}", hint=error.hint) from None


# --- the tar within --------------------------------------------------------------------------


def _files(content: bytes, pack: str = "") -> Iterator[tuple[str, Iterator[bytes]]]:
    """Names within the pack's folder, the manifest's first, each with its bytes, which must be
    taken before the next is asked for. Raises ``ArchiveInvalid``."""
    plain = _Plain(content)
    name, size_bytes = _entry(plain.take(BLOCK))
    folder, _, first = name.partition("/")
    if first != MANIFEST or size_bytes > MAX_MANIFEST_BYTES or folder != (pack or folder):
        raise ArchiveInvalid(f"the archive does not begin with a {MANIFEST}", hint=_REBUILD)
    yield MANIFEST, plain.pieces(size_bytes)
    names, last, total = Names(), "", 0
    for _ in range(MAX_FILES):
        block = plain.take(BLOCK)
        if block == END[:BLOCK]:
            plain.end()
            return
        name, size_bytes = _entry(block)
        names.add(name)
        if not name.startswith(f"{folder}/") or name <= last:
            raise ArchiveInvalid(f"{name!r} is not where it belongs", hint=_REBUILD)
        last = name
        total += size_bytes
        if size_bytes > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
            raise ArchiveInvalid(
                f"{name} brings the archive to {total} bytes",
                hint=f"at most {MAX_TOTAL_BYTES}, {MAX_FILE_BYTES} in one file",
            )
        yield name.removeprefix(f"{folder}/"), plain.pieces(size_bytes)
    if plain.take(BLOCK) != END[:BLOCK]:
        raise ArchiveInvalid(f"the archive holds more than {MAX_FILES} files")
    plain.end()


def _entry(block: bytes) -> tuple[str, int]:
    """Name and size of what follows a header."""
    name = block[:100].rstrip(b"\0").decode("ascii", "backslashreplace")
    kind = block[156:157]
    if kind in _KINDS:
        raise ArchiveInvalid(f"{name!r} is {_KINDS[kind]}, and a pack holds plain files alone")
    size = _SIZE.fullmatch(block[124:136])
    if size is None or header(name, int(size.group(1), 8)) != block:
        raise ArchiveInvalid(f"{name!r} has a header that is not envhub's", hint=_REBUILD)
    return name, int(size.group(1), 8)


class _Plain:
    """What an archive decompresses to, as it is asked for."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._frame = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).decompressobj()
        self._ready = bytearray()

    def take(self, size_bytes: int) -> bytes:
        """Exactly so many bytes."""
        while len(self._ready) < size_bytes:
            if self._frame.eof or not self._content:
                raise ArchiveInvalid("the archive ends too early")
            self._feed()
        taken = bytes(self._ready[:size_bytes])
        del self._ready[:size_bytes]
        return taken

    def pieces(self, size_bytes: int) -> Iterator[bytes]:
        """A file, and the zeros after it."""
        for start in range(0, size_bytes, _PIECE_BYTES):
            yield self.take(min(_PIECE_BYTES, size_bytes - start))
        if any(self.take(padding(size_bytes))):
            raise ArchiveInvalid("a file is followed by what is not its own")

    def end(self) -> None:
        """See to it that the last block of zeros is the last there is."""
        rest = self.take(BLOCK)
        while not self._frame.eof and self._content and not self._ready:
            self._feed()
        over = self._ready or self._frame.unused_data or self._content
        if any(rest) or over or not self._frame.eof:
            raise ArchiveInvalid("something follows the end of the archive, or the end is missing")

    def _feed(self) -> None:
        fed, self._content = self._content[:_FED_BYTES], self._content[_FED_BYTES:]
        try:
            self._ready += self._frame.decompress(fed)
        except zstandard.ZstdError as error:
            raise ArchiveInvalid(f"it is no archive, or a damaged one: {error}") from None


def _sync(path: Path) -> None:
    """Have the disk hold what the file or folder ``path`` says."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

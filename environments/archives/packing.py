"""From a pack's folder to its archive, the same bytes wherever and whenever it is done."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import zstandard

from environments.archives.layout import (
    END,
    FORMAT,
    MANIFEST,
    MAX_ARCHIVE_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    WINDOW_BYTES,
    ArchiveInvalid,
    ArchiveManifest,
    Names,
    header,
    padding,
)
from environments.catalogue import load_pack, pack_files

_LEVEL: Final = 19


def build_archive(path: Path) -> tuple[ArchiveManifest, bytes]:
    """The archive of the pack in folder ``path``, and its manifest.

    Bytes are the same for the same files under one version of zstd; the pack's digest is the same
    under any. Raises ``PackInvalid`` for a pack that cannot be read, and ``ArchiveInvalid`` for one
    no archive may hold.
    """
    pack = load_pack(path)
    files = {name: file.read_bytes() for name, file in pack_files(path)}
    _check(pack.name, files)
    manifest = ArchiveManifest(
        format=FORMAT, name=pack.name, version=pack.spec.version, digest=pack.digest
    )
    manifest.check()
    plain = io.BytesIO()
    for name, content in ((MANIFEST, manifest.encode()), *sorted(files.items())):
        plain.write(header(f"{pack.name}/{name}", len(content)))
        plain.write(content)
        plain.write(bytes(padding(len(content))))
    plain.write(END)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, window_log=WINDOW_BYTES.bit_length() - 1, write_checksum=1
    )
    archive = zstandard.ZstdCompressor(compression_params=parameters).compress(plain.getvalue())
    if len(archive) > MAX_ARCHIVE_BYTES:
        raise ArchiveInvalid(
            f"the archive of {pack.name} has {len(archive)} bytes",
            hint=f"{MAX_ARCHIVE_BYTES} are the most that are unpacked again",
        )
    return manifest, archive


def _check(pack: str, files: dict[str, bytes]) -> None:
    names = Names()
    for name in files:
        names.add(f"{pack}/{name}")
    largest = max(files, key=lambda name: len(files[name]))
    total = sum(map(len, files.values()))
    if len(files) > MAX_FILES or total > MAX_TOTAL_BYTES or len(files[largest]) > MAX_FILE_BYTES:
        raise ArchiveInvalid(
            f"{pack} has {len(files)} files of {total} bytes, {largest} the largest of them",
            hint=f"at most {MAX_FILES} files, {MAX_TOTAL_BYTES} bytes, {MAX_FILE_BYTES} in one",
        )

"""Page deltas at rest: each page as its difference from the one it replaces, compressed.

A step changes a few bytes of a few pages, so the exclusive-or with the page before is almost all
zeros. Layout: zstd of msgpack ``[version, size_bytes, base_pages, {page number: difference}]``.
"""

from __future__ import annotations

import msgspec
import zstandard

from snapshots.branch import Branch
from snapshots.errors import BranchDamaged
from snapshots.pages import PAGE_SIZE, PageDelta

_VERSION = 1
_ZEROS = bytes(PAGE_SIZE)
_MAX_BYTES = 1 << 30


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    version: int
    size_bytes: int
    base_pages: int
    pages: dict[int, bytes]


_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_delta(delta: PageDelta, branch: Branch) -> bytes:
    """``delta`` as a difference against ``branch``, which it has not yet been committed to."""
    pages = {number: _xor(page, _before(branch, number)) for number, page in delta.pages.items()}
    stored = _Stored(_VERSION, delta.size_bytes, delta.base_pages, pages)
    return zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(stored))


def decode_delta(data: bytes, branch: Branch) -> PageDelta:
    """The delta that ``encode_delta`` was given, if ``branch`` stands where it stood then.

    Raises:
        BranchDamaged: the bytes are cut, altered, or of an unknown version.
    """
    try:
        raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_BYTES)
        stored = _decoder.decode(raw)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise BranchDamaged(f"a stored page delta is damaged: {error}") from error
    if stored.version != _VERSION:
        raise BranchDamaged(f"a stored page delta has version {stored.version}, not {_VERSION}")
    if any(len(page) != PAGE_SIZE for page in stored.pages.values()):
        raise BranchDamaged("a stored page delta has a page of the wrong size")
    pages = {number: _xor(page, _before(branch, number)) for number, page in stored.pages.items()}
    return PageDelta(pages, stored.size_bytes, stored.base_pages)


def _before(branch: Branch, number: int) -> bytes:
    head = branch.head
    page = head.pages.get(number)
    if page is not None:
        return page
    return branch.snapshot.page(number) if number < head.base_pages else _ZEROS


def _xor(first: bytes, second: bytes) -> bytes:
    mixed = int.from_bytes(first, "little") ^ int.from_bytes(second, "little")
    return mixed.to_bytes(PAGE_SIZE, "little")

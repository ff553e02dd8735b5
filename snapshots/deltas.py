"""Page deltas at rest: of each page, only what differs from the page it replaces.

A step changes a few bytes of a few pages. Layout: msgpack ``[version, size_bytes, base_pages,
{page number: [[offset, bytes], ...]}]``; not compressed, which is for whoever keeps many of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from snapshots.branch import Branch
from snapshots.errors import BranchDamaged
from snapshots.pages import PAGE_SIZE, PageDelta

_VERSION = 2
_ZEROS = bytes(PAGE_SIZE)
_COARSE = 512
_GRAINS = (64, 8)
"""Differences are looked for in parts of a page, then in parts of the parts that differ: comparing
is cheap and a loop is not. A page of which half the parts of one of these sizes differ is written
whole."""

_Parts = list[tuple[int, bytes]]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    version: int
    size_bytes: int
    base_pages: int
    pages: dict[int, _Parts]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_delta(delta: PageDelta, branch: Branch) -> bytes:
    """``delta`` as a difference against ``branch``, which it has not yet been committed to."""
    pages = {number: _parts(page, _before(branch, number)) for number, page in delta.pages.items()}
    return _encoder.encode(_Stored(_VERSION, delta.size_bytes, delta.base_pages, pages))


def decode_delta(data: bytes, branch: Branch) -> PageDelta:
    """The delta that ``encode_delta`` was given, if ``branch`` stands where it stood then.

    Raises:
        BranchDamaged: the bytes are cut, altered, or of an unknown version.
    """
    try:
        stored = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise BranchDamaged(f"a stored page delta is damaged: {error}") from error
    if stored.version != _VERSION:
        raise BranchDamaged(f"a stored page delta has version {stored.version}, not {_VERSION}")
    pages = {
        number: _patched(_before(branch, number), parts) for number, parts in stored.pages.items()
    }
    return PageDelta(pages, stored.size_bytes, stored.base_pages)


def _before(branch: Branch, number: int) -> bytes:
    head = branch.head
    page = head.pages.get(number)
    if page is not None:
        return page
    return branch.snapshot.page(number) if number < head.base_pages else _ZEROS


def _parts(page: bytes, before: bytes) -> _Parts:
    """Offset and new bytes of every part of ``page`` that differs."""
    if page == before:
        return []
    starts = _differing(page, before, (0,), PAGE_SIZE, _COARSE)
    size = _COARSE
    for grain in _GRAINS:
        starts = _differing(page, before, starts, size, grain)
        if len(starts) * grain > PAGE_SIZE // 2:
            return [(0, page)]
        size = grain
    return _joined(page, starts, size)


def _differing(
    page: bytes, before: bytes, starts: Iterable[int], size: int, grain: int
) -> list[int]:
    """Where the parts of ``grain`` bytes lie that differ, within parts of ``size`` bytes."""
    return [
        at
        for start in starts
        for at in range(start, start + size, grain)
        if page[at : at + grain] != before[at : at + grain]
    ]


def _joined(page: bytes, starts: Iterable[int], size: int) -> _Parts:
    """Parts of ``size`` bytes, neighbours as one."""
    parts: _Parts = []
    begin = end = -1
    for start in starts:
        if start != end:
            if end > 0:
                parts.append((begin, page[begin:end]))
            begin = start
        end = start + size
    parts.append((begin, page[begin:end]))
    return parts


def _patched(before: bytes, parts: _Parts) -> bytes:
    page = bytearray(before)
    for offset, part in parts:
        if not 0 <= offset <= PAGE_SIZE - len(part):
            raise BranchDamaged("a stored page delta reaches beyond its page")
        page[offset : offset + len(part)] = part
    return bytes(page)

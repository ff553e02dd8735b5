"""Pages: the snapshot's own, and those written since.

Page numbers are 0-based here (SQLite's page 1 is our page 0); every page is ``PAGE_SIZE`` bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from snapshots.errors import BadDelta, SnapshotInvalid

PAGE_SIZE = 4096
LOCK_PAGE = 0x40000000 // PAGE_SIZE
"""SQLite locks bytes of this page and never reads or writes it (databases over 1 GiB)."""

MAX_PAGES = 0xFFFFFFFE
_MAGIC = b"SQLite format 3\0"
_COOKIE = slice(40, 44)


class PageDelta(msgspec.Struct, frozen=True):
    """What one mount wrote: enough to bring a branch from its state before to the one after.

    ``pages`` maps page numbers to their new bytes, ``size_bytes`` is the file size afterwards,
    and base pages at or above ``base_pages`` are never shown again (the file was once that short).
    """

    pages: dict[int, bytes]
    size_bytes: int
    base_pages: int

    def merge(self, later: PageDelta) -> PageDelta:
        """One delta with the effect of this one followed by ``later``."""
        count = later.size_bytes // PAGE_SIZE
        pages = {number: page for number, page in self.pages.items() if number < count}
        pages.update(later.pages)
        return PageDelta(pages, later.size_bytes, min(self.base_pages, later.base_pages))


class Image:
    """An immutable state of a database file: private pages over the snapshot's.

    Copying an image is copying a reference; nobody changes ``pages`` once it is here.
    """

    __slots__ = ("_after", "base_pages", "pages", "size_bytes")

    def __init__(self, pages: Mapping[int, bytes], size_bytes: int, base_pages: int) -> None:
        self._after: tuple[PageDelta, dict[int, bytes]] | None = None
        self.pages = pages
        self.size_bytes = size_bytes
        self.base_pages = base_pages

    def pages_after(self, delta: PageDelta) -> dict[int, bytes]:
        """The private pages once ``delta`` is written over this image.

        Asked again for the same delta it answers the same object, so that who was told of it in
        advance can see that nothing else has happened since.
        """
        if self._after is None or self._after[0] is not delta:
            self._after = (delta, self._written(delta))
        return self._after[1]

    def forget_what_follows(self) -> None:
        """Keep no delta that was asked about: whoever marks this state would keep it too."""
        self._after = None

    def _written(self, delta: PageDelta) -> dict[int, bytes]:
        count = delta.size_bytes // PAGE_SIZE
        if count >= self.size_bytes // PAGE_SIZE:
            return {**self.pages, **delta.pages}
        kept = {number: page for number, page in self.pages.items() if number < count}
        kept.update(delta.pages)
        return kept


def check_delta(delta: PageDelta, image: Image) -> None:
    """Refuse a delta that no honest mount of ``image`` could have produced.

    Raises:
        BadDelta: naming the field at fault. Deltas come from workers that run strangers' code.
    """
    count, rest = divmod(delta.size_bytes, PAGE_SIZE)
    if rest or not 0 < count <= MAX_PAGES:
        raise BadDelta(f"size of {delta.size_bytes} bytes is no whole number of pages")
    if not 0 < delta.base_pages <= min(image.base_pages, count):
        raise BadDelta(f"base_pages {delta.base_pages} is out of range")
    for number, page in delta.pages.items():
        if not 0 <= number < count or number == LOCK_PAGE:
            raise BadDelta(f"page number {number} is out of range for {count} pages")
        if len(page) != PAGE_SIZE:
            raise BadDelta(f"page {number} has {len(page)} bytes instead of {PAGE_SIZE}")
    first = delta.pages.get(0)
    if first is None:
        if delta.size_bytes != image.size_bytes:
            raise BadDelta("the size changed but the first page did not")
        return
    problem = header_problem(first)
    if problem:
        raise BadDelta(f"first page: {problem}")
    if int.from_bytes(first[28:32], "big") != count:
        raise BadDelta("first page: its page count differs from the size")


def header_problem(first: bytes) -> str:
    """Why a database with this first page cannot be served, or ``""``."""
    if first[:16] != _MAGIC:
        return "not an SQLite database"
    if first[16:18] != PAGE_SIZE.to_bytes(2, "big"):
        return f"page size is not {PAGE_SIZE}"
    if first[18:20] != b"\x01\x01":
        return "journal mode is WAL; a snapshot needs the rollback journal"
    if first[20]:
        return "pages have reserved bytes"
    return ""


def schema_cookie(first: bytes) -> bytes:
    """The number in the first page that SQLite changes with every change of the schema."""
    return first[_COOKIE]


class Snapshot:
    """One immutable SQLite file, named by its digest, mapped read-only on first use.

    Share it: every branch of it and every workspace on it reads the same mapping, which closes
    when nobody refers to the snapshot any more. A process needs only the path to open one.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self.digest = digest
        self._map: mmap | None = None

    @classmethod
    def open(cls, path: Path, digest: str) -> Snapshot:
        """The snapshot in the file at ``path``.

        Raises:
            SnapshotInvalid: the file is missing, no SQLite database, or one we cannot serve.
        """
        snapshot = cls(path, digest)
        _ = snapshot.mapping
        return snapshot

    @property
    def uri(self) -> str:
        """Where any SQLite opens it, knowing that it never changes; what is odd in the path is
        escaped. Open it with the flag that takes URIs."""
        return f"{self.path.absolute().as_uri()}?immutable=1"

    @property
    def mapping(self) -> mmap:
        """The whole file, read-only."""
        if self._map is None:
            self._map = self._open()
        return self._map

    def _open(self) -> mmap:
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise SnapshotInvalid(f"{self.path}: {error.strerror}") from error
        try:
            size = os.fstat(descriptor).st_size
            problem = header_problem(os.pread(descriptor, 100, 0).ljust(100, b"\0"))
            if not problem and size % PAGE_SIZE:
                problem = f"its {size} bytes are no whole number of pages"
            if problem:
                raise SnapshotInvalid(
                    f"{self.path}: {problem}", hint="build it with snapshots.build_database"
                )
            return mmap(descriptor, size, access=ACCESS_READ)
        finally:
            os.close(descriptor)

    @property
    def size_bytes(self) -> int:
        return len(self._map or self.mapping)

    def page(self, number: int) -> bytes:
        """The bytes of one page."""
        return self.mapping[number * PAGE_SIZE : (number + 1) * PAGE_SIZE]

    def __repr__(self) -> str:
        return f"Snapshot({self.digest[:12]})"

"""The file that SQLite opens: a branch's pages over a snapshot, and the branch's clock."""

from __future__ import annotations

import itertools
import mmap
from typing import cast

import apsw

from snapshots.errors import NotMounted
from snapshots.pages import LOCK_PAGE, PAGE_SIZE, Image, PageDelta, schema_cookie

_JULIAN_EPOCH_MS = 210866760000000
"""1970-01-01 in SQLite's Julian milliseconds."""

_NOBODYS_VERSION = b"\xff" * 16
_ZEROS = bytes(PAGE_SIZE)
_EMPTY = Image({}, 0, 0)
_CAPABILITIES = apsw.SQLITE_IOCAP_ATOMIC | apsw.SQLITE_IOCAP_SAFE_APPEND
_NAMES = itertools.count()


class MountedFile:
    """The database file of one connection. What it shows depends on the image mounted on it.

    Writes go to pending pages and reach no image; ``delta`` hands them over.
    """

    def __init__(self, base: mmap.mmap) -> None:
        self._base = base
        self.mount(_EMPTY, stale=True)

    def mount(self, image: Image, *, stale: bool) -> None:
        """Show ``image``. ``stale`` says that SQLite's page cache may hold another one's pages.

        SQLite compares 16 bytes of page 1 at the start of a transaction to learn whether its
        cache is stale. Siblings can carry the same ones, so the first such read is answered with
        bytes that match nothing: the cache goes, the parsed schema stays.
        """
        self.image = image
        self.pending: dict[int, bytes] = {}
        self._pages = image.pages
        self._base_pages = image.base_pages
        self._size = image.size_bytes
        self._kept = image.size_bytes // PAGE_SIZE  # pages of the image below it still show
        self.stale = stale

    def unmount(self) -> None:
        """Show nothing; any use raises ``NotMounted``."""
        self.image = _EMPTY

    @property
    def changed(self) -> bool:
        """Whether anything was written since ``mount``."""
        return bool(self.pending) or self._size != self.image.size_bytes

    def delta(self) -> PageDelta:
        """What was written since ``mount``."""
        pages, count = self.pending, self._size // PAGE_SIZE
        if self._kept < self.image.size_bytes // PAGE_SIZE:
            # Cut and grown again: what the image had there must not come back.
            cut = (number for number in self.image.pages if self._kept <= number < count)
            pages = {**dict.fromkeys(cut, _ZEROS), **pages}
        return PageDelta(pages, self._size, min(self._base_pages, self._kept))

    @property
    def cookie(self) -> bytes:
        """The schema cookie of what is shown now."""
        page = self.pending.get(0) or self._pages.get(0)
        return schema_cookie(page) if page else self._base[40:44]

    # --- called by SQLite ---------------------------------------------------------------------

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if amount == PAGE_SIZE:  # nearly all reads; `_page` written out, for its call is dear
            number = offset // PAGE_SIZE
            page = self.pending.get(number)
            if page is None and number < self._kept:
                page = self._pages.get(number)
                if page is None and number < self._base_pages:
                    return self._base[offset : offset + PAGE_SIZE]
            return page or self._page(number)
        if self.stale and offset == 24 and amount == 16:
            self.stale = False
            return _NOBODYS_VERSION
        number, start = divmod(offset, PAGE_SIZE)
        return self._page(number)[start : start + amount]

    def _page(self, number: int) -> bytes:
        page = self.pending.get(number)
        if page is not None:
            return page
        if number < self._kept:
            page = self._pages.get(number)
            if page is not None:
                return page
            if number < self._base_pages:
                start = number * PAGE_SIZE
                return self._base[start : start + PAGE_SIZE]
        return _ZEROS if number * PAGE_SIZE < self._size else b""

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        number, rest = divmod(offset, PAGE_SIZE)
        if rest or len(data) != PAGE_SIZE or number == LOCK_PAGE:
            raise apsw.IOError(f"write of {len(data)} bytes at {offset} is not a page")
        self.pending[number] = bytes(data)
        self._size = max(self._size, offset + PAGE_SIZE)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        count = newsize // PAGE_SIZE
        if newsize < self._size:
            self.pending = {n: page for n, page in self.pending.items() if n < count}
            self._kept = min(self._kept, count)
        self._size = newsize

    def xFileSize(self) -> int:  # noqa: N802
        return self._size

    def xLock(self, level: int) -> None:  # noqa: N802
        if self.image is _EMPTY:
            raise NotMounted("the connection was used while no branch is mounted on it")

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Nothing to unlock: one connection alone has this file."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Nothing to sync: pages become durable elsewhere."""

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return PAGE_SIZE

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return _CAPABILITIES

    def xClose(self) -> None:  # noqa: N802
        """Nothing to close: the snapshot owns the mapping."""


class Clock(apsw.VFS):
    """A VFS whose time is ``clock_ms`` (milliseconds since 1970-01-01 UTC).

    ``datetime('now')`` and ``CURRENT_TIMESTAMP`` follow it on every connection opened through it,
    in-memory ones too.
    """

    clock_ms = 0

    def __init__(self, name: str) -> None:
        self.name = f"{name}-{next(_NAMES)}"
        super().__init__(self.name, "")

    def xCurrentTimeInt64(self) -> int:  # noqa: N802
        return _JULIAN_EPOCH_MS + self.clock_ms

    def xCurrentTime(self) -> float:  # noqa: N802
        return self.xCurrentTimeInt64() / 86_400_000


class MountedVFS(Clock):
    """The VFS of one connection: it knows one file and opens no other."""

    def __init__(self, file: MountedFile) -> None:
        super().__init__("mounted")
        self._file = file

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if not flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            raise apsw.CantOpenError("a mounted connection opens no other file")
        return cast("apsw.VFSFile", self._file)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return False

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """No journal is ever on disk."""

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

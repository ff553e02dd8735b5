"""The pages of one state as nodes of SQLite's b-trees, and the rows in their cells.

Of the pages nothing is believed: what does not fit raises ``StateDamaged``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from snapshots.branch import Branch
from snapshots.errors import StateDamaged
from snapshots.pages import PAGE_SIZE
from snapshots.records import Entry, varint

INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13
TABLE_KINDS = (TABLE_INTERIOR, TABLE_LEAF)
_INTERIOR = (INDEX_INTERIOR, TABLE_INTERIOR)
_FILE_HEADER = 100
MOST_IN_TABLE = PAGE_SIZE - 35
MOST_IN_INDEX = (PAGE_SIZE - 12) * 64 // 255 - 23
_LOCAL_LEAST = (PAGE_SIZE - 12) * 32 // 255 - 23
_OVERFLOW = PAGE_SIZE - 4


class Node(NamedTuple):
    """A page of a tree. ``children`` of an interior one are one more than its ``cells``; of a
    rowid tree's it has the ``keys`` that part them."""

    leaf: bool
    cells: tuple[int, ...]
    children: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()


class Pages:
    """The pages of one state by number, and the nodes on them. ``shared`` remembers the nodes of
    the snapshot's own pages, for any number of states of it."""

    def __init__(self, branch: Branch, shared: dict[int, Node]) -> None:
        head = branch.head
        self.own = head.pages
        self.count = head.size_bytes // PAGE_SIZE
        self.base = min(head.base_pages, self.count)
        self._snapshot = branch.snapshot
        self._shared = shared
        self._nodes: dict[int, Node] = {}
        self._read: dict[int, bytes] = {}

    def __getitem__(self, number: int) -> bytes:
        page = self.own.get(number) or self._read.get(number)
        if page is None:
            if not 0 <= number < self.count:
                raise StateDamaged(f"there is no page {number}")
            page = self._snapshot.page(number) if number < self.base else bytes(PAGE_SIZE)
            self._read[number] = page
        return page

    def node(self, number: int) -> Node:
        """Raises ``StateDamaged`` if the page is no node of a tree."""
        nodes = self._nodes if number in self.own or number >= self.base else self._shared
        node = nodes.get(number)
        if node is None:
            node = nodes[number] = _parse(number, self[number])
        return node

    def free(self) -> set[int]:
        """The pages that nothing uses."""
        found: set[int] = set()
        trunk = int.from_bytes(self[0][32:36], "big")
        while trunk and trunk - 1 not in found:
            page = self[trunk - 1]
            found.add(trunk - 1)
            count = min(int.from_bytes(page[4:8], "big"), PAGE_SIZE // 4 - 2)
            found.update(leaf - 1 for leaf in struct.unpack_from(f">{count}I", page, 8))
            trunk = int.from_bytes(page[:4], "big")
        return found


def kind_of(pages: Pages, number: int) -> int:
    return pages[number][_FILE_HEADER if number == 0 else 0]


def entry_at(pages: Pages, number: int, at: int) -> Entry:
    """The row in one cell of a page of a tree."""
    page, kind = pages[number], kind_of(pages, number)
    try:
        if kind == TABLE_LEAF:
            size, start = varint(page, at)
            rowid, start = varint(page, start)
            return Entry(rowid, _payload(pages, page, start, size, MOST_IN_TABLE))
        size, start = varint(page, at + 4 * (kind == INDEX_INTERIOR))
        return Entry(None, _payload(pages, page, start, size, MOST_IN_INDEX))
    except IndexError as error:
        raise StateDamaged(f"page {number} has a cell that leads out of it") from error


def overflowing(pages: Pages, number: int) -> Iterator[int]:
    """The overflow pages of the rows on a page of a tree."""
    page, node, kind = pages[number], pages.node(number), kind_of(pages, number)
    for at in node.cells:
        if kind == TABLE_INTERIOR:
            return
        size, start = varint(page, at + 4 * (kind == INDEX_INTERIOR))
        most = MOST_IN_INDEX
        if kind == TABLE_LEAF:
            _, start = varint(page, start)
            most = MOST_IN_TABLE
        if size > most:
            start += _local(size, most)
            yield from _chain(pages, int.from_bytes(page[start : start + 4], "big"))


def _parse(number: int, page: bytes) -> Node:
    start = _FILE_HEADER if number == 0 else 0
    kind = page[start]
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    try:
        if kind in (TABLE_LEAF, INDEX_LEAF):
            return Node(True, struct.unpack_from(f">{count}H", page, start + 8))
        if kind in _INTERIOR:
            cells = struct.unpack_from(f">{count}H", page, start + 12)
            last = int.from_bytes(page[start + 8 : start + 12], "big") - 1
            below = [int.from_bytes(page[cell : cell + 4], "big") - 1 for cell in cells]
            keys = [varint(page, cell + 4)[0] for cell in cells if kind == TABLE_INTERIOR]
            return Node(False, cells, (*below, last), tuple(keys))
    except (struct.error, IndexError) as error:
        raise StateDamaged(f"page {number} claims {count} cells") from error
    raise StateDamaged(f"page {number} is no page of a tree")


def _payload(pages: Pages, page: bytes, start: int, size: int, most: int) -> bytes:
    """A record, gathered from its overflow pages where it does not fit on its own."""
    if size <= most:
        if start + size > PAGE_SIZE:
            raise IndexError
        return page[start : start + size]
    end = start + _local(size, most)
    if end + 4 > PAGE_SIZE:
        raise IndexError
    parts, missing = [page[start:end]], size - (end - start)
    for number in _chain(pages, int.from_bytes(page[end : end + 4], "big")):
        parts.append(pages[number][4 : 4 + missing])
        missing -= len(parts[-1])
        if not missing:
            return b"".join(parts)
    raise StateDamaged("a row ends before its length")


def _local(size: int, most: int) -> int:
    """How much of a record that overflows is on its own page."""
    local = _LOCAL_LEAST + (size - _LOCAL_LEAST) % _OVERFLOW
    return local if local <= most else _LOCAL_LEAST


def _chain(pages: Pages, first: int) -> Iterator[int]:
    """The pages of an overflow chain."""
    seen = 0
    while first:
        yield first - 1
        first = int.from_bytes(pages[first - 1][:4], "big")
        seen += 1
        if seen > pages.count:
            raise StateDamaged("an overflow chain has no end")

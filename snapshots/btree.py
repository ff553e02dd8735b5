"""Telling the b-trees of two states apart by their pages.

Which rows differ between two states is read off the pages that differ: those reachable in the
state before are found by their keys, the trees of both are then walked only where they hold such a
page, and subtrees that hang in both are left out. So the cost follows the number of changed pages.
The state before must be sound; of the one after nothing is believed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from snapshots.errors import StateDamaged
from snapshots.nodes import (
    MOST_IN_INDEX,
    MOST_IN_TABLE,
    TABLE_KINDS,
    Node,
    Pages,
    entry_at,
    kind_of,
)
from snapshots.pages import PAGE_SIZE
from snapshots.records import Entry, Order, varint

_MAX_DEPTH = 20


class Tree(NamedTuple):
    """One table's b-tree. ``order`` is None where rows are kept by rowid, and else says how their
    keys sort (a table WITHOUT ROWID is kept as an index)."""

    root: int
    order: Order | None


def differing(before: Pages, after: Pages) -> set[int]:
    """The numbers of the pages whose bytes differ, those that only one state has among them."""
    candidates = {*before.own, *after.own}
    for one, other in ((before.base, after.base), (before.count, after.count)):
        candidates.update(range(min(one, other), max(one, other)))
    return {
        number
        for number in candidates
        if number >= before.count or number >= after.count or before[number] != after[number]
    }


# --- finding pages -------------------------------------------------------------------------------


Search = Callable[[int, Node], int]
"""Below which child of an interior node (its page, itself) some key belongs."""


def trail(pages: Pages, root: int, target: int, search: Search | None) -> list[int]:
    """The pages from ``root`` to ``target``, or none if it is not in that tree. ``search`` looks
    for the first key of ``target``."""
    if target == root:
        return [target]
    walked, node = [root], pages.node(root)
    while search is not None and node.children and len(walked) < _MAX_DEPTH:
        number = node.children[search(walked[-1], node)]
        walked.append(number)
        if number == target:
            return walked
        node = pages.node(number)
    return []


def rowid_search(pages: Pages, target: int) -> Search | None:
    """Looks for the first row of a page that is of some tree kept by rowid."""
    try:
        node = pages.node(target)
        if not node.cells:
            return None
        rowid = node.keys[0] if node.keys else entry_at(pages, target, node.cells[0]).rowid
    except StateDamaged:
        return None
    return None if rowid is None else lambda _, above: bisect_left(above.keys, rowid)


def key_search(pages: Pages, target: int, order: Order) -> Search | None:
    """Looks for the first entry of a page, if its tree is one that sorts by ``order``."""
    try:
        node = pages.node(target)
        if not node.cells:
            return None
        first = order.key(entry_at(pages, target, node.cells[0]).record)
    except StateDamaged:
        return None

    def search(number: int, above: Node) -> int:
        low, high = 0, len(above.cells)
        while low < high:
            middle = (low + high) // 2
            other = order.key(entry_at(pages, number, above.cells[middle]).record)
            if order.compare(first, other) <= 0:
                high = middle
            else:
                low = middle + 1
        return low

    return search


# --- telling two trees apart ----------------------------------------------------------------------


def tree_difference(
    before: Pages, after: Pages, tree: Tree, held: set[int], differs: set[int]
) -> tuple[set[Entry], set[Entry]]:
    """The entries that only the tree of the state before has, and those only after.

    ``held`` are pages of the tree before that have a page of ``differs`` at or below them.

    Raises:
        StateDamaged: the tree after is no tree.
    """
    old, new = sides = (_Side(before, tree), _Side(after, tree))
    for side in sides:
        side.open(tree.root, 0, held, differs)
    for one, other in ((old, new), (new, old)):
        one.shut_below(one.alike - other.alike)
    while True:
        for number in old.shut.keys() & new.shut.keys():
            del old.shut[number], new.shut[number]  # the same subtree hangs in both
        highest = max(old.highest, new.highest)
        if highest < 0:
            break
        for side in sides:
            side.open_those(highest)
    return old.entries_without(new), new.entries_without(old)


class _Side:
    """One of the two trees: what is read of it, and the subtrees still shut."""

    def __init__(self, pages: Pages, tree: Tree) -> None:
        self.alike: set[int] = set()
        """Opened pages that have the same bytes in both states; where they hang in both trees,
        their other subtrees do too."""
        self.shut: dict[int, int] = {}
        """Height by page of the root of a subtree."""
        self._pages = pages
        self._table = tree.order is None
        self._depths: dict[int, int] = {}
        self._pieces: dict[int, dict[bytes, int]] = {}
        self._entries: set[Entry] = set()
        self._height = 0
        number = tree.root
        while not (node := pages.node(number)).leaf:
            self._height += 1
            number = node.children[0]
            if self._height > _MAX_DEPTH:
                raise StateDamaged("a tree has no end")

    @property
    def highest(self) -> int:
        return max(self.shut.values(), default=-1)

    def open_those(self, height: int) -> None:
        """Open all shut subtrees of that height, shutting those below."""
        for number in [number for number, its in self.shut.items() if its == height]:
            del self.shut[number]
            self.open(number, self._height - height, set(), {number})

    def open(self, number: int, depth: int, held: set[int], differs: set[int]) -> None:
        """Take the entries of a page; go on where a page that differs may be below."""
        if number in self._depths or depth > _MAX_DEPTH:
            raise StateDamaged(f"page {number} hangs in a tree twice")
        self._depths[number] = depth
        node = self._pages.node(number)
        if (kind_of(self._pages, number) in TABLE_KINDS) is not self._table:
            raise StateDamaged(f"page {number} hangs in a tree of another kind")
        if number not in differs:
            self.alike.add(number)  # its own rows are in both
            for child in held.intersection(node.children):
                self.open(child, depth + 1, held, differs)
            return
        if node.leaf or not self._table:
            self._take(number, node)
        for child in node.children:
            if child in held or child in differs:
                self.open(child, depth + 1, held, differs)
            else:
                self._shut(child, depth + 1)

    def shut_below(self, numbers: Iterable[int]) -> None:
        """Pages alike that do not hang in the other tree: all of them counts after all."""
        for number in numbers:
            node = self._pages.node(number)
            if node.leaf or not self._table:
                self._take(number, node)
            for child in node.children:
                if child not in self._depths:
                    self._shut(child, self._depths[number] + 1)

    def _shut(self, number: int, depth: int) -> None:
        if number in self.shut:
            raise StateDamaged(f"page {number} hangs in a tree twice")
        self.shut[number] = max(0, self._height - depth)

    def _take(self, number: int, node: Node) -> None:
        """Cut the page into cells, each up to where the next one lies.

        Equal pieces are equal cells, whatever lies between cells, so that few must be decoded.
        What overflows is decoded here: its piece does not tell all.
        """
        page = self._pages[number]
        cuts = sorted(node.cells)
        pieces = {page[at:end]: at for at, end in zip(cuts, [*cuts[1:], PAGE_SIZE], strict=False)}
        skip = 0 if node.leaf else 4
        most = MOST_IN_TABLE if self._table else MOST_IN_INDEX
        long = [piece for piece in pieces if piece[skip : skip + 1] >= b"\x80"]
        for piece in long:
            if _size(piece, skip) > most:
                self._entries.add(entry_at(self._pages, number, pieces.pop(piece)))
        self._pieces[number] = pieces

    def entries_without(self, other: _Side) -> set[Entry]:
        """The entries that ``other`` does not have."""
        return self._decoded(other) - other._decoded(self)

    def _decoded(self, other: _Side) -> set[Entry]:
        """The entries that overflow, and those whose piece is not on the same page in ``other``."""
        return self._entries.union(
            entry_at(self._pages, number, pieces[piece])
            for number, pieces in self._pieces.items()
            for piece in pieces.keys() - other._pieces.get(number, {}).keys()
        )


def _size(piece: bytes, at: int) -> int:
    try:
        return varint(piece, at)[0]
    except IndexError:
        return PAGE_SIZE  # let the decoder complain


def leaves(pages: Pages, tree: Tree) -> Iterator[list[int]]:
    """Every page of a tree that has rows, each with the way to it from the root."""
    pending = [[tree.root]]
    while pending:
        way = pending.pop()
        node = pages.node(way[-1])
        if node.leaf or tree.order is not None:
            yield way
        pending.extend([*way, child] for child in node.children)

"""What one worker knows of branches, kept by the gateway so that only the difference is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from environments.sandbox.wire import View
from snapshots.branch import Branch

MAX_PAGES: Final = 8192
MAX_SLOTS: Final = 1024


class Known:
    """The pages a worker has, by slot, least recently used first.

    The gateway alone decides what is forgotten and says so in the next view, so both sides always
    hold the same. Pages are compared by identity: one that was sent is the same object still.
    """

    __slots__ = ("_count", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, Mapping[int, bytes]] = {}
        self._count = 0

    def __contains__(self, slot: int) -> bool:
        return slot in self._slots

    def view(self, slot: int, branch: Branch) -> View:
        """How to tell the worker the state of ``branch``; from here on it counts as told."""
        head = branch.head
        pages = head.pages
        known = self._slots.pop(slot, None)
        self._slots[slot] = pages
        dropped: tuple[int, ...] = ()
        if known is pages:
            lacking: dict[int, bytes] = {}
        else:
            lacking = branch.delta_from(known)
            if known:
                new = len(lacking.keys() - known.keys())
                if len(known) + new > len(pages):
                    dropped = tuple(number for number in known if number not in pages)
            self._count += len(pages) - len(known or ())
        return View(
            slot=slot,
            pages=lacking,
            dropped=dropped,
            size_bytes=head.size_bytes,
            base_pages=head.base_pages,
            forget=self._evict(slot),
        )

    def advance(self, slot: int, pages: Mapping[int, bytes]) -> None:
        """The worker's branch in ``slot`` has moved on and has these ``pages`` now."""
        self._count += len(pages) - len(self._slots[slot])
        self._slots[slot] = pages

    def _evict(self, keep: int) -> tuple[int, ...]:
        if self._count <= MAX_PAGES and len(self._slots) <= MAX_SLOTS:
            return ()
        forgotten = []
        for slot in list(self._slots):
            if slot == keep:
                break
            self._count -= len(self._slots.pop(slot))
            forgotten.append(slot)
            if self._count <= MAX_PAGES and len(self._slots) <= MAX_SLOTS:
                break
        return tuple(forgotten)

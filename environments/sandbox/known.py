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

    __slots__ = ("_count", "_doubtful", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, Mapping[int, bytes]] = {}
        self._count = 0
        self._doubtful: list[int] = []

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
        known = self._slots.get(slot)
        if known is not None:  # else it was told meanwhile to forget the slot
            self._count += len(pages) - len(known)
            self._slots[slot] = pages

    def distrust(self, slot: int) -> None:
        """What the worker has in ``slot`` will not be known; it is to forget it."""
        known = self._slots.pop(slot, None)
        if known is not None:
            self._count -= len(known)
            self._doubtful.append(slot)

    def _evict(self, keep: int) -> tuple[int, ...]:
        if self._count <= MAX_PAGES and len(self._slots) <= MAX_SLOTS and not self._doubtful:
            return ()
        forgotten, self._doubtful = self._doubtful, []
        for slot in list(self._slots):
            if slot == keep or (self._count <= MAX_PAGES and len(self._slots) <= MAX_SLOTS):
                break
            self._count -= len(self._slots.pop(slot))
            forgotten.append(slot)
        return tuple(forgotten)

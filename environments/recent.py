"""Values that are made again when they are wanted again, so that thousands need not be kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

_T = TypeVar("_T")


class Recent(Generic[_T]):
    """Values by name: the last ``count`` that were asked for, and all that somebody else holds.

    May be used by several threads.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: OrderedDict[str, _T] = OrderedDict()
        self._there: WeakValueDictionary[str, _T] = WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, name: str) -> _T | None:
        """The value of that name, if it is still there."""
        with self._lock:
            value = self._there.get(name)
            if value is not None:
                self._keep(name, value)
            return value

    def put(self, name: str, value: _T) -> None:
        """Keep a value under a name, in place of one that was there."""
        with self._lock:
            self._there[name] = value
            self._keep(name, value)

    def _keep(self, name: str, value: _T) -> None:
        self._kept[name] = value
        self._kept.move_to_end(name)
        if len(self._kept) > self._count:
            self._kept.popitem(last=False)

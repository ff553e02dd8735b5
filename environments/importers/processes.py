"""Work in processes of its own: an item that kills its process, or hangs, is lost alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from environments.sandbox.confine.processes import die_with_parent

_CONTEXT = multiprocessing.get_context("spawn")  # nothing of this process, its threads above all
_CLOSING_SECONDS = 10.0
_T = TypeVar("_T")
_R = TypeVar("_R")

Bench = Callable[[], AbstractContextManager[Callable[[_T], _R]]]
"""What a process opens once, and the work it then does item by item. Picklable, as are items and
results. What the work raises ends its process."""


class Lost(NamedTuple):
    """No result came of an item, and why."""

    reason: str


def spread(
    bench: Bench[_T, _R], items: Sequence[_T], *, jobs: int, seconds: float, scratch: Path
) -> Iterator[tuple[_T, _R | Lost]]:
    """Every item with what came of it, as they are done, ``jobs`` at a time.

    An item that takes longer than ``seconds`` is lost. Temporary files of the processes lie in
    ``scratch``. Leaving the iterator ends what is under way, and so does the end of this process,
    however it comes.
    """
    waiting = deque(items)
    hands: list[_Hand[_T, _R]] = []
    try:
        while waiting or any(hand.items for hand in hands):
            while waiting and len(hands) < jobs:
                hands.append(_Hand(bench, scratch))
            for hand in hands:
                if waiting and not hand.items:
                    hand.give(waiting.popleft())
            busy = {hand.connection: hand for hand in hands if hand.items}
            due = min(hand.since for hand in busy.values()) + seconds
            answered = wait(list(busy), max(0.0, due - time.monotonic()))
            for connection, hand in busy.items():
                if connection in answered:
                    result = hand.take()
                elif time.monotonic() - hand.since >= seconds:
                    result = hand.kill(f"it took longer than {seconds:g} s")
                else:
                    continue
                if not hand.alive:
                    hands.remove(hand)
                (item,), hand.items = hand.items, ()
                yield item, result
        for hand in hands:
            hand.close()
    finally:
        for hand in hands:
            hand.kill("nobody waits for it")


class _Hand(Generic[_T, _R]):
    """One process, and what it is at."""

    def __init__(self, bench: Bench[_T, _R], scratch: Path) -> None:
        self.items: tuple[_T, ...] = ()
        """The one item it is at, or none."""
        self.since = 0.0
        self.alive = True
        self.connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(
            target=_serve, args=(theirs, bench, scratch, os.getpid()), daemon=True
        )
        self._process.start()
        theirs.close()

    def give(self, item: _T) -> None:
        self.items, self.since = (item,), time.monotonic()
        with suppress(BrokenPipeError):  # it has ended, and that is what it will have answered
            self.connection.send(item)

    def take(self) -> _R | Lost:
        """What it answered, or how it ended instead."""
        try:
            result: _R = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_CLOSING_SECONDS)
            code = self._process.exitcode or 0
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            return self.kill(f"the process that was at it ended {how}")
        return result

    def close(self) -> None:
        """Let it put away what it has open."""
        self.connection.close()
        self._process.join(_CLOSING_SECONDS)

    def kill(self, reason: str) -> Lost:
        """End it, if it still lives."""
        self.alive = False
        self._process.kill()
        self._process.join()
        self.connection.close()
        return Lost(reason)


def _serve(connection: Connection, bench: Bench[_T, _R], scratch: Path, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    die_with_parent(parent)
    tempfile.tempdir = str(scratch)
    with bench() as work:
        while True:
            try:
                item = connection.recv()
            except EOFError:
                return
            connection.send(work(item))

"""Processes and their families, as far as only Linux knows them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Final

from environments.sandbox.confine import kernel

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process once ``parent`` is gone; where Linux is not, its socket ends it."""
    if kernel.LINUX:
        kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of what a dead worker leaves behind, so that it can be killed."""
    if kernel.LINUX:
        kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_orphans(known: Collection[int]) -> None:
    """Kill the children of this (single-threaded) process that are none of ``known``."""
    pid = os.getpid()
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()
    except OSError:
        return
    for child in map(int, children):
        if child not in known:
            os.kill(child, signal.SIGKILL)


def own_bytes(pid: int) -> int:
    """The resident memory of a process that it shares with nobody; 0 where that cannot be told.

    Only root may look at a confined worker so closely. Others are told all it has that is no file,
    which for a forked process is too much and never too little.
    """
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
        return 1024 * sum(
            int(line.split()[1]) for line in rollup.splitlines() if line.startswith(b"Private_")
        )
    except OSError:
        return _without_files(pid)


def _without_files(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES


def renice(pid: int, niceness: int, session_niceness: int) -> bool:
    """Set how far every thread of a process stands back; ``False`` where that is not allowed.

    Where the kernel weighs sessions against one another (autogroup), and lets us, its session is
    set as well. Where the process is gone, or threads cannot be told, there is nothing to do.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(session_niceness))
    done: set[Path] = set()
    try:
        for _ in range(4):  # those that come meanwhile are looked for again, but not for ever
            threads = set(Path(f"/proc/{pid}/task").iterdir()) - done
            for thread in threads:
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
            done |= threads
    except PermissionError:
        return False
    except OSError:
        pass
    return True


def mapped_bytes() -> int:
    """The address space of this process. Raises ``OSError`` where that cannot be told."""
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)  # pathlib touches a lot of shared pages
    try:
        return int(os.read(descriptor, 100).split()[0]) * _PAGE_BYTES
    finally:
        os.close(descriptor)

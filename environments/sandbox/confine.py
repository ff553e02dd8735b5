"""What holds a worker down, and everything here that only Linux has.

``apply`` puts on every layer this kernel offers and says which; a layer that is missing is reported
and never silently skipped. Elsewhere than on Linux the module still imports and runs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from environments.sandbox.wire import WorkerLimits

LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Layers:
    """Names of the layers that are on, and of those that could not be put on."""

    active: tuple[str, ...]
    missing: tuple[str, ...]


def apply(limits: WorkerLimits) -> Layers:
    """Confine this process for good. Call it before any untrusted code is loaded."""
    layers: dict[str, Callable[[], None]] = {
        "niceness": lambda: _be_nice(limits.niceness),
        "memory": lambda: _limit_memory(limits.memory_bytes),
        "file_size": lambda: _limit(resource.RLIMIT_FSIZE, limits.file_bytes),
        "open_files": lambda: _limit(resource.RLIMIT_NOFILE, limits.open_files),
        "core": lambda: _limit(resource.RLIMIT_CORE, 0),
        "no_new_privs": lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1),
        "not_dumpable": lambda: _prctl(_PR_SET_DUMPABLE, 0),
    }
    active, missing = [], []
    for name, put_on in layers.items():
        try:
            put_on()
        except (OSError, ValueError):
            missing.append(name)
        else:
            active.append(name)
    return Layers(tuple(active), tuple(missing))


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process once ``parent`` is gone; where Linux is not, its socket ends it."""
    if LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of what a dead worker leaves behind, so that it can be killed."""
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


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


def resident_bytes(pid: int) -> int:
    """The resident memory of a process, shared pages included; 0 where that cannot be told."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _limit_memory(extra_bytes: int) -> None:
    """Address space, counted from what the process has mapped already."""
    if not LINUX:
        raise OSError("the address space of this platform cannot be limited")
    mapped = int(Path("/proc/self/statm").read_bytes().split()[0]) * _PAGE_BYTES
    _limit(resource.RLIMIT_AS, mapped + extra_bytes)


def _be_nice(niceness: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _prctl(option: int, value: int) -> None:
    if not LINUX:
        raise OSError("prctl is Linux's")
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")

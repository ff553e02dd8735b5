"""Putting all layers on one process."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from environments.sandbox.confine import kernel, landlock, seccomp
from environments.sandbox.confine.grounds import shared_grants
from environments.sandbox.confine.landlock import Grant, Opened
from environments.sandbox.confine.processes import mapped_bytes
from environments.sandbox.confine.syscalls import MACHINES

if TYPE_CHECKING:
    from environments.sandbox.wire import WorkerLimits

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

RLIMITS: Final = ("memory", "file_size", "open_files", "core")
LAYERS: Final = (
    "niceness", *RLIMITS, "no_capabilities", "no_new_privs", "not_dumpable", "landlock", "seccomp",
)  # fmt: skip
"""In the order in which they are put on: each must still be allowed by those before."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Names of the layers that are on, and of those that could not be put on."""

    active: tuple[str, ...]
    missing: tuple[str, ...]


class Confinement:
    """What workers are held to. Prepared once in the process they are forked from."""

    def __init__(self) -> None:
        self._shared = landlock.look_up(shared_grants()) if landlock.abi() else []
        self._filters: dict[bool, seccomp.Filter] = {}
        if kernel.LINUX and sys.maxsize > 1 << 32 and kernel.MACHINE in MACHINES:
            kinds = (False, True)
            self._filters = {kind: seccomp.Filter(kernel.MACHINE, writer=kind) for kind in kinds}

    def apply(self, limits: WorkerLimits) -> Layers:
        """Confine this process for good. Call it before any untrusted code is loaded.

        Never raises for a layer that cannot be had: that one is among the ``missing``, as are
        those that ``limits`` leave out.
        """
        put_on: dict[str, Callable[[], None]] = {
            "niceness": lambda: _be_nice(limits.niceness),
            "memory": lambda: _limit(resource.RLIMIT_AS, mapped_bytes() + limits.memory_bytes),
            "file_size": lambda: _limit(resource.RLIMIT_FSIZE, limits.file_bytes),
            "open_files": lambda: _limit(resource.RLIMIT_NOFILE, limits.open_files),
            "core": lambda: _limit(resource.RLIMIT_CORE, 0),
            "no_capabilities": kernel.drop_capabilities,
            "no_new_privs": lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1),
            "not_dumpable": lambda: _prctl(_PR_SET_DUMPABLE, 0),
            "landlock": lambda: self._restrict_files(limits.readable, limits.writable),
            "seccomp": lambda: self._filter(writer=bool(limits.writable)),
        }
        active, missing = [], []
        for name in LAYERS:
            try:
                if name in limits.without:
                    raise OSError("left out")
                put_on[name]()
            except (OSError, ValueError):
                missing.append(name)
            else:
                active.append(name)
        self._close()
        return Layers(tuple(active), tuple(missing))

    def _restrict_files(self, readable: Collection[str], writable: Collection[str]) -> None:
        own = landlock.look_up(
            [
                *(Grant(path, landlock.READ) for path in readable),
                *(Grant(path, landlock.WRITE) for path in writable),
            ]
        )
        try:
            landlock.restrict([*self._shared, *own])
        finally:
            _close(own)

    def _filter(self, *, writer: bool) -> None:
        if not self._filters:
            raise OSError("there is a filter only for 64-bit Linux on x86-64 and aarch64")
        self._filters[writer].install()

    def _close(self) -> None:
        _close(self._shared)
        self._shared = []


def _close(opened: Collection[Opened]) -> None:
    for descriptor, _ in opened:
        os.close(descriptor)


def _prctl(option: int, value: int) -> None:
    kernel.prctl(option, value)


def _be_nice(niceness: int) -> None:
    niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, 0))
    os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))

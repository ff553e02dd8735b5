"""The filter of system calls: a list of what is allowed, everything else fails with EPERM."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import Final

from environments.sandbox.confine import bpf, kernel
from environments.sandbox.confine.bpf import Instruction
from environments.sandbox.confine.syscalls import (
    ABSENT,
    CHECKS,
    MACHINES,
    NUMBERS,
    READERS_CHECKS,
    SELF,
    WRITERS,
    Check,
)

_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
"""Offsets in the kernel's ``struct seccomp_data``; arguments are 64 bits, little end first."""

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
REFUSE: Final = 0x00050000 | errno.EPERM
NOT_THERE: Final = 0x00050000 | errno.ENOSYS

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2


def program(machine: str, pid: int, *, writer: bool) -> list[Instruction]:
    """The filter of process ``pid`` on ``machine`` (``x86_64`` or ``aarch64``).

    ``writer``: it may open files for writing. Calls by another convention than the machine's own
    (32-bit programs) end the process, since their numbers mean something else.
    """
    column = MACHINES.index(machine)
    checks = CHECKS if writer else {**CHECKS, **READERS_CHECKS}
    made = [
        Instruction(bpf.LOAD, _ARCH),
        Instruction(bpf.JUMP_EQUAL, _AUDIT_ARCH[machine], jt=1),
        Instruction(bpf.RETURN, KILL),
        Instruction(bpf.LOAD, _NUMBER),
    ]
    for name, numbers in NUMBERS.items():
        number = numbers[column]
        if number is None or (name in WRITERS and not writer):
            continue
        if name in checks:
            verdict = list(_checking(checks[name], pid))
        else:
            verdict = [Instruction(bpf.RETURN, NOT_THERE if name in ABSENT else ALLOW)]
        made.append(Instruction(bpf.JUMP_EQUAL, number, jf=len(verdict)))
        made += verdict
    made.append(Instruction(bpf.RETURN, REFUSE))
    return made


def _checking(checks: tuple[Check, ...], pid: int) -> Iterator[Instruction]:
    """Decides about a call by its arguments: all checks must hold."""
    for check in checks:
        low = _ARGUMENTS + 8 * check.argument
        if check.whole:
            yield Instruction(bpf.LOAD, low + 4)
            yield Instruction(bpf.JUMP_EQUAL, 0, jt=1)
            yield Instruction(bpf.RETURN, REFUSE)
        yield Instruction(bpf.LOAD, low)
        if check.mask != 0xFFFF_FFFF:
            yield Instruction(bpf.AND, check.mask)
        values = [pid if value == SELF else value for value in check.values]
        for left, value in zip(range(len(values), 0, -1), values, strict=True):
            if check.among:
                yield Instruction(bpf.JUMP_EQUAL, value, jt=left)
            else:
                yield Instruction(bpf.JUMP_EQUAL, value, jf=1)
                yield Instruction(bpf.RETURN, REFUSE)
        if check.among:
            yield Instruction(bpf.RETURN, REFUSE)
    yield Instruction(bpf.RETURN, ALLOW)


class Filter:
    """The filter of a kind of process, built once and installed by many."""

    def __init__(self, machine: str, *, writer: bool) -> None:
        one, another = (program(machine, pid, writer=writer) for pid in (1, 2))
        self._code = ctypes.create_string_buffer(bpf.encode(one), len(one) * bpf.BYTES)
        self._count = len(one)
        self._pids = [number for number in range(len(one)) if one[number] != another[number]]

    def code(self, pid: int) -> bytes:
        """The encoded program of process ``pid``."""
        for number in self._pids:
            bpf.put(self._code, number, pid)
        return self._code.raw

    def install(self) -> None:
        """Put it on this process, which must have one thread and ``no_new_privs``.

        Raises ``OSError``.
        """
        self.code(os.getpid())
        # struct sock_fprog: a 16-bit count, then an aligned pointer
        header = struct.pack("=QQ", self._count, ctypes.addressof(self._code))
        given = ctypes.create_string_buffer(header, len(header))
        kernel.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(given))

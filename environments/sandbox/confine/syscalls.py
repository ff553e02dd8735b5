"""The system calls that a worker may make, by name: all others are answered with EPERM."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

SELF: Final = -1
"""Stands for the worker's own process id."""

MACHINES: Final = ("x86_64", "aarch64")
"""The order of the numbers below; ``None`` where a machine does not have the call."""

NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    # the channel to the gateway
    "recvfrom": (45, 207), "sendto": (44, 206),
    # files; Landlock says which
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66),
    "pread64": (17, 67), "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70),
    "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "fstat": (5, 80),
    "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61),
    "getcwd": (79, 17), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pipe": (22, None), "pipe2": (293, 59), "fsync": (74, 82), "fdatasync": (75, 83),
    "ftruncate": (77, 46), "fadvise64": (221, 223), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72),
    # memory
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226),
    "mremap": (25, 216), "madvise": (28, 233),
    # threads of its own
    "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293), "exit": (60, 93),
    "exit_group": (231, 94), "gettid": (186, 178), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "getcpu": (309, 168),
    # signals to itself
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132), "pause": (34, None), "alarm": (37, None), "getitimer": (36, 102),
    "setitimer": (38, 103), "restart_syscall": (219, 128),
    # time
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "getrusage": (98, 165),
    # who and where it is
    "getpid": (39, 172), "getppid": (110, 173), "getpgrp": (111, None), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "getrlimit": (97, 163),
    "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278),
    # allowed to some, or with some arguments
    "open": (2, None), "openat": (257, 56), "unlink": (87, None), "unlinkat": (263, 35),
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131),
    "fcntl": (72, 25), "ioctl": (16, 29), "prctl": (157, 167), "prlimit64": (302, 261),
}  # fmt: skip
"""Every call that is not refused out of hand."""


class Check(NamedTuple):
    """An argument (its lower 32 bits, under ``mask``) must be, or not be, ``among`` values."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFF_FFFF
    among: bool = True
    whole: bool = False
    """Its upper 32 bits must be zero too."""


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0o20000000  # O_TMPFILE's own bit
_THREAD = 0x3D0F00
"""CLONE_ VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID."""
_DETACHED = 0x400000
"""Means nothing any more, but musl sets it."""

CHECKS: Final[dict[str, tuple[Check, ...]]] = {
    "clone": (Check(0, (_THREAD,), mask=0xFFFF_FFFF & ~_DETACHED),),
    # Not SIGKILL: a worker that dies of it was killed from outside, and is not to blame.
    "kill": (Check(0, (SELF,)), Check(1, (9,), among=False)),
    "tgkill": (Check(0, (SELF,)), Check(2, (9,), among=False)),
    # DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, SETLK, SETLKW, DUPFD_CLOEXEC; not SETOWN and SETSIG,
    # by which the kernel sends any signal to anybody.
    "fcntl": (Check(1, (0, 1, 2, 3, 4, 5, 6, 7, 1030)),),
    # FIONCLEX, FIOCLEX, FIONBIO, FIONREAD
    "ioctl": (Check(1, (0x5450, 0x5451, 0x5421, 0x541B)),),
    # SET_NAME, GET_NAME, SET_VMA (names a mapping); not SET_DUMPABLE, not SET_PDEATHSIG
    "prctl": (Check(0, (15, 16, 0x53564D41)),),
    # to read limits, not to set them
    "prlimit64": (Check(2, (0,), whole=True),),
}
READERS_CHECKS: Final[dict[str, tuple[Check, ...]]] = {
    "open": (Check(1, (0,), mask=_WRITING),),
    "openat": (Check(2, (0,), mask=_WRITING),),
}
"""For every worker but one that writes a file."""

WRITERS: Final = frozenset(("unlink", "unlinkat"))
"""Only for a worker that writes a file; Landlock says where."""

ABSENT: Final = frozenset(("clone3",))
"""Answered with ENOSYS, so that the C library falls back on what can be checked."""

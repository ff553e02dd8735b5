"""The filter of system calls, for both machines, by interpreting its program as the kernel does."""

from __future__ import annotations

import errno
import os
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments.sandbox.confine import bpf, seccomp
from tests.security.kernel import (
    ARCHITECTURES,
    CALLS,
    EM_ARM,
    EM_X32_BIT,
    Question,
    interpret,
    jumps_are_inside,
)

PID = 4711
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
MACHINES = ("x86_64", "aarch64")
THREAD = 0x3D0F00
SIGNALLING = (8, 10, 15, 1024, 1026)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY."""

LISTED = """
    recvfrom sendto read write readv writev pread64 pwrite64 preadv pwritev lseek close close_range
    fstat newfstatat stat lstat statx access faccessat faccessat2 readlink readlinkat getdents64
    getcwd dup dup2 dup3 pipe pipe2 fsync fdatasync ftruncate fadvise64 poll ppoll select pselect6
    brk mmap munmap mprotect mremap madvise futex set_robust_list rseq exit exit_group gettid
    sched_yield sched_getaffinity getcpu rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending
    rt_sigsuspend rt_sigtimedwait sigaltstack pause alarm getitimer setitimer restart_syscall
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage getpid
    getppid getpgrp getuid geteuid getgid getegid getresuid getresgid getgroups getrlimit uname
    sysinfo getrandom
"""
FREELY = set(LISTED.split())
BY_ARGUMENTS = {
    "open", "openat", "clone", "kill", "tgkill", "fcntl", "ioctl", "prctl", "prlimit64",
}  # fmt: skip
WRITERS_ONLY = {"unlink", "unlinkat"}


def decide(machine: str, name: str, *arguments: int, writer: bool = False) -> int:
    code = bpf.encode(seccomp.program(machine, PID, writer=writer))
    number = CALLS[machine][name]
    return interpret(code, Question(number, ARCHITECTURES[machine], arguments))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("writer", [False, True], ids=["reader", "writer"])
def test_every_system_call_there_is(machine: str, writer: bool) -> None:
    code = bpf.encode(seccomp.program(machine, PID, writer=writer))
    assert jumps_are_inside(code)
    allowed = set()
    for name, number in CALLS[machine].items():
        verdict = interpret(code, Question(number, ARCHITECTURES[machine]))
        if name == "clone3":
            assert verdict == ENOSYS
        elif name not in BY_ARGUMENTS:
            assert verdict in (ALLOW, EPERM)
            allowed |= {name} if verdict == ALLOW else set()
    wanted = FREELY | (WRITERS_ONLY if writer else set())
    assert allowed == wanted & set(CALLS[machine])


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_that_mean_nothing_are_refused(machine: str) -> None:
    code = bpf.encode(seccomp.program(machine, PID, writer=True))
    known = set(CALLS[machine].values())
    for number in {*range(-2, 1200), 2**31 - 1, -(2**31)} - known:
        assert interpret(code, Question(number, ARCHITECTURES[machine])) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_another_calling_convention_ends_the_process(machine: str) -> None:
    code = bpf.encode(seccomp.program(machine, PID, writer=True))
    others = {ARCHITECTURES["i386"], EM_ARM, *ARCHITECTURES.values()} - {ARCHITECTURES[machine]}
    for other in others:
        for number in range(500):
            assert interpret(code, Question(number, other)) == KILL
    if machine == "x86_64":  # x32 shares the architecture; its numbers have a bit of their own
        for number in range(600):
            assert interpret(code, Question(number | EM_X32_BIT, ARCHITECTURES[machine])) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("clone", (THREAD,), True),
        ("clone", (THREAD | 0x400000,), True),  # musl
        ("clone", (signal.SIGCHLD,), False),
        ("clone", (0x4111,), False),  # vfork
        ("clone", (THREAD | 0x10000000,), False),  # CLONE_NEWUSER
        ("clone", (THREAD & ~0x10000,), False),  # no CLONE_THREAD
        ("kill", (PID, signal.SIGTERM), True),
        ("kill", (PID, 0), True),
        ("kill", (PID, signal.SIGKILL), False),
        ("kill", (PID, signal.SIGKILL | 1 << 32), False),
        ("kill", (PID | 7 << 32, signal.SIGTERM), True),  # pid_t has 32 bits
        ("kill", (0, signal.SIGTERM), False),
        ("kill", (-1, 0), False),
        ("kill", (-PID, 0), False),
        ("kill", (PID + 1, 0), False),
        ("tgkill", (PID, PID + 1, signal.SIGUSR1), True),
        ("tgkill", (PID, PID, signal.SIGKILL), False),
        ("tgkill", (PID + 1, PID, 0), False),
        ("fcntl", (3, 1), True),
        ("fcntl", (3, 1030), True),
        *(("fcntl", (3, c), False) for c in SIGNALLING),
        ("ioctl", (3, 0x5451), True),
        ("ioctl", (3, 0x5451 | 1 << 32), True),
        ("ioctl", (0, 0x5412), False),  # TIOCSTI
        ("ioctl", (3, 0x8901), False),  # FIOSETOWN
        ("prctl", (15,), True),
        ("prctl", (4, 1), False),  # PR_SET_DUMPABLE
        ("prctl", (1, 0), False),  # PR_SET_PDEATHSIG
        ("prctl", (22,), False),  # PR_SET_SECCOMP
        ("prlimit64", (0, 7, 0, 0x7FFF0000), True),
        ("prlimit64", (0, 7, 0x7FFF0000), False),
        ("prlimit64", (0, 7, 1 << 32), False),
        ("openat", (-100, 0x7FFF0000, os.O_RDONLY | os.O_CLOEXEC), True),
        *(
            ("openat", (-100, 0x7FFF0000, os.O_RDONLY | flag), False)
            for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, 0o20000000, os.O_ACCMODE)
        ),
    ],
)  # fmt: skip
def test_what_depends_on_arguments(
    machine: str, name: str, arguments: tuple[int, ...], allowed: bool
) -> None:
    assert decide(machine, name, *arguments) == (ALLOW if allowed else EPERM)


def test_open_is_judged_like_openat() -> None:
    assert decide("x86_64", "open", 0x7FFF0000, os.O_RDONLY) == ALLOW
    assert decide("x86_64", "open", 0x7FFF0000, os.O_RDONLY | os.O_TRUNC) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_a_writer_opens_as_it_likes(machine: str) -> None:
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
        assert decide(machine, "openat", -100, 0x7FFF0000, flags, writer=True) == ALLOW
    assert decide(machine, "clone", signal.SIGCHLD, writer=True) == EPERM


words = st.integers(min_value=0, max_value=2**64 - 1)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MACHINES), st.integers(-1, 600), st.lists(words, max_size=6))
def test_whatever_the_arguments_only_what_is_listed_passes(
    machine: str, number: int, arguments: list[int]
) -> None:
    code = bpf.encode(seccomp.program(machine, PID, writer=False))
    verdict = interpret(code, Question(number, ARCHITECTURES[machine], tuple(arguments)))
    names = {number: name for name, number in CALLS[machine].items()}
    if verdict == ALLOW:
        assert names[number] in FREELY | BY_ARGUMENTS
    else:
        assert verdict == (ENOSYS if names.get(number) == "clone3" else EPERM)


def test_programs_are_encoded_as_they_are_read() -> None:
    program = seccomp.program("x86_64", PID, writer=False)
    assert bpf.decode(bpf.encode(program)) == program


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("writer", [False, True], ids=["reader", "writer"])
def test_a_filter_built_once_is_that_of_whoever_installs_it(machine: str, writer: bool) -> None:
    built = seccomp.Filter(machine, writer=writer)
    for pid in (1, 2, PID, 2**22):
        assert built.code(pid) == bpf.encode(seccomp.program(machine, pid, writer=writer))

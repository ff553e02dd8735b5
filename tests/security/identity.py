"""Becoming somebody else for good: another user, a process in a container."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from environments.sandbox.confine import bpf, kernel, seccomp
from environments.sandbox.confine.bpf import Instruction
from tests.security.kernel import ARCHITECTURES, CALLS

ROOT: Final = Path(__file__).resolve().parents[2]
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
CLONE_NAMESPACES = 0x7E020000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
AF_VSOCK = 40

CONTAINER_DENIES: Final = """
    acct add_key bpf chroot clock_settime delete_module fanotify_init finit_module fsconfig fsmount
    fsopen fspick get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm
    iopl kcmp kexec_file_load kexec_load keyctl mbind mount mount_setattr move_mount move_pages
    open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise quotactl
    quotactl_fd reboot request_key set_mempolicy setdomainname sethostname setns settimeofday
    swapoff swapon syslog umount2 unshare userfaultfd vhangup
"""
"""What the default profile of container engines refuses to a container without capabilities."""


class CannotBecome(Exception):
    """This process may not, or the other could not reach the interpreter."""


def become_user(uid: int) -> None:
    """Be ``uid``, without groups or capabilities, able to reach interpreter and code all the same.

    Raises ``CannotBecome``; then nothing is certain about this process but that it must end.
    """
    if os.geteuid() == uid:
        return
    if os.geteuid():
        raise CannotBecome("only root can become somebody else")
    try:
        _bridge((sys.base_prefix, sys.prefix, str(ROOT)))
        for capability in range(64):
            try:
                kernel.prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                break
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise CannotBecome(str(error)) from error
    if not os.access(sys.executable, os.X_OK):
        raise CannotBecome(f"{sys.executable} cannot be reached by user {uid}")


def _bridge(paths: Iterable[str]) -> None:
    """Make ``paths`` reachable where a folder above them is closed to others, for this process."""
    closed: dict[Path, list[Path]] = {}
    for path in map(Path, paths):
        for above in reversed(path.parents):
            if not above.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(above, []).append(path)
                break
    if not closed:
        return
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "a mount namespace is not to be had")
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    for above, beneath in closed.items():
        held = {path: tempfile.mkdtemp(prefix="envhub-bridge-") for path in beneath}
        for path, place in held.items():
            _mount(str(path), place, "", MS_BIND | MS_REC)
        _mount("none", str(above), "tmpfs", 0)
        above.chmod(0o755)
        for path, place in held.items():
            path.mkdir(parents=True, exist_ok=True)
            _mount(place, str(path), "", MS_BIND | MS_REC)
            _unmount(place)
            Path(place).rmdir()


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), f"mount on {target}")


def _unmount(target: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(target.encode(), MNT_DETACH):
        raise OSError(ctypes.get_errno(), f"unmount {target}")


def enter_container() -> None:
    """Put on what a container engine's default profile does, before anything of ours runs."""
    refuse(dict.fromkeys(CONTAINER_DENIES.split(), errno.EPERM) | {"clone3": errno.ENOSYS})


def refuse(calls: dict[str, int]) -> None:
    """An outer filter: those calls fail with those errors, the rest is allowed.

    New namespaces (by ``clone``) and VM sockets are refused with EPERM too.
    """
    machine = kernel.MACHINE
    numbers = CALLS[machine]
    program = [
        Instruction(bpf.LOAD, 4),
        Instruction(bpf.JUMP_EQUAL, ARCHITECTURES[machine], jt=1),
        Instruction(bpf.RETURN, seccomp.KILL),
        Instruction(bpf.LOAD, 0),
    ]
    for name, error in calls.items():
        if name in numbers:
            program += [
                Instruction(bpf.JUMP_EQUAL, numbers[name], jf=1),
                Instruction(bpf.RETURN, 0x50000 | error),
            ]
    program += [
        Instruction(bpf.JUMP_EQUAL, numbers["clone"], jf=4),
        Instruction(bpf.LOAD, 16),
        Instruction(bpf.AND, CLONE_NAMESPACES),
        Instruction(bpf.JUMP_EQUAL, 0, jt=1),
        Instruction(bpf.RETURN, seccomp.REFUSE),
        Instruction(bpf.LOAD, 0),
        Instruction(bpf.JUMP_EQUAL, numbers["socket"], jf=3),
        Instruction(bpf.LOAD, 16),
        Instruction(bpf.JUMP_EQUAL, AF_VSOCK, jf=1),
        Instruction(bpf.RETURN, seccomp.REFUSE),
        Instruction(bpf.RETURN, seccomp.ALLOW),
    ]
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    code = bpf.encode(program)
    text = ctypes.create_string_buffer(code, len(code))
    header = (ctypes.c_uint64 * 2)(len(program), ctypes.addressof(text))
    kernel.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header))

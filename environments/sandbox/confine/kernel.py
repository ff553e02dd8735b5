"""The kernel, asked directly: what Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Any, Final

LINUX: Final = sys.platform == "linux"
MACHINE: Final = platform.machine()
"""``x86_64`` or ``aarch64`` where all layers are to be had."""

_libc = ctypes.CDLL(None, use_errno=True)
_VERSION_3 = (ctypes.c_uint32 * 2)(0x20080522, 0)
_NONE = (ctypes.c_uint32 * 6)()


def system_call(number: int, *arguments: int) -> int:
    """Make a system call; addresses are given as integers. Raises ``OSError``."""
    return _checked(_libc.syscall, number, arguments)


def prctl(option: int, *arguments: int) -> int:
    """Raises ``OSError``, also where there is no ``prctl``."""
    if not LINUX:
        raise OSError("prctl is Linux's")
    return _checked(_libc.prctl, option, (*arguments, 0, 0, 0, 0)[:4])


def drop_capabilities() -> None:
    """Give up every capability, root's too. Raises ``OSError``."""
    if not LINUX:
        raise OSError("capabilities are Linux's")
    _checked(_libc.capset, ctypes.addressof(_VERSION_3), (ctypes.addressof(_NONE),))


def _checked(function: Any, first: int, rest: tuple[int, ...]) -> int:
    result: int = function(ctypes.c_long(first), *map(ctypes.c_ulong, rest))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

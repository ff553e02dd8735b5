"""Landlock: which files a process may reach, decided by itself and for good."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from environments.sandbox.confine import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PROBE = 1
_BENEATH = 1

_WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_FILE, _TRUNCATE = 1 << 5, 1 << 8, 1 << 14
_RIGHTS_BY_ABI: Final = (0, 13, 14, 15, 15, 16)
"""How many rights of files each version knows; later versions know as many as the last here."""
_NETWORK = 0b11
"""Bind and connect TCP: refused altogether (from version 4)."""
_SCOPES = 0b11
"""Abstract sockets and signals: not beyond this process (from version 6)."""

READ: Final = _READ_FILE | _READ_DIRECTORY
LIST: Final = _READ_DIRECTORY
WRITE: Final = READ | _WRITE_FILE | _REMOVE_FILE | _MAKE_FILE | _TRUNCATE
_OF_A_FILE: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE


class Grant(NamedTuple):
    """Rights on a file, or on a folder and all that is beneath it."""

    path: str
    rights: int


class Opened(NamedTuple):
    """A grant whose path has been looked up."""

    descriptor: int
    rights: int


def abi() -> int:
    """The version of Landlock that this kernel has; 0 where there is none."""
    if not kernel.LINUX:
        return 0
    try:
        return kernel.system_call(_CREATE_RULESET, 0, 0, _PROBE)
    except OSError:
        return 0


def look_up(grants: Iterable[Grant]) -> list[Opened]:
    """Open the paths of ``grants``, without the right to read them; the missing are left out.

    A link grants nothing: in a pack it could lead anywhere.
    """
    found = []
    for path, rights in grants:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # what cannot be reached needs no right
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_A_FILE
        found.append(Opened(descriptor, rights))
    return found


def restrict(grants: Iterable[Opened]) -> None:
    """Allow this process what ``grants`` say and nothing else, connections and signals included
    where the kernel knows how. It must have ``no_new_privs``.

    Raises ``OSError``: the kernel has no Landlock, or an outer filter forbids it.
    """
    version = abi()
    if not version:
        raise OSError("this kernel has no Landlock")
    handled = (1 << _RIGHTS_BY_ABI[min(version, len(_RIGHTS_BY_ABI) - 1)]) - 1
    attributes = struct.pack(
        "=QQQ", handled, _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    given = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = kernel.system_call(_CREATE_RULESET, ctypes.addressof(given), size, 0)
    try:
        rule = ctypes.create_string_buffer(12)
        address = ctypes.addressof(rule)
        for descriptor, rights in grants:
            if rights & handled:
                rule.raw = struct.pack("=Qi", rights & handled, descriptor)
                kernel.system_call(_ADD_RULE, ruleset, _BENEATH, address, 0)
        kernel.system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)

"""Programs for the kernel's classic packet filter, as seccomp runs them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

LOAD: Final = 0x20
"""accumulator = the 32-bit word at offset k"""
AND: Final = 0x54
"""accumulator &= k"""
JUMP_EQUAL: Final = 0x15
"""skip ``jt`` instructions if accumulator == k, else ``jf``"""
RETURN: Final = 0x06
"""end with k"""

_ENCODING: Final = struct.Struct("=HBBI")
_VALUE: Final = struct.Struct("=I")
BYTES: Final = _ENCODING.size


class Instruction(NamedTuple):
    code: int
    k: int
    jt: int = 0
    jf: int = 0


def encode(program: Iterable[Instruction]) -> bytes:
    """The program as the kernel reads it."""
    return b"".join(_ENCODING.pack(code, jt, jf, k) for code, k, jt, jf in program)


def put(code: Any, number: int, k: int) -> None:
    """Set ``k`` of one instruction in a buffer that holds an encoded program."""
    _VALUE.pack_into(code, (number + 1) * BYTES - _VALUE.size, k)


def decode(code: bytes) -> list[Instruction]:
    """The instructions of an encoded program."""
    return [Instruction(code, k, jt, jf) for code, jt, jf, k in _ENCODING.iter_unpack(code)]

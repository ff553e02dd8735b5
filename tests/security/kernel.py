"""The kernel's side of the confinement, told independently of the code that is tested: the numbers
of all system calls, and an interpreter of filter programs."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Final, NamedTuple

CALLS: Final[dict[str, dict[str, int]]] = json.loads(
    Path(__file__).with_name("syscalls.json").read_text()
)
"""Machine -> name -> number, as the kernel's headers of 6.1 have them."""
ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}
EM_ARM, EM_X32_BIT = 0x40000028, 0x40000000


class Question(NamedTuple):
    """A system call as a filter sees it."""

    number: int
    architecture: int
    arguments: tuple[int, ...] = ()

    def pack(self) -> bytes:
        arguments = [*self.arguments, *[0] * (6 - len(self.arguments))]
        words = [value & 0xFFFF_FFFF_FFFF_FFFF for value in arguments]
        return struct.pack("=iIQ6Q", self.number, self.architecture, 0xDEAD_BEEF, *words)


def interpret(code: bytes, question: Question) -> int:
    """What the kernel would decide. Fails on whatever the kernel would not accept as a program."""
    program = list(struct.iter_unpack("=HBBI", code))
    assert 0 < len(program) <= 4096, "BPF_MAXINSNS"
    assert program[-1][0] == 0x06, "falls off its end"
    data, accumulator, position = question.pack(), 0, 0
    while True:
        operation, if_true, if_false, k = program[position]
        position += 1
        if operation == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            assert k % 4 == 0
            assert k + 4 <= len(data)
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif operation == 0x54:  # BPF_ALU | BPF_AND | BPF_K
            accumulator &= k
        elif operation == 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
            position += if_true if accumulator == k else if_false
        elif operation == 0x06:  # BPF_RET | BPF_K
            return int(k)
        else:
            raise AssertionError(f"unknown operation {operation:#x}")


def jumps_are_inside(code: bytes) -> bool:
    """Every jump lands on an instruction, as the kernel's own check demands."""
    program = list(struct.iter_unpack("=HBBI", code))
    return all(
        position + 1 + max(if_true, if_false) < len(program)
        for position, (operation, if_true, if_false, _) in enumerate(program)
        if operation == 0x15
    )

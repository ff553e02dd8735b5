"""What a pack prints: kept up to a limit, counted beyond it."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Bytes(io.BufferedIOBase):
    """``sys.stdout.buffer`` of a pack."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        self._output.keep(bytes(view[: self._output.room]), len(view))
        return len(view)


class Output(io.TextIOBase):
    """Stands where ``sys.stdout`` and ``sys.stderr`` were. Holds at most ``limit_bytes``."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self) -> None:
        self.limit_bytes = 0
        self.buffer = _Bytes(self)
        self._kept = bytearray()
        self._lost = 0

    @classmethod
    def capture(cls) -> Output:
        """Take over both streams of this process; what bypasses Python goes nowhere."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.close(nowhere)
        output = cls()
        sys.stdout = sys.stderr = output
        return output

    @property
    def room(self) -> int:
        """How many bytes are still kept."""
        return max(0, self.limit_bytes - len(self._kept))

    def keep(self, start: bytes, whole_bytes: int) -> None:
        """Note that ``whole_bytes`` were written, of which ``start`` are kept."""
        self._kept += start
        self._lost += whole_bytes - len(start)

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        start = text[: self.room].encode(errors="replace")[: self.room]
        self.keep(start, max(len(text), len(start)))
        return len(text)

    def take(self) -> str:
        """What was written since the last time."""
        if not self._kept and not self._lost:
            return ""
        text = self._kept.decode(errors="replace")
        if self._lost:
            text += f"\n[{self._lost} more bytes]"
        self._kept, self._lost = bytearray(), 0
        return text

"""Lines of Python, broken where they grow too long."""

from __future__ import annotations

import re
from collections.abc import Sequence

from environments.synthesis.offline.expressions import Tables, python, text_literal

WIDTH = 100
_HOLE = re.compile(r"\{([^{}]+)\}")


class Lines(list[str]):
    """Source in the making; ``depth`` is in levels of four spaces."""

    def put(self, text: str, depth: int = 1) -> None:
        self.append(f"{'    ' * depth}{text}" if text else "")

    def call(self, before: str, arguments: Sequence[str], after: str = ")", depth: int = 1) -> None:
        """``before`` ends with the opening bracket and ``after`` begins with the closing one."""
        one = f"{before}{', '.join(arguments)}{after}"
        if 4 * depth + len(one) <= WIDTH:
            self.put(one, depth)
            return
        self.put(before, depth)
        inner = ", ".join(arguments)
        if 4 * depth + 4 + len(inner) <= WIDTH and "=" not in inner.partition('"')[0]:
            self.put(inner, depth + 1)
        else:
            for argument in arguments:
                self._argument(argument, depth + 1)
        self.put(after, depth)

    def _argument(self, argument: str, depth: int) -> None:
        room = WIDTH - 4 * depth - 1
        if len(argument) <= room or not argument.startswith(('"', 'f"')):
            self.put(f"{argument},", depth)
            return
        pieces = pieces_of(argument, room)
        for piece in pieces[:-1]:
            self.put(piece, depth)
        self.put(f"{pieces[-1]},", depth)

    def text(self) -> str:
        return "\n".join(self) + "\n"


def pieces_of(literal: str, room: int) -> list[str]:
    """A literal as several that stand one after the other, broken at spaces outside of holes."""
    start = 'f"' if literal.startswith("f") else '"'
    body = literal[len(start) : -1]
    words = re.findall(r"(?:\{[^{}]*\}|[^ {}])+ ?| ", body)
    pieces, piece = [], ""
    for word in words:
        if piece and len(start) + len(piece) + len(word) + 1 > room:
            pieces.append(piece)
            piece = ""
        piece += word
    pieces.append(piece)
    return [(start if "{" in piece or start == '"' else '"') + piece + '"' for piece in pieces]


def message_literal(message: str, tables: Tables) -> str:
    """A message with expressions in braces, as an f-string where it has any."""
    if "{" not in message:
        return text_literal(message)
    body = _HOLE.sub(lambda hole: "{" + python(hole.group(1), tables, "'") + "}", message)
    return 'f"' + body.replace('"', '\\"') + '"'

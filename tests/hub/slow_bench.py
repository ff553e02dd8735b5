"""Work for processes, some of which never ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext


def bench() -> nullcontext[Callable[[str], str]]:
    return nullcontext(work)


def work(item: str) -> str:
    if item == "hang":
        os.read(os.pipe()[0], 1)
    return item.upper()

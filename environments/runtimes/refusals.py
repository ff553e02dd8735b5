"""What code that was not written for us means when it raises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from environments.authoring import ToolError
from environments.errors import INTERNAL_ERROR
from environments.runtimes.source import SOURCE, place_in

_ANSWERS: Final = (ValueError, LookupError, ArithmeticError, PermissionError, RuntimeError)
"""What is raised about arguments and entries that are not there, be it by the code or by what it
hands them to. Of these ``NotImplementedError`` and ``RecursionError`` say something else."""
_SLIPS: Final = (NotImplementedError, RecursionError)
_RAISES: Final = re.compile(r"\s*raise\b")


def refusal(error: Exception, pack: Path) -> ToolError:
    """The answer that an exception comes to; the original would tell its text and no more.

    What the code raised in a ``raise`` of its own, and what is usually wrong with arguments, has
    its name as a code (``VALUE_ERROR``); a slip of the code is an ``INTERNAL_ERROR``.
    """
    if isinstance(error, ToolError):
        return error
    name = type(error).__name__
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if _raised(error, pack) or (isinstance(error, _ANSWERS) and not isinstance(error, _SLIPS)):
        return ToolError(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper(), text or name)
    return ToolError(INTERNAL_ERROR, f"{name}: {text}", where=place_in(pack, error))


def _raised(error: Exception, pack: Path) -> bool:
    """Whether it comes from a ``raise`` of the pack's code, and not from a slip."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename != str(pack / SOURCE):
        return False
    lines = (pack / SOURCE).read_text(encoding="utf-8", errors="replace").splitlines()
    return bool(_RAISES.match(lines[trace.tb_lineno - 1]))

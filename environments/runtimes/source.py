"""Running the one source file of a pack, and naming lines of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from environments.errors import PackInvalid

SOURCE: Final = "tools.py"


def run_source(pack: Path) -> ModuleType:
    """The module that the pack's ``tools.py`` becomes when it is run in this process.

    Raises ``PackInvalid`` naming file and line, whatever the file raises.
    """
    source = pack / SOURCE
    module = ModuleType("tools")
    module.__file__ = str(source)
    sys.modules["tools"] = module  # where dataclasses and pydantic look up annotations
    try:
        exec(compile(source.read_bytes(), str(source), "exec"), module.__dict__)
    except SyntaxError as error:
        raise PackInvalid(f"{SOURCE}:{error.lineno}: {error.msg}") from error
    except PackInvalid as error:
        raise PackInvalid(
            f"{place_in(pack, error) or SOURCE}: {error.message}", hint=error.hint
        ) from error
    except SystemExit as error:
        raise PackInvalid(f"{SOURCE} exits while it is imported") from error
    except BaseException as error:  # a stranger's code: whatever it raises is the pack's fault
        place = place_in(pack, error) or SOURCE
        raise PackInvalid(f"{place}: {type(error).__name__}: {error}") from error
    return module


def place_in(pack: Path, error: BaseException) -> str:
    """The innermost line of the pack that an exception passed through (``tools.py:41``), if any."""
    source = str(pack / SOURCE)
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{SOURCE}:{line}" if line else ""

"""The native runtime: a ``tools.py`` written with the authoring kit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import apsw

from environments.authoring import Database, Tool, declared_tools
from environments.errors import PackInvalid
from environments.spec import ToolSpec

SOURCE: Final = "tools.py"


class NativeProgram:
    """The functions under ``@tool`` of one ``tools.py``."""

    def __init__(self, source: Path, tools: Mapping[str, Tool]) -> None:
        self._source = str(source)
        self._tools = tools
        self.tools: Mapping[str, ToolSpec] = {name: tool.spec for name, tool in tools.items()}

    def call(self, tool: str, connection: apsw.Connection, arguments: Mapping[str, Any]) -> Any:
        """Run a tool; see ``Program.call``."""
        return self._tools[tool](Database(connection), arguments)

    def place(self, error: BaseException) -> str:
        """The innermost line of the pack that ``error`` passed through."""
        return _place(error, self._source)


def load(pack: Path) -> NativeProgram:
    """Run the pack's ``tools.py`` in this process and take its tools.

    Raises ``PackInvalid`` naming file and line if it does not import or declares no tool.
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
            f"{_place(error, str(source)) or SOURCE}: {error.message}", hint=error.hint
        ) from error
    except SystemExit as error:
        raise PackInvalid(f"{SOURCE} exits while it is imported") from error
    except BaseException as error:  # a stranger's code: whatever it raises is the pack's fault
        place = _place(error, str(source)) or SOURCE
        raise PackInvalid(f"{place}: {type(error).__name__}: {error}") from error
    tools = declared_tools(vars(module).values())
    if not tools:
        raise PackInvalid(f"{SOURCE} declares no tool", hint="put @tool(read_only=...) above one")
    return NativeProgram(source, tools)


def _place(error: BaseException, source: str) -> str:
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{SOURCE}:{line}" if line else ""

"""The native runtime: a ``tools.py`` written with the authoring kit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from environments.authoring import Database, State, Tool, declared_tools
from environments.errors import PackInvalid
from environments.runtimes.program import Specs
from environments.runtimes.source import SOURCE, place_in, run_source
from environments.spec import ToolSpec


class NativeProgram:
    """The functions under ``@tool`` of one ``tools.py``."""

    def __init__(self, pack: Path, tools: Mapping[str, Tool]) -> None:
        self._pack = pack
        self._tools = tools
        self.tools: Mapping[str, ToolSpec] = Specs(tools)

    def call(self, tool: str, connection: apsw.Connection, arguments: Mapping[str, Any]) -> Any:
        """Run a tool; see ``Program.call``."""
        return self._tools[tool](Database(connection), arguments)

    def place(self, error: BaseException) -> str:
        """The innermost line of the pack that ``error`` passed through."""
        return place_in(self._pack, error)


def load(pack: Path) -> NativeProgram:
    """Run the pack's ``tools.py`` in this process and take its tools.

    Raises ``PackInvalid`` naming file and line if it does not import or declares no tool.
    """
    tools = declared_tools(vars(run_source(pack)).values())
    if not tools:
        raise PackInvalid(f"{SOURCE} declares no tool", hint="put @tool(read_only=...) above one")
    for name, each in tools.items():
        if each.wants is State:
            raise PackInvalid(
                f"tool {name} takes a State", hint='say runtime = "state", or take db'
            )
    return NativeProgram(pack, tools)

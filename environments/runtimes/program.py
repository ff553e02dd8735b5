"""What every runtime makes of a pack's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import apsw

from environments.spec import ToolSpec


class Program(Protocol):
    """A pack's tools, loaded."""

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools by name, in order of declaration."""
        ...

    def call(self, tool: str, connection: apsw.Connection, arguments: Mapping[str, Any]) -> Any:
        """Run a tool on the mounted branch; returns plain JSON values.

        Raises ``InvalidArguments``, ``BadResult`` and whatever the tool itself raises.
        """
        ...

    def place(self, error: BaseException) -> str:
        """Where in the pack's code an exception came from, ``tools.py:41``, or ``""``."""
        ...


class Specified(Protocol):
    @property
    def spec(self) -> ToolSpec: ...


class Specs(Mapping[str, ToolSpec]):
    """The specs of tools, each made when it is asked for."""

    def __init__(self, tools: Mapping[str, Specified]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> ToolSpec:
        return self._tools[name].spec

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

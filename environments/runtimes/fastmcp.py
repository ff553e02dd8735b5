"""A stand-in for ``mcp.server.fastmcp``, which mcp 2 no longer has: it collects functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


class FastMCP:
    """As much of FastMCP as the code of a pack may use while it is imported."""

    def __init__(self, name: str = "", *_: Any, **__: Any) -> None:
        self.name = name
        self.functions: dict[str, Callable[..., Any]] = {}

    def tool(self, name: str | None = None, *_: Any, **__: Any) -> Callable[[_F], _F]:
        """Collect a function, under the name it is to have as a tool."""

        def collect(function: _F) -> _F:
            self.functions[name or function.__name__] = function
            return function

        return collect

    def resource(self, *_: Any, **__: Any) -> Callable[[_F], _F]:
        """Packs have no resources of their own: the function is left as it is."""
        return lambda function: function

    prompt = resource

    def run(self, *_: Any, **__: Any) -> None:
        """There is nothing to run: it is the hub that serves."""


def install() -> None:
    """Make ``from mcp.server.fastmcp import FastMCP`` give the stand-in, in this process."""
    package, server, fastmcp = map(ModuleType, ("mcp", "mcp.server", "mcp.server.fastmcp"))
    package.__path__, server.__path__ = [], []
    package.server = server  # type: ignore[attr-defined]
    server.fastmcp, server.FastMCP = fastmcp, FastMCP  # type: ignore[attr-defined]
    fastmcp.FastMCP = FastMCP  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in (package, server, fastmcp)}

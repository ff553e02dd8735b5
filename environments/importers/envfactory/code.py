"""What is to be known of one of EnvFactory's files without running it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from environments.documents import Binding, BoundTool
from environments.importers.readonly import Looks
from environments.importers.source import ImportRefused
from environments.names import tool_name

LOAD: Final = "load_scenario"
SAVE: Final = "save_scenario"
_NETWORK: Final = frozenset({"requests", "httpx", "aiohttp", "socket", "urllib3"})


class Code:
    """What is to be known of one file of tools without running it. Raises ``ImportRefused``."""

    def __init__(self, source: str, file: str) -> None:
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            raise ImportRefused(f"{file}:{error.lineno}: {error.msg}") from error
        _refuse_network(tree, file)
        classes = {
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            and {LOAD, SAVE} <= {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        }
        self.instance = ""
        for node in tree.body:
            value = getattr(node, "value", None)
            if (
                isinstance(node, ast.Assign)
                and isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id in classes
                and isinstance(node.targets[0], ast.Name)
            ):
                self.instance = node.targets[0].id
        if not self.instance:
            raise ImportRefused(f"{file} has no global instance of a class with {LOAD} and {SAVE}")
        self.functions = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and any(map(_is_tool, node.decorator_list))
        ]
        if not {LOAD, SAVE} <= {*self.functions}:
            raise ImportRefused(f"{file}: {LOAD} and {SAVE} are no tools, so nothing can be loaded")
        self._looks = Looks(tree)

    def binding(self, *, with_state: bool = False) -> Binding:
        """With the functions as tools; those that load and save only if ``with_state``."""
        state = (LOAD, SAVE)
        return Binding(
            instance=self.instance,
            tools=tuple(
                BoundTool(
                    name=tool_name(name),
                    function=name,
                    read_only=name not in state and self._looks.only(name),
                )
                for name in self.functions
                if with_state or name not in state
            ),
        )


def _refuse_network(tree: ast.Module, file: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in _NETWORK or name == "urllib.request":
                raise ImportRefused(
                    f"{file}:{node.lineno}: it asks the internet, through {name}",
                    hint="what it answers would change, and workers have no network",
                )


def _is_tool(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(function, ast.Attribute) and function.attr == "tool"


def read_source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ImportRefused(f"{path.name} cannot be read: {error}") from error

"""AWM's ``full_code`` as a pack's ``tools.py``: read and copied, without what starts a server."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from environments.importers.source import ImportRefused
from environments.names import tool_name

AVAILABLE: Final = frozenset(("fastapi", "starlette", "sqlalchemy", "pydantic", "pydantic_core",
    "typing_extensions", "annotated_types", "anyio", "dateutil"))  # fmt: skip
"""What an application may import beside the standard library: what the second zygote has."""
_SERVERS: Final = frozenset(("uvicorn", "fastapi_mcp"))
_ASYNC: Final = frozenset(("create_async_engine", "async_sessionmaker", "AsyncSession"))
_KEYS_ON: Final = re.compile(r"foreign_keys\s*=\s*(?:on|1|true)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Application:
    """The source of ``tools.py``, and what can be read off it."""

    source: str
    foreign_keys: bool
    """Whether it has SQLite enforce them."""
    tables: frozenset[str]
    """Those it maps."""
    renamed: tuple[tuple[str, str], ...]
    """Operations whose tools are called differently, each with its tool's name."""


def application_of(code: str) -> Application:
    """What runs of an application. Raises ``ImportRefused`` for one that cannot run here."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        raise ImportRefused(f"its code is no Python: {line}") from None
    _require_runnable(tree)
    lines = code.splitlines(keepends=True)
    for first, last, instead in _cuts(tree):
        lines[first - 1 : last] = [instead] if instead else []
    operations = [text for name, text in _texts(tree) if name == "operation_id"]
    return Application(
        source="".join(lines).rstrip() + "\n",
        foreign_keys=_KEYS_ON.search(code) is not None,
        tables=frozenset(text for name, text in _texts(tree) if name == "__tablename__"),
        renamed=tuple((each, tool_name(each)) for each in operations if tool_name(each) != each),
    )


def _require_runnable(tree: ast.Module) -> None:
    made = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _ASYNC:
            raise ImportRefused(f"it uses asynchronous sessions ({node.id})")
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            made = made or called.rpartition(".")[2] == "FastAPI"
            if called == "sqlite3.connect":
                raise ImportRefused("it opens its database past SQLAlchemy (sqlite3.connect)")
    if not made:
        raise ImportRefused("it makes no FastAPI application")
    for node in tree.body:
        for name in _imported(node):
            if name not in AVAILABLE | _SERVERS and name not in sys.stdlib_module_names:
                raise ImportRefused(f"it imports {name}, which workers do not have")


def _imported(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _cuts(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """The top-level statements that only start or mount a server, last first: first and last line,
    and what stands there instead."""
    servers: set[str] = set()
    found: list[tuple[int, int, str]] = []
    for node in tree.body:
        instead: str | None = None
        if isinstance(node, ast.Import | ast.ImportFrom) and _SERVERS & set(_imported(node)):
            kept = []
            if isinstance(node, ast.Import):
                kept = [each for each in node.names if each.name.partition(".")[0] not in _SERVERS]
            servers |= {a.asname or a.name.partition(".")[0] for a in node.names if a not in kept}
            instead = ast.unparse(ast.Import(names=kept)) + "\n" if kept else ""
        elif _is_main(node):
            instead = ""
        elif isinstance(node, ast.Expr | ast.Assign) and servers & _names(node):
            if isinstance(node, ast.Assign):
                servers |= {each.id for each in node.targets if isinstance(each, ast.Name)}
            instead = ""
        if instead is not None:
            found.append((node.lineno, node.end_lineno or node.lineno, instead))
    return iter(found[::-1])


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in _names(node.test)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The texts given to keywords and names."""
    for node in ast.walk(tree):
        value: ast.expr | None = None
        name = ""
        if isinstance(node, ast.keyword):
            name, value = node.arg or "", node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield name, value.value

"""A pack's tools as one FastAPI application in one file, over a SQLite file, without envhub."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from environments.catalogue import Pack
from environments.errors import PackInvalid

KIT: Final = "environments.authoring"
COUNTERS: Final = (
    "CREATE TABLE envhub_counters (name TEXT PRIMARY KEY NOT NULL, count INTEGER NOT NULL)"
)
"""Where the application keeps how many calls and ids there were: its clock, and its next ids."""
_HERE: Final = Path(__file__).parent
_MAIN: Final = """

if __name__ == "__main__":
    import os as _os

    import uvicorn

    host, port = _os.getenv("HOST", "127.0.0.1"), int(_os.getenv("PORT", "8000"))
    uvicorn.run(app, host=host, port=port)
"""


def full_code(pack: Pack) -> str:
    """The application that serves the pack's tools. Raises ``PackInvalid``."""
    source = (pack.path / "tools.py").read_text(encoding="utf-8")
    if pack.spec.runtime == "fastapi":
        return source.rstrip() + "\n" + _MAIN
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    future = ""
    for node in reversed(tree.body):
        instead = None
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future, instead = ast.unparse(node) + "\n\n", ""
        elif isinstance(node, ast.ImportFrom) and node.module == KIT:
            instead = "".join(
                f"{each.asname} = {each.name}\n" for each in node.names if each.asname
            )
        elif isinstance(node, ast.Import) and any(each.name == KIT for each in node.names):
            raise PackInvalid(
                f"{pack.name}: tools.py imports the authoring kit as a module",
                hint=f"import its names: from {KIT} import ...",
            )
        if instead is not None:
            lines[node.lineno - 1 : node.end_lineno] = [instead] if instead else []
    settings = {
        "<<NAME>>": pack.name,
        "<<START_MS>>": str(pack.spec.clock.start_ms),
        "<<STEP_MS>>": str(round(pack.spec.clock.step_seconds * 1000)),
        "<<PRAGMA>>": f"PRAGMA foreign_keys={'ON' if pack.spec.foreign_keys else 'OFF'}",
    }
    head = (_HERE / "standalone_head.txt").read_text(encoding="utf-8")
    tail = (_HERE / "standalone_tail.txt").read_text(encoding="utf-8")
    for mark, value in settings.items():
        head, tail = head.replace(mark, value), tail.replace(mark, value)
    return f"{future}{head}{''.join(lines).strip()}\n{tail}"

"""docs/reference.md, written from the code: ``python -m tests.end_to_end.reference``."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from environments.errors import EnvhubError
from hub import settings
from hub.auth import SCOPES, Access

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference.md"
CODE = re.compile(r"^    code = ", re.MULTILINE)
METRIC = re.compile(r'"(envhub_[a-z_]+)"')


def page() -> str:
    parts = [
        "# Reference",
        "Written from the code by `make reference`; a test holds it true.",
        "## Commands",
        "`envhub COMMAND --help` says more.",
        table(("command", "what it does"), commands()),
        "## Settings",
        "Each is a variable `ENVHUB_<NAME>`; an option of `envhub serve` wins over it.",
        table(("setting", "by default", "what it is"), settings_declared()),
        "## Scopes",
        "What each way in asks of a token, where the hub asks for tokens ([tokens.md](tokens.md)).",
        table(("way in", "scope"), scopes()),
        "## Metrics",
        "At `/metrics`, in Prometheus' text format.",
        table(("metric",), ((f"`{name}`",) for name in metrics())),
        "## Error codes",
        "Stable. `agent`: the caller's mistake; `environment`: the pack's; `infrastructure`: ours.",
        table(("code", "whose", "when"), codes()),
    ]
    return "\n\n".join(parts) + "\n"


def table(head: tuple[str, ...], rows: object) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]  # type: ignore[attr-defined]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, str]]:
    from hub.cli import app

    groups = [("", app)]
    groups += [(f"{group.name} ", group.typer_instance) for group in app.registered_groups]  # type: ignore[misc]
    for prefix, group in groups:
        for command in group.registered_commands:
            assert command.callback is not None
            name = command.name or command.callback.__name__
            yield f"`{prefix}{name}`", first_line(command.callback)


def settings_declared() -> Iterator[tuple[str, str, str]]:
    """Fields with the text under each."""
    tree = ast.parse(inspect.getsource(settings.Settings))
    body = tree.body[0].body  # type: ignore[attr-defined]
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = " ".join(str(following.value.value).split()).replace("``", "`")
            default = ast.unparse(statement.value) if statement.value else ""
            yield f"`{statement.target.id}`", f"`{default}`", text.replace("|", "\\|")


def scopes() -> Iterator[tuple[str, str]]:
    """Every route of the application, those of one scope together."""
    from hub.api.rest import PREFIX, tables_of
    from hub.app import page_routes
    from hub.edge.pages import Pages
    from hub.mcp_server.routes import ACCESS

    nothing: Any = types.SimpleNamespace(episodes=None, curricula=None)
    rest = [
        Access(route.method, PREFIX + route.path, route.scope)
        for _, routes in tables_of(nothing)
        for route in routes
    ]
    found = [*rest, *ACCESS, *Pages(page_routes(nothing), nothing, nothing).access]
    for scope in ("public", "any", *SCOPES):
        for each in found:
            if each.scope == scope:
                yield f"`{each.method} {each.path}`", f"`{scope}`"


def metrics() -> list[str]:
    sources = (ROOT / "hub").rglob("*.py")
    return sorted({name for path in sources for name in METRIC.findall(path.read_text())})


def codes() -> list[tuple[str, str, str]]:
    for path in sorted((*(ROOT / "environments").rglob("*.py"), *(ROOT / "hub").rglob("*.py"))):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "(EnvhubError" in path.read_text() or re.search(
            r"^    code = ", path.read_text(), re.MULTILINE
        ):
            importlib.import_module(".".join(part for part in parts if part != "__init__"))
    found: dict[str, tuple[str, str, str]] = {}
    for kind in tree(EnvhubError):
        found.setdefault(kind.code, (f"`{kind.code}`", kind.kind, first_line(kind)))
    return sorted(found.values(), key=lambda row: (row[1], row[0]))


def tree(kind: type[EnvhubError]) -> Iterator[type[EnvhubError]]:
    for below in sorted(kind.__subclasses__(), key=lambda each: each.__qualname__):
        if not below.__module__.startswith("tests"):
            yield below
            yield from tree(below)


def first_line(thing: object) -> str:
    own = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    text = inspect.cleandoc(own or "").split("\n\n")[0]
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    if sys.argv[1:] == ["--fresh"]:
        PAGE.write_text(page())
    else:  # in a process of its own, where no test has declared errors
        subprocess.run([sys.executable, "-m", "tests.end_to_end.reference", "--fresh"], check=True)

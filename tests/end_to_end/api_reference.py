"""docs/api.md, written from the table of routes: ``python -m tests.end_to_end.api_reference``."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hub.api.rest import PREFIX, tables_of
from hub.api.routing import Route, captures

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "api.md"
SAMPLES = {"environments": "procurement", "schedules": "scaling", "samplers": "band"}
"""What stands for ``{name}`` in examples, by the collection it names."""

INTRODUCTION = f"""# API

Written from the code by `make reference`; a test holds it true, and runs every example.

JSON in, JSON out, below `{PREFIX}`. `GET {PREFIX}/openapi.json` describes the same for machines.
Unknown fields are refused. The body of an answer that is not 2xx is
`{{"error": {{"kind", "code", "message", "hint", "details"}}}}`; [reference.md](reference.md) has
the codes. Where the hub asks for tokens, send `Authorization: Bearer TOKEN`; each route says which
scope it asks for, and what is another tenant's is not there ([tokens.md](tokens.md)). 429 and 503
carry `Retry-After`. In the examples `$HUB` is the hub's address, `$ID` an episode or a group.
Python has [a client](training.md) for all of this."""

HEADINGS = {
    "environments": "Environments",
    "episodes": "Episodes",
    "leases": "Leases",
    "trajectories": "Trajectories and events",
    "groups": "Groups",
    "curriculum": "Schedules and samplers",
}


def routes() -> dict[str, list[Route]]:
    """Every route of the API, under its heading."""

    class Nobody:
        episodes = curricula = None

    found: dict[str, list[Route]] = {}
    for _, table in tables_of(typing.cast("Any", Nobody())):
        table = list(table)
        module = table[0].handler.__module__.rpartition(".")[2]
        found[HEADINGS[module]] = table
    return found


def page() -> str:
    parts = [INTRODUCTION]
    kinds: dict[str, type[msgspec.Struct]] = {}
    for heading, table in routes().items():
        parts.append(f"## {heading}")
        for route in table:
            parts += described(route)
            for kind in (route.request, route.query, route.response):
                collect(kind, kinds)
    parts.append("## Bodies")
    for name in sorted(kinds):
        parts += body(kinds[name])
    return "\n\n".join(parts) + "\n"


def described(route: Route) -> Iterator[str]:
    yield f"### {route.method} {PREFIX}{route.path}"
    yield f"{route.summary}."
    taken = []
    if route.query is not None:
        taken.append(f"Query: {linked(route.query)}.")
    if route.request is not None and route.request.__struct_fields__:
        taken.append(f"Body: {linked(route.request)}.")
    answer = {"application/jsonl": "Lines of", "text/event-stream": "Events with"}
    prefix = answer.get(route.content_type, "Answer:")
    taken.append(f"{prefix} {linked(route.response)}{status(route)}.")
    taken.append(f"Scope: `{route.scope}`.")
    yield " ".join(taken)
    yield f"```\n{curl(route)}\n```"


def status(route: Route) -> str:
    return "" if route.status == 200 else f", status {route.status}"


def curl(route: Route) -> str:
    """The example as one would type it."""
    implied = "GET" if route.request is None else "POST"
    method = "" if route.method == implied else f" -X {route.method}"
    url = f"$HUB{PREFIX}{example_path(route, '$ID')}"
    data = ""
    if route.request is not None:
        encoded = json.dumps(route.example or {}, ensure_ascii=False)
        data = f" \\\n  -H 'content-type: application/json' -d '{encoded}'"
    flags = " -N" if route.content_type == "text/event-stream" else ""
    return f"curl -s{flags}{method} {url}{data}"


def example_path(route: Route, id: str) -> str:
    """The route's path with something that is there in the place of each name."""
    path = route.path
    for name in captures(path):
        collection = path.split("/")[1]
        value = {"id": id, "task": "chairs-asked-for-twice"}.get(name, SAMPLES.get(collection, ""))
        path = path.replace(f"{{{name}}}", value)
    return path


def collect(kind: Any, kinds: dict[str, type[msgspec.Struct]]) -> None:
    """Every struct that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind.__name__ in kinds or not kind.__struct_fields__:
            return
        kinds[kind.__name__] = kind
        for field in msgspec.structs.fields(kind):
            collect(field.type, kinds)
        return
    for part in typing.get_args(kind):
        collect(part, kinds)


def body(kind: type[msgspec.Struct]) -> Iterator[str]:
    yield f"### {kind.__name__}"
    if text := words(vars(kind).get("__doc__") or ""):
        yield text
    said = texts(kind)
    rows = [
        (f"`{field.encode_name}`", spelt(field.type), default(field), said.get(field.name, ""))
        for field in msgspec.structs.fields(kind)
    ]
    head = "| field | type | by default | |\n|---|---|---|---|\n"
    yield head + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{json.dumps(msgspec.to_builtins(field.default_factory()))}`"
    if field.default in (msgspec.NODEFAULT, msgspec.UNSET):
        return ""
    return f"`{json.dumps(msgspec.to_builtins(field.default))}`"


def spelt(kind: Any) -> str:
    """A type in the words of JSON."""
    plain = {str: "text", int: "integer", float: "number", bool: "true/false", Any: "any"}
    if kind in plain:
        return plain[kind]
    if kind is type(None):
        return "null"
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return spelt(parts[0]) + limits(parts[1:])
    if origin is typing.Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(spelt(part) for part in parts if part is not msgspec.UnsetType)
    if origin is dict:
        return f"object of {spelt(parts[1])}"
    if origin is not None:
        return f"list of {spelt(parts[0])}"
    return linked(kind)


def limits(given: tuple[Any, ...]) -> str:
    found = []
    for each in given:
        if isinstance(each, msgspec.Meta):
            words = {"ge": "from", "gt": "above", "le": "to", "max_length": "at most"}
            found += [
                f"{word} {value}"
                for name, word in words.items()
                if (value := getattr(each, name)) is not None and abs(value) < 2**31 - 1
            ]
    return f" ({' '.join(found)})" if found else ""


def linked(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not kind.__struct_fields__:
            return "`{}`"
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return "object"


@functools.cache
def texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The text under each field, its ancestors' too."""
    found: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__):
        if issubclass(ancestor, msgspec.Struct) and ancestor is not msgspec.Struct:
            tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(ancestor)))
            statements = tree.body[0].body  # type: ignore[attr-defined]
            for statement, following in zip(statements, [*statements[1:], None], strict=True):
                if (
                    isinstance(statement, ast.AnnAssign)
                    and isinstance(following, ast.Expr)
                    and isinstance(following.value, ast.Constant)
                ):
                    name = ast.unparse(statement.target)
                    found[name] = words(str(following.value.value))
    return found


def words(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    if sys.argv[1:] == ["--fresh"]:
        PAGE.write_text(page())
    else:  # in a process of its own, where no test has declared structs
        command = [sys.executable, "-m", "tests.end_to_end.api_reference", "--fresh"]
        subprocess.run(command, check=True)

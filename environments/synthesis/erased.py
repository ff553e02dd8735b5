"""Tables and tools with all names and values erased: what is left when two places say the same in
other words."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from environments.spec import ToolSpec
from snapshots.shapes import quoted

_TOKEN: Final = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^']|'')*')
      | (?P<name>"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])
      | (?P<number>\d[\w.]*)
      | (?P<word>\w+)
      | (?P<sign>[^\s\w])""",
    re.DOTALL | re.VERBOSE,
)
_DEEPEST: Final = 6
"""How far into a type is looked, which may contain itself."""


def erased_tables(
    database: sqlite3.Connection, tables: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Each table, given with its columns, as a digest of its types, constraints and keys, and of
    those that it refers to."""
    names = {name.lower() for table, columns in tables.items() for name in (table, *columns)}
    plain = {table: _definition(database, table, names) for table in tables}
    parts = []
    for table in tables:
        found = database.execute(f"PRAGMA foreign_key_list({quoted(table)})").fetchall()
        refers = sorted(plain.get(row[2], "") for row in found)
        parts.append(_digest("table", plain[table], *refers))
    return _numbered(parts)


def erased_tools(tools: Iterable[ToolSpec]) -> tuple[str, ...]:
    """Each tool as a digest of what it takes and answers, and whether it writes."""
    return _numbered([
        _digest(
            "reads" if tool.read_only else "writes",
            _kind(tool.input_schema, tool.input_schema.get("$defs", {})),
            _kind(tool.output_schema or {}, (tool.output_schema or {}).get("$defs", {})),
        )
        for tool in tools
    ])  # fmt: skip


def fingerprint(parts: Iterable[str]) -> str:
    """One value for a whole schema, or for all tools."""
    return _digest(*sorted(parts))


def _definition(database: sqlite3.Connection, table: str, names: set[str]) -> str:
    """The columns and constraints of a table, in no order."""
    found = database.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    _, _, body = found[0].partition("(")
    parts, depth = [""], 0
    for token in _tokens(body, names):
        depth += (token == "(") - (token == ")")
        if depth < 0:
            break
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += f" {token}"
    return ",".join(sorted(parts))


def _tokens(sql: str, names: set[str]) -> Iterator[str]:
    for found in _TOKEN.finditer(sql):
        token = found[0]
        match found.lastgroup:
            case "comment":
                continue
            case "text" | "number":
                yield "?"
            case "name":
                yield "name"
            case "word":
                yield "name" if token.lower() in names else token.upper()
            case _:
                yield token


def _kind(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> str:
    """A JSON Schema without names, texts and limits."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return "any"
    if isinstance(reference := schema.get("$ref"), str):
        return _kind(definitions.get(reference.rsplit("/", 1)[-1]), definitions, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            kinds = sorted(_kind(one, definitions, depth + 1) for one in schema[word])
            return f"{word}({','.join(kinds)})"
    if "enum" in schema:
        return f"enum{len(schema['enum'])}"
    needed = schema.get("required", ())
    inside = sorted(
        _kind(one, definitions, depth + 1) + ("" if name in needed else "?")
        for name, one in schema.get("properties", {}).items()
    )
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            inside.append(_kind(schema[word], definitions, depth + 1))
    return f"{schema.get('type', 'any')}{schema.get('format', '')}({','.join(inside)})"


def _numbered(parts: Sequence[str]) -> tuple[str, ...]:
    """The second of equal parts is another one than the first."""
    counts: Counter[str] = Counter()
    numbered = []
    for part in sorted(parts):
        counts[part] += 1
        numbered.append(part if counts[part] == 1 else f"{part}*{counts[part]}")
    return tuple(numbered)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:12]

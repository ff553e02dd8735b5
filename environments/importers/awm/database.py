"""AWM's tables and inserts as scripts that build a pack's database: tried here, one by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import apsw

from environments.importers.source import ImportRefused
from snapshots.errors import SnapshotsError
from snapshots.policy import Authorizer, MountFunctions, SharedConnection
from snapshots.shapes import TableShape, quoted, read_shapes
from snapshots.store import statements
from snapshots.vfs import Clock

_TABLE: Final = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
_FILLS: Final = re.compile(r"\s*(?:INSERT|REPLACE|UPDATE|DELETE|WITH|CREATE)\b", re.IGNORECASE)
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME: Final = re.compile(r'\s*("[^"]+"|`[^`]+`|\[[^\]]+\]|\w+)')
_TYPE: Final = re.compile(
    r"(?:\s+(?!(?:PRIMARY|NOT|NULL|UNIQUE|CHECK|DEFAULT|COLLATE|REFERENCES|CONSTRAINT|GENERATED|AS)\b)"
    r"\w+)*(?:\s*\([^)]*\))?",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
_KEY_DESC: Final = re.compile(r"(PRIMARY\s+KEY)\s+DESC\b", re.IGNORECASE)
_STEPS: Final = 1_000_000
_MOST_STEPS: Final = 200
"""A statement that takes more than so many million steps of SQLite's machine fails."""


@dataclass(frozen=True, slots=True)
class Scripts:
    """``schema.sql`` and ``data.sql`` of a pack, and how they differ from the original."""

    schema: str
    data: str
    tables: frozenset[str]
    repairs: tuple[str, ...]


def scripts_of(
    tables: Sequence[Mapping[str, Any]], samples: Sequence[Mapping[str, Any]], clock_ms: int
) -> Scripts:
    """Scripts of those statements that succeed, in the original's order, at the pack's time.

    The original runs them one by one too, inserts with foreign keys enforced, and goes on past
    those that fail. Columns of primary keys become NOT NULL. Raises ``ImportRefused`` if no table
    is left, or one whose rows cannot be told apart.
    """
    clock = Clock("importer")
    clock.clock_ms = clock_ms
    connection = SharedConnection(":memory:", vfs=clock.name)
    try:
        scratch = _Scratch(connection)
        schema, repairs = scratch.define(tables)
        data, left_out = scratch.fill(samples)
        names = frozenset(read_shapes(connection))
    finally:
        apsw.Connection.close(connection, True)
        clock.unregister()
    if not names:
        raise ImportRefused("none of its tables can be created", hint="; ".join(repairs)[:300])
    return Scripts(_script(schema), _script(data), names, (*repairs, *left_out))


class _Scratch:
    """A database in memory that statements are tried on."""

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection
        apsw.Connection.config(connection, apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.execute("PRAGMA foreign_keys=on").fetchall()
        MountFunctions(connection).begin(0)
        self._steps = 0
        judge = Authorizer(connection, allow_ddl=True, foreign_keys=True, script=True)
        apsw.Connection.set_authorizer(connection, judge)
        apsw.Connection.set_progress_handler(connection, self._is_too_much, _STEPS)

    def define(self, tables: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
        """The statements that make the tables, and what was repaired."""
        made: list[str] = []
        repairs: list[str] = []
        for table in tables:
            name = str(table.get("name", "?"))
            for part in ("ddl", "indexes", "examples"):
                given = table.get(part) or ()
                texts = [given] if isinstance(given, str) else [str(each) for each in given]
                try:
                    made += [self._made(text, repairs) for text in texts if text.strip()]
                except (apsw.Error, SnapshotsError, ValueError) as error:
                    repairs.append(f"table {name}: what defines it fails and is left out: {error}")
                    break
        return made, repairs

    def fill(self, samples: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
        """The statements that put rows into them, and what was left out."""
        filled: list[str] = []
        failed: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for table in samples:
            name = str(table.get("table_name", "?"))
            for text in table.get("insert_statements") or ():
                try:
                    statement = _single(str(text))
                    if not _FILLS.match(_COMMENTS.sub(" ", statement)):
                        raise ValueError("not a statement that inserts")
                    self._run(statement)
                except (apsw.Error, SnapshotsError, ValueError) as error:
                    counts[name] += 1
                    failed.setdefault(name, str(error))
                else:
                    filled.append(statement)
        return filled, [
            f"table {name}: {counts[name]} inserts fail and are left out, the first: {error}"
            for name, error in failed.items()
        ]

    def _made(self, text: str, repairs: list[str]) -> str:
        """The statement that did what ``text`` says, keys without NULL."""
        statement = _single(text)
        if not _TABLE.match(_COMMENTS.sub(" ", statement)):
            self._run(statement)
            return statement
        before = set(read_shapes(self._connection))
        self._run(statement)
        for name, shape in read_shapes(self._connection).items():
            if name in before or not shape.nullable:
                continue
            repaired = _with_keys(statement, shape)
            self._run(f"DROP TABLE {quoted(name)}")
            self._run(repaired)
            if read_shapes(self._connection)[name].nullable:
                raise ImportRefused(
                    f"table {name} may have rows without a key, which cannot be told apart",
                    hint=f"declare {', '.join(shape.nullable)} NOT NULL",
                )
            repairs.append(f"table {name}: its key is {', '.join(shape.nullable)} NOT NULL")
            return repaired
        return statement

    def _run(self, statement: str) -> None:
        self._steps = 0
        self._connection.execute(statement).fetchall()

    def _is_too_much(self) -> bool:
        self._steps += 1
        return self._steps > _MOST_STEPS


def _single(text: str) -> str:
    """The one statement that a text is. Raises ``ValueError`` where it is none or several."""
    found = [each for _, each in statements(text) if _COMMENTS.sub(" ", each).strip(" \t\r\n;")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} statements at once")
    return found[0].strip().rstrip(";").rstrip()


def _script(made: Sequence[str]) -> str:
    """Statements one after the other; a comment at the end of one must not swallow its end."""
    ends = ("\n;\n" if "--" in each.rpartition("\n")[2] else ";\n" for each in made)
    return "".join(f"{each}{end}" for each, end in zip(made, ends, strict=True))


# --- keys ---------------------------------------------------------------------------------------


def _with_keys(ddl: str, shape: TableShape) -> str:
    """The statement with NOT NULL on each column of the key that lacks it; a single key of whole
    numbers becomes INTEGER, so that it numbers rows by itself as its writer meant."""
    single = len(shape.key) == 1
    parts = list(_columns(ddl))
    for start, end in reversed(parts):
        text = ddl[start:end]
        named = _NAME.match(text)
        if named is None or named[1].strip('"`[]').lower() not in _lowered(shape.nullable):
            continue
        typed = _TYPE.match(text, named.end())
        type_end = typed.end() if typed else named.end()
        if single and "INT" in text[named.end() : type_end].upper():
            rest = _KEY_DESC.sub(r"\1", text[type_end:])
            text = f"{text[: named.end()]} INTEGER{rest}"
        else:
            text = f"{text[:type_end]} NOT NULL{text[type_end:]}"
        ddl = ddl[:start] + text + ddl[end:]
    return ddl


def _lowered(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}


def _columns(ddl: str) -> Iterator[tuple[int, int]]:
    """Where each part between the commas of a table's outermost parentheses begins and ends."""
    depth, start, position = 0, 0, 0
    while position < len(ddl):
        jump = _QUOTED.match(ddl, position)
        if jump and jump.end() > position:
            position = jump.end()
            continue
        character = ddl[position]
        if character == "(":
            depth += 1
            if depth == 1:
                start = position + 1
        elif character in ",)" and depth == 1:
            yield start, position
            start = position + 1
        if character == ")":
            depth -= 1
        position += 1

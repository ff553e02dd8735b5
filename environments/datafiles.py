"""The rows of a pack's ``data/`` folder: JSON lines and CSV, in an order foreign keys accept."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from environments.complaints import lines_of, read_bytes
from environments.errors import PackInvalid
from snapshots.store import TableRows

_PREFIX = re.compile(r"^\d+[-_]")
_QUOTED_OR_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*+(?:'|\Z)", re.DOTALL)
"""One that does not end goes to the end of the text: so it never looks back."""
_TABLE = re.compile(r"\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?[\"`\[]?(\w+)", re.IGNORECASE)
_REFERENCE = re.compile(r"\bREFERENCES\s+[\"`\[]?(\w+)", re.IGNORECASE)


def read_tables(folder: Path, schema: str) -> tuple[TableRows, ...]:
    """The rows to insert, parents before the children that name them in ``schema``.

    The file name is the table's; a number before it (``10-orders.jsonl``) decides the order
    instead. JSON rows may leave columns out; nested values are stored as JSON text; an empty CSV
    field is NULL. Raises ``PackInvalid`` naming file and line.
    """
    files: dict[Path, str] = {
        path: _PREFIX.sub("", path.stem)
        for path in sorted(folder.glob("*"))
        if path.is_file() and path.suffix in (".jsonl", ".csv")
    }
    rank = {table: number for number, table in enumerate(_parents_first(schema))}
    ordered = sorted(
        files,
        key=lambda path: (
            (0, int(path.name.split("-")[0].split("_")[0]), path.name)
            if _PREFIX.match(path.name)
            else (1, rank.get(files[path], len(rank)), path.name)
        ),
    )
    batches: list[TableRows] = []
    for path in ordered:
        read = _read_csv if path.suffix == ".csv" else _read_json
        for columns, group in groupby(read(path), key=tuple):
            rows = tuple(tuple(row.values()) for row in group)
            batches.append(TableRows(files[path], tuple(columns), rows))
    return tuple(batches)


def _parents_first(schema: str) -> list[str]:
    """The tables of a schema, each after those it references (cycles: as they stand)."""
    bare = _QUOTED_OR_COMMENT.sub(" ", schema)
    starts = list(_TABLE.finditer(bare))
    parents: dict[str, list[str]] = {}
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(bare)
        parents[start.group(1)] = _REFERENCE.findall(bare, start.end(), end)
    order: list[str] = []
    visited: set[str] = set()
    for table in parents:
        waiting = [table]
        while waiting:
            last = waiting[-1]
            if last not in visited:
                visited.add(last)
                waiting += [
                    up for up in reversed(parents[last]) if up in parents and up not in visited
                ]
                continue
            order.append(waiting.pop())
    return list(dict.fromkeys(order))


def _read_json(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PackInvalid(f"{_place(path)}: line {number}: not JSON: {error}") from None
        if not isinstance(row, dict) or not row:
            raise PackInvalid(f"{_place(path)}: line {number}: must be an object of columns")
        try:
            yield {_storable(name): _storable(value) for name, value in row.items()}
        except (ValueError, RecursionError) as error:
            raise PackInvalid(f"{_place(path)}: line {number}: no database holds {error}") from None


def _read_csv(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise PackInvalid(f"{_place(path)}: byte {error.start} is not UTF-8") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise PackInvalid(
                    f"{_place(path)}: line {reader.line_num}: does not have the "
                    f"{len(reader.fieldnames or ())} fields of the first line"
                )
            yield {name: value or None for name, value in row.items()}
    except csv.Error as error:
        raise PackInvalid(f"{_place(path)}: line {reader.line_num}: {error}") from None


def _storable(value: Any) -> Any:
    """Raises ``ValueError`` for what SQLite has no place for, ``RecursionError``."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"the integer {value}")
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half of a character ({value[error.start]!a})") from None
    return value


def _place(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.parent.name}/{path.name}"

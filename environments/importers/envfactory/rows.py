"""Rows of EnvFactory's RL data: found in files of JSON, read, and made tasks.

A row is a turn of a conversation: what was said so far, the calls that answer it, and the documents
before and after them. The calls are tried out, and what they change is what a task expects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.importers.stretches import Stretch, holds, stretches
from environments.spec import Split

_MARK: Final = b"mcp_factory_kwargs"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row, as far as a task wants it."""

    said: str
    """The conversation up to what is asked."""
    calls: tuple[tuple[str, str, dict[str, Any]], ...]
    """Server, function and arguments. No server where its name is none of the row's."""
    documents: Mapping[str, tuple[dict[str, Any], dict[str, Any] | None]]
    """Of each server that of the beginning and of the end, which may not be told."""
    split: Split
    """What the name of its file says it is for."""


def find_rows(path: Path) -> dict[tuple[str, ...], list[Stretch]]:
    """The rows by the servers they are played on: each once, in the order of their names; none for
    rows that do not say. Files that hold no such rows are passed over."""
    found: dict[tuple[str, ...], list[Stretch]] = {}
    for file in sorted(path.rglob("*.json*")):
        inside = file.relative_to(path).parts
        if "envs" in inside[:1] or any(part.startswith(".") for part in inside):
            continue
        if not holds(file, _MARK):
            continue
        for _, row in stretches(file):
            servers = _servers(row)
            if servers or _MARK in row.read():
                found.setdefault(servers, []).append(row)
    return found


def _servers(at: Stretch) -> tuple[str, ...]:
    try:
        found = _loaded(at.value()["extra_info"]["mcp_factory_kwargs"]["mcp_servers"])
    except (ValueError, LookupError, TypeError):
        return ()
    return tuple(sorted({*map(str, found)})) if isinstance(found, list) else ()


def read_rows(rows: Sequence[Stretch], servers: Sequence[str]) -> tuple[dict[str, Row], list[str]]:
    """The rows by the ids of their tasks, as far as they are about ``servers``, and why others
    cannot be read."""
    found, problems = {}, []
    for at in rows:
        try:
            found[row_id(at)] = _read_row(at, servers)
        except ValueError as error:
            problems.append(f"task {row_id(at)} is left out: {error}")
    return found, problems


def _read_row(at: Stretch, servers: Sequence[str]) -> Row:
    """Raises ``ValueError`` for a row that has not what a task needs."""
    try:
        row = at.value()
        given = row["extra_info"]["mcp_factory_kwargs"]
        calls = _loaded(row["reward_model"]["ground_truth"])
        initial = _loaded(given["initial_config"])
        final = _loaded(given.get("final_config") or "{}")
        return Row(
            said=_said(_loaded(row["prompt"])),
            calls=tuple(
                (*_function(str(call["name"]), servers), dict(call["arguments"])) for call in calls
            ),
            documents={
                server: (
                    dict(initial[server]),
                    dict(final[server]) if final.get(server) is not None else None,
                )
                for server in servers
            },
            split=_split(at),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it has no {error}") from error


def _function(name: str, servers: Sequence[str]) -> tuple[str, str]:
    server, separator, function = name.partition("-")
    if separator and server in servers:
        return server, function
    return (servers[0] if len(servers) == 1 else "", name)


def _loaded(value: Any) -> Any:
    """EnvFactory writes JSON into texts of its JSON."""
    return json.loads(value) if isinstance(value, str) else value


def _said(prompt: Any) -> str:
    """The last message; before it, what was said until then."""
    *before, last = [
        (str(message.get("role", "user")), str(message.get("content", ""))) for message in prompt
    ]
    if not before:
        return last[1].strip()
    told = "\n\n".join(f"{role}: {content.strip()}" for role, content in before)
    return f"What was said so far:\n\n{told}\n\nNow: {last[1].strip()}"


def row_id(at: Stretch) -> str:
    """Stable, whatever other rows there are."""
    return f"row-{hashlib.sha256(at.read()).hexdigest()[:12]}"


def _split(at: Stretch) -> Split:
    name = at.file.stem.lower()
    return "test" if "test" in name else "validation" if "val" in name else "train"

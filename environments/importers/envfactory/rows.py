"""Rows of EnvFactory's RL data: found in files of JSON, read, and made tasks.

A row is a turn of a conversation: what was said so far, the calls that answer it, and the documents
before and after them. The calls are tried out, and what they change is what a task expects.
"""

from __future__ import annotations

import hashlib
import json
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
    calls: tuple[tuple[str, dict[str, Any]], ...]
    initial: dict[str, Any]
    final: dict[str, Any] | None
    """None where the row does not say."""
    split: Split
    """What the name of its file says it is for."""


def find_rows(path: Path) -> tuple[dict[str, list[Stretch]], dict[str, int]]:
    """The rows of each server, by its name, that are played on it alone; and how many there are of
    it that want others beside it. Files that hold no such rows are passed over."""
    alone: dict[str, list[Stretch]] = {}
    shared: dict[str, int] = {}
    for file in sorted(path.rglob("*.json*")):
        inside = file.relative_to(path).parts
        if "envs" in inside[:1] or any(part.startswith(".") for part in inside):
            continue
        if not holds(file, _MARK):
            continue
        for _, row in stretches(file):
            servers = _servers(row)
            if len(servers) == 1:
                alone.setdefault(servers[0], []).append(row)
            for server in servers if len(servers) > 1 else ():
                shared[server] = shared.get(server, 0) + 1
    return alone, shared


def _servers(at: Stretch) -> list[str]:
    try:
        found = _loaded(at.value()["extra_info"]["mcp_factory_kwargs"]["mcp_servers"])
    except (ValueError, LookupError, TypeError):
        return []
    return [str(server) for server in found] if isinstance(found, list) else []


def read_row(at: Stretch, server: str) -> Row:
    """Raises ``ValueError`` for a row that has not what a task needs."""
    try:
        row = at.value()
        given = row["extra_info"]["mcp_factory_kwargs"]
        calls = _loaded(row["reward_model"]["ground_truth"])
        final = _loaded(given.get("final_config") or "{}").get(server)
        return Row(
            said=_said(_loaded(row["prompt"])),
            calls=tuple(
                (str(call["name"]).removeprefix(f"{server}-"), dict(call["arguments"]))
                for call in calls
            ),
            initial=dict(_loaded(given["initial_config"])[server]),
            final=dict(final) if final is not None else None,
            split=_split(at),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it has no {error}") from error


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

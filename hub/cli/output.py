"""How the command line speaks: results to standard output, complaints to standard error."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

NUMBER = re.compile(r"-?[0-9.]+|unset")

console = Console(highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(message: str, hint: str = "") -> None:
    """Say what went wrong, and what would mend it."""
    errors.print("[bold red]error:[/]", end=" ")
    errors.print(message, markup=False)
    if hint:
        errors.print("[bold]hint:[/]", end=" ")
        errors.print(hint, markup=False)


def note(text: str) -> None:
    """A word to the person at the terminal, beside the output."""
    errors.print(text, markup=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table; numbers are set to the right."""
    rows = list(rows)
    drawn = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows]
        right = bool(cells) and all(NUMBER.fullmatch(cell) for cell in cells)
        drawn.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(cell) for cell in row))
    console.print(drawn)


def invocation() -> list[str]:
    """The words that start this command here, as it was started or shorter."""
    if shutil.which("envhub"):
        return ["envhub"]
    started = sys.argv[0]
    return [started] if Path(started).name == "envhub" else [sys.executable, "-m", "hub.cli"]


def say(text: str = "") -> None:
    """A plain line, at once (whoever started us may be waiting for it)."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_changes(changes: dict[str, Any]) -> None:
    """Row changes as a person reads them: added, removed, and changed from what to what."""
    for name, kinds in sorted(changes.items()):
        if name.startswith("$"):
            continue
        _line(f"[bold]{escape(name)}[/]")
        for row in kinds.get("added", ()):
            _line(f"  [green]+[/] {escape(_cells(row))}")
        for row in kinds.get("removed", ()):
            _line(f"  [red]-[/] {escape(_cells(row))}")
        for row in kinds.get("changed", ()):
            moves = ", ".join(
                f"{column}: {_cell(row['before'].get(column))} -> {_cell(value)}"
                for column, value in row["after"].items()
            )
            _line(f"  [yellow]~[/] {escape(_cells(row['key']))}   {escape(moves)}")


def _cells(row: dict[str, Any]) -> str:
    return ", ".join(f"{column}={_cell(value)}" for column, value in row.items())


def _cell(value: Any) -> str:
    if value is None:
        return "nothing"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | dict) else str(value)


def _line(text: str) -> None:
    console.print(text, soft_wrap=True)  # a row is a line, however wide the terminal

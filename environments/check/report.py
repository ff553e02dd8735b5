"""What a check found, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

SHOWN_PROBLEMS: Final = 8


class Finding(msgspec.Struct, frozen=True):
    """One gate: whether the pack passes it. Failing a ``hard`` one fails the pack."""

    name: str
    passed: bool
    hard: bool
    detail: str
    """What was looked at, or where it failed, one problem a line."""


class CheckReport(msgspec.Struct, frozen=True):
    """All gates of one pack, in the order in which they were tried. The gates after a pack that
    cannot be read, built or loaded are not tried and not listed."""

    path: Path
    environment: str
    digest: str
    findings: tuple[Finding, ...]
    seconds: float
    tools_called: tuple[str, ...] = ()
    """By some oracle, in the order of their names; empty for a lint."""
    tables_changed: tuple[str, ...] = ()
    """By some oracle, in the order of their names; empty for a lint."""
    cached: bool = False
    """Whether it was found before, on the same pack by the same gates."""

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings if finding.hard)

    @property
    def failures(self) -> list[Finding]:
        """The gates that fail the pack."""
        return [finding for finding in self.findings if finding.hard and not finding.passed]

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields, and ``passed``."""
        return {**msgspec.to_builtins(self, enc_hook=str), "passed": self.passed}

    def render(self) -> RenderableType:
        """A table for a terminal, and the verdict under it."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("gate", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("detail", overflow="fold")
        for finding in self.findings:
            table.add_row(finding.name, _mark(finding), Text(finding.detail))
        failed = len(self.failures)
        verdict = (
            Text(f"{self.environment} passes ({self._spent})", style="bold green")
            if self.passed
            else Text(
                f"{self.environment} fails {failed} of {len(self.findings)} gates", "bold red"
            )
        )
        return Group(table, Text(), verdict)

    @property
    def _spent(self) -> str:
        return "known from before" if self.cached else f"{self.seconds:.1f} s"

    def __rich__(self) -> RenderableType:
        return self.render()


def finding(name: str, problems: Sequence[str], *, note: str = "", hard: bool = True) -> Finding:
    """A gate that passes if there are no ``problems``; then ``note`` says what was looked at."""
    shown = list(problems[:SHOWN_PROBLEMS])
    if len(problems) > SHOWN_PROBLEMS:
        shown.append(f"... and {len(problems) - SHOWN_PROBLEMS} more")
    return Finding(name, not problems, hard, "\n".join(shown) if shown else note)


def _mark(finding: Finding) -> Text:
    if finding.passed:
        return Text("pass", style="green")
    return Text("FAIL", style="bold red") if finding.hard else Text("note", style="yellow")

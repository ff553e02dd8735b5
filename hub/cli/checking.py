"""Commands that judge packs: the gate, the lint for reward hacks, the quality report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from hub.cli.output import console, say, table
from hub.cli.packs import folder_of
from hub.cli.progress import bars
from hub.judging import judge_of
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.check import Finding, QualityReport

Named = Annotated[list[str], typer.Argument(help="Folders of packs, or names of shipped ones.")]
JudgeUrl = Annotated[
    str | None, typer.Option(help="An OpenAI-compatible endpoint, up to and with /v1.")
]
JudgeModel = Annotated[str | None, typer.Option(help="The model that judges.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("check")(check)
    app.command("lint")(lint)
    app.command("quality")(quality)


def check(
    packs: Named,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that were checked before and are the same.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check packs: does the oracle score 1, doing nothing 0, damage 0, a replay the same?

    Exits with 1 if a pack does not pass.
    """
    from environments.check import CheckReport, check_packs
    from environments.check.gate import GATES

    settings = Settings.from_environment()
    paths = [folder_of(pack) for pack in packs]

    async def run() -> list[CheckReport]:
        async with judge_of(settings) as judge:
            with _gates(paths, GATES) as told:
                return await check_packs(
                    paths, kept=settings.data_dir / "checks", again=again, judge=judge, told=told
                )

    reports = asyncio.run(run())
    _show(reports, packs, as_json)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def lint(packs: Named, as_json: AsJson = False) -> None:
    """Look for ways to be paid that are not the task: constant answers, another task's work.

    Exits with 1 if there is one.
    """
    from environments.check import CheckReport, lint_packs

    settings = Settings.from_environment()

    async def run() -> list[CheckReport]:
        async with judge_of(settings) as judge:
            return await lint_packs([folder_of(pack) for pack in packs], judge)

    reports = asyncio.run(run())
    _show(reports, packs, as_json)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def quality(
    packs: Named,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    as_json: AsJson = False,
) -> None:
    """Grade packs: can the tasks be done, is the data there, do the tools do what is needed?"""
    from environments.check import assess_packs

    settings = Settings.from_environment(judge_url=judge_url, judge_model=judge_model)

    async def run() -> list[QualityReport]:
        async with judge_of(settings) as judge:
            return await assess_packs([folder_of(pack) for pack in packs], judge)

    reports = asyncio.run(run())
    if as_json:
        say(msgspec.json.encode(reports).decode())
        return
    for pack, report in zip(packs, reports, strict=True):
        console.print(f"[bold]{pack}[/]")
        _show_quality(report)


def _show_quality(report: QualityReport) -> None:
    rows = []
    for respect, measured in report.measured.items():
        grade = getattr(report.review, respect) if report.review else None
        rows.append(
            (
                respect.replace("_", " "),
                f"{measured.good} of {measured.of}",
                measured.what,
                f"{grade.grade} of 5" if grade else "-",
                grade.reason if grade else "",
            )
        )
    judged = f"judged by {report.model}" if report.review else "judged"
    table(("", "measured", "of what", judged, "why"), rows)
    for problem in (one for measured in report.measured.values() for one in measured.problems):
        say(f"  {problem}")
    for problem in report.review.problems if report.review else ():
        say(f"  {report.model}: {problem}")
    if report.unreviewed:
        say(f"  not judged: {report.unreviewed}")
    say()


def _show(reports: list[Any], packs: list[str], as_json: bool) -> None:
    if as_json:
        say(msgspec.json.encode([report.to_json() for report in reports]).decode())
        return
    for pack, report in zip(packs, reports, strict=True):
        console.print(f"[bold]{pack}[/]")
        console.print(report)
    if len(reports) > 1:
        passed = sum(report.passed for report in reports)
        say(f"\n{passed} of {len(reports)} packs pass")


@contextmanager
def _gates(paths: list[Path], total: int) -> Iterator[Callable[[Path, Finding | None], None]]:
    """A bar for each pack, drawn from its first finding to its last."""
    with bars() as drawn:
        tasks = {path: drawn.add_task(path.name, total=total, start=False) for path in paths}

        def told(path: Path, finding: Finding | None) -> None:
            drawn.start_task(tasks[path])
            if finding is None:
                drawn.update(tasks[path], visible=len(paths) <= 8, completed=total)
            else:
                drawn.update(tasks[path], advance=1, description=f"{path.name}: {finding.name}")

        yield told

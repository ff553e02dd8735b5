"""The command that makes environments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hub.cli.output import say
from hub.cli.progress import progress

if TYPE_CHECKING:
    from environments.synthesis.offline.making import Made


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("synth")(synth)


def synth(
    into: Annotated[Path, typer.Option(help="The folder for the packs.")],
    offline: Annotated[
        bool, typer.Option("--offline", help="From blueprints, without a language model.")
    ] = False,
    count: Annotated[int, typer.Option(min=1, help="How many environments.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same environments.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    domain: Annotated[list[str] | None, typer.Option(help="Only these domains.")] = None,
) -> None:
    """Make environments that pass the gate; run it again to go on with what was interrupted.

    Figures are written to .synth/report.json in the folder. Exits with 1 if some do not pass.
    """
    from environments.synthesis.blueprints import blueprints
    from environments.synthesis.offline.running import NOTES, Request, report_of, synthesise

    if not offline:
        raise typer.BadParameter("say --offline: environments are made from blueprints")
    request = Request(seed=seed, domains=tuple(domain or blueprints()))
    with progress("environments", count) as advance:

        def told(made: Made) -> None:
            advance()
            if not made.passed:
                say(f"{made.name} is rejected: {made.problems[0]}")

        every = synthesise(request, count, into, jobs, told)
    report = report_of(every)
    (into / NOTES / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    median = report["median"]
    say(
        f"{report['passed']} of {count} environments pass; median: {median['tables']} tables, "
        f"{median['tools']} tools, {median['rows']} rows, {median['tasks']} tasks"
    )
    if report["passed"] < count:
        raise typer.Exit(1)

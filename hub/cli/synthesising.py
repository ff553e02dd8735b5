"""The command that makes environments: of a sentence by a language model, or from blueprints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hub.cli.output import complain, say
from hub.cli.progress import progress
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.synthesis.offline.making import Made


Sentence = Annotated[
    str | None, typer.Argument(help="What the environments are to be, in a sentence.")
]
Into = Annotated[Path, typer.Option(help="The folder for the packs.")]
Count = Annotated[
    int | None,
    typer.Option(min=1, help="How many environments; of a sentence, how many proposals."),
]
Tasks = Annotated[int, typer.Option(min=1, help="Tasks of each environment.")]
Walks = Annotated[
    int, typer.Option(min=0, help="Further tasks of each, by walks through its tools.")
]
Resume = Annotated[
    str | None, typer.Option(help="Go on with this run: its name in runs/, or its folder.")
]
Redo = Annotated[
    str | None, typer.Option(help="With --resume: go through this stage anew, and what follows.")
]
Model = Annotated[
    str | None,
    typer.Option(help="Who writes; anthropic:NAME by Anthropic's library; recorded: nobody new."),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Its OpenAI-compatible endpoint, up to and with /v1.")
]
Embedder = Annotated[
    str | None,
    typer.Option(help="A model of the endpoint that embeds texts, to tell what they mean."),
]
Budget = Annotated[float | None, typer.Option(min=0.0, help="Stop before this is spent.")]
Price = Annotated[
    tuple[float, float] | None, typer.Option(help="US dollars of a million tokens, in and out.")
]
Repairs = Annotated[int, typer.Option(min=0, help="How often what fails is made again.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Requests in flight.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Of one request, in seconds.")]
Attempts = Annotated[int, typer.Option(min=1, help="Requests for one answer while it is busy.")]

_EITHER = frozenset({"into", "offline", "count", "seed"})
_OFFLINE = frozenset({"jobs", "domain"})
"""The options of --offline alone; those that are in neither are of a model's run."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("synth")(synth)


def synth(
    context: typer.Context,
    into: Into,
    sentence: Sentence = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="From blueprints, without a language model.")
    ] = False,
    count: Count = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same environments.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Processes of --offline.")] = os.cpu_count() or 1,
    domain: Annotated[
        list[str] | None, typer.Option(help="Only these domains of --offline.")
    ] = None,
    tasks: Tasks = 10,
    walks: Walks = 4,
    resume: Resume = None,
    redo: Redo = None,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    budget_usd: Budget = None,
    price: Price = None,
    repairs: Repairs = 5,
    concurrency: AtOnce = 8,
    timeout_seconds: Timeout = 300.0,
    attempts: Attempts = 5,
) -> None:
    """Make environments of a sentence with a language model, or from blueprints, and prove them.

    A model's run is kept in runs/ of the folder, and gone on with by --resume; the key is read
    from ENVHUB_MODEL_KEY. With --offline the same command goes on with what was interrupted. Exits
    with 1 if a run stopped or no environment passes; with --offline, if one does not.
    """
    if misplaced := ", ".join(_misplaced(context, offline)):
        complain(
            f"--offline takes no {misplaced}: it asks no model"
            if offline
            else f"{misplaced} goes with --offline"
        )
        raise typer.Exit(2)
    if offline:
        _from_blueprints(into, count or 10, seed, jobs, domain)
        return
    from environments.synthesis.folder import Wanted
    from hub.cli.drafting import Run, Terms, draft

    settings = Settings.from_environment(model_url=base_url, model_name=model)
    wanted = Wanted(
        sentence=sentence or "",
        count=count or 1,
        seed=seed,
        model=settings.model_name,
        base_url=settings.model_url,
        embedder=embedder or "",
        repairs=repairs,
        tasks=tasks,
        walks=walks,
    )
    terms = Terms(concurrency, timeout_seconds, attempts, budget_usd, price)
    draft(into, Run(wanted, resume, redo), terms, settings)


def _misplaced(context: typer.Context, offline: bool) -> Iterator[str]:
    """What was given and says nothing to a run of this kind, as it is written."""
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name not in _EITHER and (name in _OFFLINE) is not offline:
            yield name if name == "sentence" else f"--{name.replace('_', '-')}"


def _from_blueprints(
    into: Path, count: int, seed: int, jobs: int, domain: list[str] | None
) -> None:
    """Figures are written to .synth/ in the folder: report.json, and a page to look at."""
    from environments.synthesis.blueprints import blueprints
    from environments.synthesis.journal import write_record
    from environments.synthesis.offline.running import NOTES, Request, report_of, synthesise
    from environments.synthesis.plots import require_matplotlib
    from environments.synthesis.report import write_report

    require_matplotlib()
    request = Request(seed=seed, domains=tuple(domain or blueprints()))
    with progress("environments", count) as advance:

        def told(made: Made) -> None:
            advance()
            if not made.passed:
                say(f"{made.name} is rejected: {made.problems[0]}")

        every = synthesise(request, count, into, jobs, told)
    report = report_of(every)
    (into / NOTES / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    write_record(into / NOTES, [made.record for made in every])
    page = write_report(into / NOTES, into.resolve().name)
    median = report["median"]
    say(
        f"{report['passed']} of {count} environments pass; median: {median['tables']} tables, "
        f"{median['tools']} tools, {median['rows']} rows, {median['tasks']} tasks"
    )
    say(f"the report is {page}")
    if report["passed"] < count:
        raise typer.Exit(1)

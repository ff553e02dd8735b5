"""``envhub synth`` with a language model: from a sentence to environments, or why not."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from hub.cli.output import complain, errors, invocation, note, say, table
from hub.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from environments.llm import Endpoint
    from environments.synthesis.alike import Embed
    from environments.synthesis.author import Author
    from environments.synthesis.folder import RunFolder, Wanted
    from environments.synthesis.journal import EnvironmentRecord
    from environments.synthesis.pipeline import Told
    from environments.synthesis.spending import Priced, Spending

RECORDED = "recorded"
"""The model that knows only what the run's folder has of it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Which run it is: a new one, or one that is gone on with."""

    wanted: Wanted
    resume: str | None
    redo: str | None


@dataclass(frozen=True, slots=True)
class Terms:
    """How the model is asked, and what that may cost."""

    concurrency: int
    timeout_seconds: float
    attempts: int
    budget_usd: float | None
    price: tuple[float, float] | None


def draft(into: Path, run: Run, terms: Terms, settings: Settings) -> None:
    """Begin a run or go on with one, and tell what came of it.

    Exits with 1 where it stopped or no environment passes.
    """
    from environments.llm import Endpoint
    from environments.synthesis.plots import require_matplotlib
    from environments.synthesis.spending import Spending

    _require(run)
    require_matplotlib()
    opened = None if run.resume is None else _opened(into, run.resume)
    asked = run.wanted if opened is None or _asks(run) else opened.wanted
    price = priced(asked.model, asked.base_url, terms.price, terms.budget_usd)
    folder = _begun(into, asked) if opened is None else _changed(opened, run)
    wanted = folder.wanted
    endpoint = Endpoint(
        base_url=wanted.base_url,
        model=wanted.model,
        api_key=settings.model_key,
        temperature=None,
        timeout_seconds=terms.timeout_seconds,
        attempts=terms.attempts,
        concurrency=terms.concurrency,
    )
    spending = Spending(folder.path, price, terms.budget_usd)
    _finish(_Work(folder, into, endpoint, settings.model_name == RECORDED), spending)


def _require(run: Run) -> None:
    """Exit with 2 for options that make no sense together."""
    from environments.synthesis.pipeline import NAMES
    from environments.synthesis.spending import ANTHROPIC

    wanted, problem = run.wanted, ""
    if run.resume is None and not wanted.model:
        problem = "a model is needed: --model, and --base-url unless it is anthropic:NAME"
    elif run.resume is None and (run.redo is not None or wanted.model == RECORDED):
        problem = "--redo and the recorded model go with --resume"
    elif _asks(run) and not (wanted.base_url or wanted.model.startswith(ANTHROPIC)):
        problem = f"where is {wanted.model} asked? --base-url says so"
    elif run.resume is not None and wanted.sentence:
        problem = "a run that is gone on with has its sentence already"
    elif run.redo is not None and run.redo not in NAMES:
        problem = f"{run.redo!r} is no stage; there are: {', '.join(NAMES)}"
    if problem:
        complain(problem)
        raise typer.Exit(2)


def _asks(run: Run) -> bool:
    """Whether the command names a model to ask."""
    return run.wanted.model not in ("", RECORDED)


def _begun(into: Path, wanted: Wanted) -> RunFolder:
    from environments.synthesis.folder import RUNS, RunFolder

    name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    return RunFolder.begin(into / RUNS / name, wanted)


def _opened(into: Path, name: str) -> RunFolder:
    """The run that is gone on with."""
    from environments.synthesis.folder import RUNS, RunFolder

    return RunFolder.open(Path(name) if "/" in name else into / RUNS / name)


def _changed(folder: RunFolder, run: Run) -> RunFolder:
    """The run as the options change it."""
    if _asks(run):
        folder.ask(run.wanted.model, run.wanted.base_url)
    if run.redo is not None:
        folder.again(run.redo)
    return folder


def priced(
    model: str, base_url: str, price: tuple[float, float] | None, budget_usd: float | None
) -> Priced | None:
    """What tokens cost. Raises ``PriceUnknown`` where a budget needs it."""
    from environments.evaluation.figures import Prices
    from environments.synthesis.spending import PriceUnknown, price_of

    given = Prices(prompt=price[0], completion=price[1]) if price else None
    found = price_of(model, base_url, given)
    if found is None and budget_usd is not None:
        raise PriceUnknown(model)
    return found


@dataclass(frozen=True, slots=True)
class _Work:
    """A run, where its packs go, and who is asked."""

    folder: RunFolder
    into: Path
    endpoint: Endpoint
    recorded: bool


def _finish(work: _Work, spending: Spending) -> None:
    """Go through the run and report; exit with 1 where it stopped or nothing passed."""
    from environments.errors import EnvhubError

    command = (*invocation(), "synth", "--into", str(work.into), "--resume", work.folder.path.name)
    go_on = f"go on with: {shlex.join(command)}"
    stopped: EnvhubError | None = None
    records: list[EnvironmentRecord] = []
    try:
        records = asyncio.run(_made(work, spending))
    except EnvhubError as error:
        stopped = error
    except KeyboardInterrupt:
        note(f"stopped; {go_on}")
        raise
    finally:
        _report(work, spending)
    if stopped is not None:
        complain(stopped.message, stopped.hint)
        note(go_on)
    if stopped is not None or not any(one.outcome == "passed" for one in records):
        raise typer.Exit(1)


async def _made(work: _Work, spending: Spending) -> list[EnvironmentRecord]:
    from environments.synthesis.pipeline import Pipeline
    from environments.synthesis.workshop import workshop

    with _progress(spending) as told:
        async with _asked(work, spending) as (author, embed), workshop() as place:
            return await Pipeline(work.folder, work.into, author, place, embed, told).run()


@asynccontextmanager
async def _asked(work: _Work, spending: Spending) -> AsyncIterator[tuple[Author, Embed | None]]:
    """Who writes, and who embeds texts."""
    from environments.synthesis.author import Author, asked_at

    answers = work.folder.path / "answers"
    if work.recorded:
        yield Author(None, work.endpoint, answers, spending), None
        return
    async with asked_at(work.endpoint, work.folder.wanted.embedder, spending) as (model, embed):
        yield Author(model, work.endpoint, answers, spending), embed


# --- what is told ----------------------------------------------------------------------------


@contextmanager
def _progress(spending: Spending) -> Iterator[Callable[[Told], None]]:
    """A bar with stage, counts, cost and the time that is left; lines where nobody watches."""
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[cost]}", markup=False),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ) as drawn:
        bar = drawn.add_task("scenario", total=None, cost="")

        def told(one: Told) -> None:
            where = f"{one.environment} {one.stage}".strip()
            if one.outcome is None:
                drawn.update(bar, description=where, total=one.total, cost=_cost(spending))
                return
            drawn.update(bar, advance=1, total=one.total, cost=_cost(spending))
            if not errors.is_terminal:
                note(f"{where}: {_outcome(one)}, {_cost(spending)}")

        yield told


def _outcome(one: Told) -> str:
    if one.known or one.outcome is None:
        return "as it was"
    repairs, lost = len(one.outcome.repairs), len(one.outcome.rejected)
    words = [f"{one.outcome.out_of} of {one.outcome.into}"]
    words += [f"{repairs} repaired"] if repairs else []
    words += [f"{lost} given up"] if lost else []
    return ", ".join(words)


def _cost(spending: Spending) -> str:
    usage = spending.usage
    if spending.usd is not None and spending.priced is not None:
        return f"{spending.usd:.4f} USD"
    return f"{usage.prompt_tokens + usage.completion_tokens} tokens"


def _report(work: _Work, spending: Spending) -> None:
    from environments.synthesis.journal import RECORD, read_record
    from environments.synthesis.report import write_report

    if not (work.folder.path / RECORD).is_file():
        return  # it ended before anything began
    records = list(read_record(work.folder.path))
    if records:
        table(
            ("environment", "outcome", "tables", "tools", "rows", "tasks", "repairs", "why"),
            [_row(one) for one in records],
        )
    page = write_report(work.folder.path)
    price = "" if spending.priced is not None else " (the price of this model is not known)"
    say(f"{_cost(spending)}{price}; the report is {page}")


def _row(one: EnvironmentRecord) -> Sequence[str]:
    made = one.makeup
    sizes = (made.tables, made.tools, made.rows, made.tasks)
    repairs = sum(len(stage.repairs) for stage in one.stages)
    return (one.name, one.outcome, *map(str, sizes), str(repairs), one.reason[:120])

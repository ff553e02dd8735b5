"""``envhub sample``: more tasks for a pack that is there, by walks through its tools."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from environments.whole import write_whole
from hub.cli.output import complain, note, say, table
from hub.cli.packs import folder_of
from hub.cli.progress import progress
from hub.cli.synthesising import BaseUrl, Budget, Embedder, Price, Repairs
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.catalogue import Pack
    from environments.environment import Environment
    from environments.spec import Task
    from environments.synthesis.alike import Embed
    from environments.synthesis.author import Author
    from environments.synthesis.sampling.sampler import Sampler, Sampling

_REASONS = 8

PackName = Annotated[str, typer.Argument(help="The folder of a pack, or the name of one.")]
Count = Annotated[int, typer.Option(min=1, help="How many tasks.")]
Calls = Annotated[int, typer.Option(min=1, max=20, help="How many calls one takes, at most.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same tasks.")]
Links = Annotated[bool, typer.Option("--links", help="Show what leads where, and make no tasks.")]
Model = Annotated[str | None, typer.Option(help="Who words the tasks; without one, templates do.")]
Out = Annotated[
    Path | None, typer.Option(help="The file; by default NAME.sampled.jsonl beside the pack.")
]
Write = Annotated[
    bool, typer.Option("--write", help="Put the tasks into tasks.jsonl: the digest changes.")
]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("sample")(sample)


def sample(
    pack: PackName,
    count: Count = 10,
    calls: Calls = 5,
    seed: Seed = 1,
    links: Links = False,
    model: Model = None,
    base_url: BaseUrl = None,
    embedder: Embedder = None,
    budget_usd: Budget = None,
    price: Price = None,
    repairs: Repairs = 5,
    out: Out = None,
    write: Write = False,
) -> None:
    """Make tasks for a pack by walks from what one of its tools answers to what another takes.

    A walk is played and undone; its calls are the oracle, what they changed makes the verifier, and
    where they change nothing it is a question. Exits with 1 if no task came of it.
    """
    from environments.catalogue import SHIPPED, load_pack

    settings = Settings.from_environment(model_url=base_url, model_name=model or "")
    if (model or embedder) and not settings.model_url:
        complain("where is the model asked? --base-url says so")
        raise typer.Exit(2)
    folder = folder_of(pack, to_play=True)
    asked = _Asked(
        count=count,
        calls=calls,
        seed=seed,
        links=links,
        embedder=embedder or "",
        repairs=repairs,
        budget_usd=budget_usd,
        price=price,
    )
    found = load_pack(folder)
    tasks = asyncio.run(_sampled(settings, found, asked))
    if links:
        return
    if not tasks:
        complain("no task came of it", "--links shows what there is to walk along")
        raise typer.Exit(1)
    beside = folder.resolve().parent
    if beside.is_relative_to(SHIPPED):
        beside = settings.data_dir / "sampled"
    file = out or beside / f"{found.name}.sampled.jsonl"
    lines = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    write_whole(file, lines)
    note(f"written to {file}")
    if write:
        _append(folder, found, lines)


def _append(folder: Path, pack: Pack, lines: bytes) -> None:
    """Put tasks behind those of the pack, whole or not at all."""
    from environments.catalogue import pack_digest

    path = folder / "tasks.jsonl"
    before = path.read_bytes() if path.is_file() else b""
    if before and not before.endswith(b"\n"):
        before += b"\n"
    write_whole(path, before + lines)
    note(f"the tasks are in {path}")
    note(f"the pack's digest was {pack.digest}, now {pack_digest(folder)}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be made."""

    count: int
    calls: int
    seed: int
    links: bool
    embedder: str
    repairs: int
    budget_usd: float | None
    price: tuple[float, float] | None


async def _sampled(settings: Settings, pack: Pack, asked: _Asked) -> list[Task]:
    from environments.environment import open_environments
    from environments.synthesis.sampling.sampler import Sampler
    from hub.supply import catalogue_with

    catalogue = catalogue_with(pack.path, settings)
    async with (
        AsyncExitStack() as stack,
        open_environments(catalogue, data_dir=settings.data_dir) as environments,
    ):
        author, embed = await _asked_of(stack, settings, pack, asked)
        environment = await environments.get(pack.name)
        sampler = await Sampler.open(environment, asked.seed, embed)
        if asked.links:
            _show_links(sampler)
            return []
        with progress(f"walks in {pack.name}", asked.count) as done:
            made = await sampler.sample(asked.count, asked.calls, told=lambda task: done())
        tasks = await _worded(environment, made, author, asked)
    _tell(made, tasks, asked)
    return tasks


async def _asked_of(
    stack: AsyncExitStack, settings: Settings, pack: Pack, asked: _Asked
) -> tuple[Author | None, Embed | None]:
    """Who words the tasks, and who embeds texts, if anybody. Raises ``PriceUnknown``."""
    from environments.llm import Endpoint
    from environments.synthesis.author import Author, asked_at
    from environments.synthesis.spending import Spending
    from hub.cli.drafting import priced

    if not settings.model_name and not asked.embedder:
        return None, None
    folder = settings.data_dir / "sampled" / pack.digest[:16]
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = Endpoint(
        base_url=settings.model_url,
        model=settings.model_name or asked.embedder,
        api_key=settings.model_key,
        temperature=None,
    )
    price = priced(endpoint.model, endpoint.base_url, asked.price, asked.budget_usd)
    spending = Spending(folder, price, asked.budget_usd)
    model, embed = await stack.enter_async_context(asked_at(endpoint, asked.embedder, spending))
    author = Author(model, endpoint, folder / "answers", spending) if settings.model_name else None
    return author, embed


async def _worded(
    environment: Environment, made: Sampling, author: Author | None, asked: _Asked
) -> list[Task]:
    """The tasks as the model says them, or templates where there is none or it cannot."""
    if author is None:
        return [sampled.task for sampled in made.tasks]
    from environments.synthesis.mending import Desk, NotMade
    from environments.synthesis.sampling.worded import STAGE, worded

    desk = Desk(stage=STAGE, environment=environment.name, author=author, repairs=asked.repairs)
    tasks = []
    with progress("wording", len(made.tasks)) as done:
        for sampled in made.tasks:
            try:
                task, _ = await worded(desk, environment, sampled)
            except NotMade as error:
                note(f"{sampled.task.id} is said as templates say it: {error.message}")
                task = sampled.task
            tasks.append(task)
            done()
    return tasks


# --- what is told ----------------------------------------------------------------------------


def _show_links(sampler: Sampler) -> None:
    table(
        ("tool", "answers", "tool", "takes", "which names"),
        [
            (
                link.source,
                ".".join(link.field),
                link.target,
                link.parameter,
                f"{link.kind.table}.{link.kind.column}" if link.kind.table else link.kind.column,
            )
            for link in sampler.graph.links
        ],
    )


def _tell(made: Sampling, tasks: list[Task], asked: _Asked) -> None:
    table(
        ("task", "difficulty", "calls", "instruction"),
        [(task.id, task.difficulty, str(len(task.oracle)), task.instruction) for task in tasks],
    )
    asking = f"{made.questions} of them questions"
    say(f"{len(tasks)} of {asked.count} tasks, {asking}, by {made.walks} walks")
    if len(tasks) < asked.count:
        for reason, times in made.reasons.most_common(_REASONS):
            note(f"{times} walks made none: {reason}")

"""``envhub rate``: how hard are a pack's tasks for a model, or a script?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from environments.whole import write_whole
from hub.cli.evaluating import (
    SHOWN_FAILURES,
    AsJson,
    AtOnce,
    BaseUrl,
    Model,
    Seed,
    playing,
    slug,
)
from hub.cli.output import complain, note, say, table
from hub.cli.packs import folder_of
from hub.cli.progress import progress
from hub.judging import judge_of, user_of
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.errors import EnvhubError
    from environments.evaluation.rating import Ratings
    from environments.evaluation.runs import Key

MODEL, GREEDY = "model", "greedy"

Pack = Annotated[str, typer.Argument(help="The folder of a pack, or the name of a shipped one.")]
Policy = Annotated[
    str,
    typer.Option(
        help="Who plays: model, greedy (the model at temperature 0), or a script: oracle, "
        "patient-oracle, nothing, random."
    ),
]
Tries = Annotated[int, typer.Option("--k", "-k", min=1, help="Tries of each task.")]
Out = Annotated[
    Path | None, typer.Option(help="The file; by default NAME.ratings.json beside the pack.")
]
Write = Annotated[
    bool, typer.Option("--write", help="Put the bands into tasks.jsonl: the digest changes.")
]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("rate")(rate)


def rate(
    pack: Pack,
    policy: Policy = MODEL,
    tries: Tries = 8,
    model: Model = None,
    base_url: BaseUrl = None,
    seed: Seed = 0,
    concurrency: AtOnce = 8,
    out: Out = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Measure how often a policy passes each task, and put the task into a band of difficulty.

    Runs are kept: -k may be raised later. Exits with 1 if a run could not be made or scored.
    """
    from environments.catalogue import SHIPPED
    from environments.evaluation.rating import write_bands

    settings = Settings.from_environment(model_url=base_url, model_name=model)
    asks = policy in (MODEL, GREEDY)
    if asks and not (settings.model_name and settings.model_url):
        complain("a model needs --model and --base-url; a script needs --policy")
        raise typer.Exit(2)
    folder = folder_of(pack, to_play=True)
    given = _Given(
        policy=settings.model_name if asks else policy,
        script=None if asks else policy,
        temperature=0.0 if policy == GREEDY else None,
        tries=tries,
        seed=seed,
        at_once=concurrency,
    )
    ratings, failed = asyncio.run(_rated(settings, folder, given))
    for key, error in list(failed.items())[:SHOWN_FAILURES]:
        complain(f"{key[2]}, try {key[3]}: {error.message}", error.hint)
    if failed:
        note(f"{len(failed)} runs could not be made; nothing is written. Try again for these alone")
        raise typer.Exit(1)
    ours = folder.resolve().is_relative_to(SHIPPED)
    beside = settings.data_dir / "ratings" if ours else folder.resolve().parent
    file = out or beside / f"{ratings.environment}.ratings.json"
    encoded = msgspec.json.format(msgspec.json.encode(ratings)) + b"\n"
    write_whole(file, encoded)
    if as_json:
        say(encoded.decode())
    else:
        _tell(ratings)
    note(f"written to {file}")
    if write:
        before, after = write_bands(folder, ratings)
        note(f"the bands are in {folder / 'tasks.jsonl'}")
        note(f"the pack's digest was {before}, now {after}")


@dataclass(frozen=True, slots=True)
class _Given:
    """Who plays, and how often."""

    policy: str
    script: str | None
    temperature: float | None
    tries: int
    seed: int
    at_once: int


async def _rated(
    settings: Settings, folder: Path, given: _Given
) -> tuple[Ratings, dict[Key, EnvhubError]]:
    from environments.catalogue import load_pack
    from environments.environment import open_environments
    from environments.evaluation.rating import rate as rated
    from environments.evaluation.runs import Evaluation, Terms, tries_of
    from hub.supply import catalogue_with

    pack = load_pack(folder)
    terms = Terms(policy=given.policy, seed=given.seed, temperature=given.temperature)
    kept = f"{pack.digest[:16]}-{slug(given.policy)}-{given.temperature}-{given.seed}"
    async with (
        judge_of(settings) as judge,
        user_of(settings) as user,
        playing(settings, terms, given.at_once, given.script) as policy,
        open_environments(
            catalogue_with(folder, settings), data_dir=settings.data_dir, judge=judge, user=user
        ) as environments,
    ):
        environment = await environments.get(pack.name)
        tries = tries_of([environment], given.tries)
        evaluation = Evaluation(settings.data_dir / "ratings" / kept, terms)
        with progress(f"{policy.name} plays {pack.name}", len(tries)) as done:
            failed = await evaluation.make(policy, tries, given.at_once, done)
    runs = [evaluation.made[item.key] for item in tries if item.key in evaluation.made]
    return rated(environment.pack, given.policy, given.seed, runs), failed


def _tell(ratings: Ratings) -> None:
    ks = sorted({k for rating in ratings.tasks for k in rating.pass_at})
    table(
        ("task", "passed", *(f"pass@{k}" for k in ks), "band", "declared"),
        [
            (
                rating.task,
                f"{rating.passed} of {rating.tries}",
                *(f"{rating.pass_at[k]:.3f}" for k in ks),
                rating.band,
                rating.declared,
            )
            for rating in ratings.tasks
        ],
    )

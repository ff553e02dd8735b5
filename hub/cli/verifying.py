"""``envhub verify``: are recorded runs what they say they are, and what are they worth?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
import typer

from hub.cli.output import complain, say, table
from hub.cli.progress import progress
from hub.judging import judge_of
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.comparison import Comparison
    from environments.replay import Replayed
    from environments.trajectory import Reward

Way = Literal["code", "judge", "code+judge"]
WAYS: tuple[Way, ...] = ("code", "judge", "code+judge")

Packs = Annotated[
    list[Path] | None,
    typer.Option("--packs", help="A pack or a folder of packs, beside the shipped ones."),
]
JudgeUrl = Annotated[
    str | None, typer.Option(help="An OpenAI-compatible endpoint, up to and with /v1.")
]
JudgeModel = Annotated[str | None, typer.Option(help="The model that judges.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("verify")(verify)


def verify(
    file: Annotated[Path, typer.Argument(help="Trajectories, one line of JSON each.")],
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="Score this way (code, judge, code+judge); several are compared."),
    ] = None,
    packs: Packs = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    as_json: AsJson = False,
) -> None:
    """Play recorded runs again: is every step as recorded, and the reward the same?

    Exits with 1 if a run is not confirmed or, with --strategy, not scored.
    """
    settings = Settings.from_environment(
        packs=tuple(packs) if packs else None, judge_url=judge_url, judge_model=judge_model
    )
    for way in strategy or ():
        if way not in WAYS:
            complain(f"there is no strategy {way!r}", f"there are: {', '.join(WAYS)}")
            raise typer.Exit(2)
    ways = cast("list[Way]", list(dict.fromkeys(strategy or ())))
    running = _compare(settings, file, ways, as_json) if ways else _replay(settings, file, as_json)
    if not asyncio.run(running):
        raise typer.Exit(1)


async def _replay(settings: Settings, file: Path, as_json: bool) -> bool:
    from environments.environment import open_environments
    from environments.record import read_lines
    from environments.replay import replay_all
    from hub.supply import catalogue_of

    trajectories = list(read_lines(file))
    async with (
        judge_of(settings) as judge,
        open_environments(
            catalogue_of(settings), data_dir=settings.data_dir, judge=judge
        ) as environments,
    ):
        with progress("playing again", len(trajectories)) as done:
            found = await replay_all(environments, trajectories, done)
    if as_json:
        say(msgspec.json.encode(found).decode())
    else:
        _show_replayed(found)
    return all(run.confirmed for run in found)


def _show_replayed(found: list[Replayed]) -> None:
    table(
        ("run", "environment", "task", "steps", "reward", "again", "status", "where"),
        [
            (
                run.id,
                run.environment,
                run.task or "-",
                str(run.steps),
                _value(run.recorded),
                _value(run.again),
                run.status,
                run.difference if run.step is None else f"step {run.step}: {run.difference}",
            )
            for run in found
        ],
    )
    confirmed = sum(run.confirmed for run in found)
    say(f"\n{confirmed} of {len(found)} runs are confirmed")


def _value(reward: Reward | None) -> str:
    if reward is None:
        return "-"
    return "unset" if reward.value is None else f"{reward.value:g}"


async def _compare(settings: Settings, file: Path, ways: list[Way], as_json: bool) -> bool:
    from environments.comparison import compare
    from environments.environment import open_environments
    from environments.record import read_lines
    from hub.supply import catalogue_of

    trajectories = list(read_lines(file))
    async with judge_of(settings) as judge:
        if judge is None and ways != ["code"]:
            complain("no judge is set", "give --judge-url and --judge-model, or ENVHUB_JUDGE_URL")
            raise typer.Exit(2)
        async with open_environments(
            catalogue_of(settings), data_dir=settings.data_dir
        ) as environments:
            with progress("scoring", len(trajectories)) as done:
                found = await compare(environments, trajectories, ways, judge, done)
    if as_json:
        say(msgspec.json.encode(found).decode())
    else:
        _show_comparison(found, ways)
    return not any(run.problem for run in found.runs) and not any(way.unset for way in found.costs)


def _show_comparison(found: Comparison, ways: list[Way]) -> None:
    rows = []
    for run in found.runs:
        outcomes = [run.scores[way].outcome if run.scores else "-" for way in ways]
        note = run.problem or ("" if run.agree else "they disagree")
        rows.append((run.id, run.task or "-", *outcomes, note))
    table(("run", "task", *ways, ""), rows)
    say()
    table(
        ("strategy", "scored", "unset", "seconds", "requests", "tokens in", "out", "kept"),
        [
            (
                cost.strategy,
                str(cost.scored),
                str(cost.unset),
                f"{cost.seconds:.2f}",
                str(cost.usage.requests),
                str(cost.usage.prompt_tokens),
                str(cost.usage.completion_tokens),
                str(cost.cached),
            )
            for cost in found.costs
        ],
    )
    for pair in found.agreements:
        kappa = "" if pair.kappa is None else f", kappa {pair.kappa:.2f}"
        say(f"\n{pair.one} and {pair.other} agree on {pair.agreed} of {pair.runs}{kappa}")
    for run in found.disagreements:
        say(f"\n{run.id} ({run.task}):")
        for way, score in run.scores.items():
            say(f"  {way}: {score.outcome}: {score.reason or 'all checks hold'}")

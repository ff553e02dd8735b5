"""``envhub eval``: how well does a model, or a script, do on the tasks of some packs?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import msgspec
import typer

from hub.cli.output import complain, say, table
from hub.cli.packs import is_path, name_of
from hub.cli.progress import progress
from hub.judging import judge_of, user_of
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.errors import EnvhubError
    from environments.evaluation.figures import Estimate, Figures, Prices, TaskFigures
    from environments.evaluation.policies import Policy
    from environments.evaluation.runs import Key, Terms
    from environments.trajectory import Trajectory

Malformed = Literal["observe", "penalise", "end"]
Split = Literal["train", "validation", "test"]
SHOWN_FAILURES = 5

Packs = Annotated[list[str], typer.Argument(help="Folders of packs, or names of shipped ones.")]
Model = Annotated[str | None, typer.Option(help="The model that plays.")]
BaseUrl = Annotated[
    str | None, typer.Option(help="Its OpenAI-compatible endpoint, up to and with /v1.")
]
Script = Annotated[
    str | None, typer.Option(help="A script instead: oracle, patient-oracle, nothing or random.")
]
Tries = Annotated[int, typer.Option("--tries", "-k", min=1, help="Runs of each task.")]
Out = Annotated[
    Path | None, typer.Option(help="Where runs are kept; the same folder goes on with them.")
]
Tasks = Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")]
OfSplit = Annotated[str | None, typer.Option(help="Only train, validation or test.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the first try; each has the next.")]
Horizon = Annotated[int | None, typer.Option(min=1, help="The most steps of a run.")]
Faults = Annotated[
    str | None, typer.Option(help="A fault plan: none, flaky, hostile, or one of the pack.")
]
IfMalformed = Annotated[
    str, typer.Option(help="What a malformed call comes to: observe, penalise or end.")
]
Turns = Annotated[
    int | None, typer.Option("--window", min=1, help="The last turns that the model is shown.")
]
Temperature = Annotated[float | None, typer.Option(min=0.0, help="Default: the server's.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Runs made at once.")]
Price = Annotated[tuple[float, float] | None, typer.Option(help="Of a million tokens, in and out.")]
JudgeUrl = Annotated[str | None, typer.Option(help="The endpoint of a judge.")]
JudgeModel = Annotated[str | None, typer.Option(help="The model that judges.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be measured."""

    names: tuple[str, ...]
    tries: int
    tasks: tuple[str, ...]
    split: Split | None
    at_once: int
    folder: Path
    terms: Terms
    prices: Prices | None


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("eval")(evaluate)


def evaluate(
    packs: Packs,
    model: Model = None,
    base_url: BaseUrl = None,
    policy: Script = None,
    tries: Tries = 1,
    out: Out = None,
    task: Tasks = None,
    split: OfSplit = None,
    seed: Seed = 0,
    horizon: Horizon = None,
    faults: Faults = None,
    malformed: IfMalformed = "observe",
    window: Turns = None,
    temperature: Temperature = None,
    concurrency: AtOnce = 8,
    price: Price = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = None,
    as_json: AsJson = False,
) -> None:
    """Let a model or a script play tasks, and tell how often it passes.

    The key of the endpoint is read from ENVHUB_MODEL_KEY. Exits with 1 if a run could not be made
    or scored; give the same --out to make only those.
    """
    from environments.evaluation.figures import Prices
    from environments.evaluation.runs import Terms
    from environments.trajectory import Window

    settings = Settings.from_environment(
        packs=_folders(packs),
        model_url=base_url,
        model_name=None if policy else model,
        judge_url=judge_url,
        judge_model=judge_model,
    )
    _require(settings, policy, malformed, split)
    terms = Terms(
        policy=policy or settings.model_name,
        seed=seed,
        horizon=horizon,
        faults=faults,
        malformed=msgspec.convert(malformed, Malformed),
        window=None if window is None else Window(turns=window),
        temperature=temperature,
    )
    wanted = Wanted(
        names=tuple(map(name_of, packs)),
        tries=tries,
        tasks=tuple(task or ()),
        split=msgspec.convert(split, Split | None),
        at_once=concurrency,
        folder=out or settings.data_dir / "evaluations" / slug(terms.policy),
        terms=terms,
        prices=None if price is None else Prices(prompt=price[0], completion=price[1]),
    )
    if not asyncio.run(_measure(settings, wanted, policy, as_json)):
        raise typer.Exit(1)


async def _measure(settings: Settings, wanted: Wanted, script: str | None, as_json: bool) -> bool:
    from environments.environment import open_environments
    from environments.evaluation.runs import Evaluation, tries_of
    from hub.supply import catalogue_of

    async with (
        judge_of(settings) as judge,
        user_of(settings) as user,
        playing(settings, wanted.terms, wanted.at_once, script) as policy,
        open_environments(
            catalogue_of(settings), data_dir=settings.data_dir, judge=judge, user=user
        ) as environments,
    ):
        opened = [await environments.get(name) for name in dict.fromkeys(wanted.names)]
        for environment in opened:  # a plan that one does not know is told once, before all runs
            environment.under(wanted.terms.faults)
        tries = tries_of(opened, wanted.tries, tasks=wanted.tasks, split=wanted.split)
        evaluation = Evaluation(wanted.folder, wanted.terms)
        with progress(f"{policy.name} plays", len(tries)) as done:
            failed = await evaluation.make(policy, tries, wanted.at_once, done)
    runs = [evaluation.made[item.key] for item in tries if item.key in evaluation.made]
    _report(wanted, runs, failed, as_json=as_json)
    return len(runs) == len(tries)


@asynccontextmanager
async def playing(
    settings: Settings, terms: Terms, at_once: int, script: str | None
) -> AsyncIterator[Policy]:
    """Who plays: a script, or the model of the settings. Raises ``UnknownPolicy``."""
    from environments.evaluation.policies import Agent, script_named
    from environments.llm import Endpoint, Llm

    if script is not None:
        yield script_named(script)
        return
    endpoint = Endpoint(
        base_url=settings.model_url,
        model=settings.model_name,
        api_key=settings.model_key,
        temperature=terms.temperature,
        concurrency=at_once,
    )
    async with Llm(endpoint) as llm:
        yield Agent(llm, terms.window)


def _report(
    wanted: Wanted,
    runs: Sequence[Trajectory],
    failed: dict[Key, EnvhubError],
    *,
    as_json: bool,
) -> None:
    from environments.evaluation.figures import by_task, figures_of

    names = list(dict.fromkeys(run.environment for run in runs))
    figures = [
        figures_of(name, [run for run in runs if run.environment == name], wanted.prices)
        for name in names
    ]
    if len(names) > 1:
        figures.append(figures_of("all", runs, wanted.prices))
    tasks = by_task(runs)
    report = {
        "terms": wanted.terms,
        "figures": figures,
        "tasks": tasks,
        "missing": [{"run": list(key), "reason": str(error)} for key, error in failed.items()],
    }
    encoded = msgspec.json.encode(report)
    (wanted.folder / "report.json").write_bytes(msgspec.json.format(encoded) + b"\n")
    if as_json:
        say(encoded.decode())
    else:
        _show(figures, tasks)
        say(f"\nruns and report are in {wanted.folder}")
    for key, error in list(failed.items())[:SHOWN_FAILURES]:
        complain(f"{key[0]}/{key[2]}, try {key[3]}: {error.message}", error.hint)
    if len(failed) > SHOWN_FAILURES:
        complain(f"and {len(failed) - SHOWN_FAILURES} more runs could not be made")


def _show(figures: Sequence[Figures], tasks: Sequence[TaskFigures]) -> None:
    if not figures:
        say("there are no runs")
        return
    table(
        ("environment", "task", "passed", "reward", "steps"),
        [
            (
                each.environment,
                each.task,
                f"{each.passed} of {each.tries}",
                f"{each.reward:.3f}",
                f"{each.steps:.1f}",
            )
            for each in tasks
        ],
    )
    for each in figures:
        _tell(each)


def _tell(each: Figures) -> None:
    say(f"\n{each.name}: {each.tasks} tasks, {each.runs} runs")
    for k, found in each.pass_at.items():
        say(f"  pass@{k:<3} {_interval(found)}")
    say(f"  reward {each.reward:.3f}, {each.steps:.1f} steps, {each.malformed:.2f} malformed a run")
    if each.truncated:
        say(f"  {each.truncated} runs ended by their horizon")
    usage = each.usage
    if usage.requests:
        price = "" if each.price is None else f", price {each.price:g}"
        say(
            f"  {usage.requests} requests, {usage.prompt_tokens} tokens in, "
            f"{usage.completion_tokens} out{price}"
        )


def _interval(found: Estimate) -> str:
    return f"{found.value:.3f}  (95 %: {found.low:.3f} to {found.high:.3f})"


def _require(settings: Settings, policy: str | None, malformed: str, split: str | None) -> None:
    """Exit with 2 for options that make no sense together."""
    problem = ""
    if policy is None and not (settings.model_name and settings.model_url):
        problem = "a model needs --model and --base-url; a script needs --policy"
    for given, known in ((malformed, get_args(Malformed)), (split, (None, *get_args(Split)))):
        if given not in known:
            problem = f"{given!r} is none of {', '.join(str(word) for word in known if word)}"
    if problem:
        complain(problem)
        raise typer.Exit(2)


def _folders(packs: Sequence[str]) -> tuple[Path, ...] | None:
    return tuple(Path(pack) for pack in packs if is_path(pack)) or None


def slug(name: str) -> str:
    """A name as that of a file."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)

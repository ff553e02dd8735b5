"""Commands about recorded runs: watch one again, take them elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from hub.cli.output import complain, console, say, show_changes
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.trajectory import Step, Trajectory

SHORT = 600

File = Annotated[Path, typer.Argument(help="Trajectories, one line of JSON each.")]
Packs = Annotated[
    list[Path] | None,
    typer.Option("--packs", help="A pack or a folder of packs, beside the shipped ones."),
]
Run = Annotated[
    str | None, typer.Option(help="Its id, or the beginning of it; by default the file's first.")
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("replay")(replay)


def replay(
    file: File,
    run: Run = None,
    pause: Annotated[bool, typer.Option("--pause", help="Wait for Enter after each step.")] = False,
    packs: Packs = None,
) -> None:
    """Play one recorded run again and show it step by step, with the rows each step changed.

    Exits with 1 if a step came out otherwise than recorded.
    """
    settings = Settings.from_environment(packs=tuple(packs) if packs else None)
    if not asyncio.run(_replay(settings, _chosen(file, run), pause)):
        raise typer.Exit(1)


def export_trajectories(
    out: Annotated[Path, typer.Argument(help="Where to: a name that ends in .jsonl or .parquet.")],
    file: Annotated[
        Path | None, typer.Option("--from", help="Trajectories, one line of JSON each.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="A hub's address, instead of a file.")] = None,
    environment: Annotated[str, typer.Option(help="Only this environment's (of a hub).")] = "",
    group: Annotated[str, typer.Option(help="Only this group's (of a hub).")] = "",
    calls: Annotated[
        bool, typer.Option("--calls", help="A row for each call of the model, with what it saw.")
    ] = False,
) -> None:
    """Write trajectories as JSON lines or as Parquet, from a hub or from a file."""
    from environments.parquet import write_parquet
    from environments.record import read_lines, write_lines
    from hub.client.blocking import Hub

    if (file is None) == (url is None):
        complain("where from?", "give --from FILE, or --url and a hub's address")
        raise typer.Exit(2)
    if out.suffix not in (".jsonl", ".parquet"):
        complain(f"{out} ends in neither .jsonl nor .parquet")
        raise typer.Exit(2)

    def write(trajectories: Iterable[Trajectory]) -> int:
        if out.suffix == ".parquet":
            return write_parquet(out, trajectories, calls=calls)
        return _write_calls(out, trajectories) if calls else write_lines(out, trajectories)

    if file is not None:
        count = write(read_lines(file))
    else:
        with Hub(url or "", token=Settings.from_environment().token or None) as hub:
            found = hub.trajectories(environment=environment, group=group)
            count = write(trajectory for _, trajectory in found)
    say(f"{count} {'calls' if calls else 'runs'} written to {out}")


def _write_calls(out: Path, trajectories: Iterable[Trajectory]) -> int:
    from environments.parquet import call_rows

    count = 0
    with out.open("w", encoding="utf-8") as lines:
        for row in (row for trajectory in trajectories for row in call_rows(trajectory)):
            plain = {**row, **{name: json.loads(row[name]) for name in NESTED_IN_CALLS}}
            lines.write(json.dumps(plain, ensure_ascii=False) + "\n")
            count += 1
    return count


NESTED_IN_CALLS = ("prompt", "completion", "tokens")


def _chosen(file: Path, run: str | None) -> Trajectory:
    from environments.record import read_lines

    found = (each for each in read_lines(file) if run is None or each.id.startswith(run))
    chosen = next(found, None)
    if chosen is None:
        complain(f"{file} has no run {run}" if run else f"{file} is empty")
        raise typer.Exit(1)
    return chosen


async def _replay(settings: Settings, trajectory: Trajectory, pause: bool) -> bool:
    from environments.environment import open_environments
    from environments.replay import begun_again, take_again
    from hub.supply import catalogue_of

    _show_beginning(trajectory)
    same = True
    async with open_environments(
        catalogue_of(settings), data_dir=settings.data_dir
    ) as environments:
        environment = await environments.get(trajectory.environment)
        async with begun_again(environment, trajectory) as episode:
            for recorded in trajectory.steps:
                step, different = await take_again(episode, recorded)
                _show_step(step, len(trajectory.steps))
                if different:
                    same = False
                    console.print(f"  [bold red]not as recorded[/]: {escape(different)}")
                if pause:
                    await asyncio.to_thread(console.input, "[dim]Enter goes on[/] ")
    _show_end(trajectory)
    return same


def _show_beginning(trajectory: Trajectory) -> None:
    group = f", member {trajectory.repetition} of {trajectory.group}" if trajectory.group else ""
    console.print(f"[bold]{trajectory.environment}[/] {trajectory.task or ''}", end="  ")
    console.print(f"[dim]{trajectory.id}, seed {trajectory.seed}{group}[/]")
    if trajectory.instruction:
        console.print(trajectory.instruction, markup=False)


def _show_step(step: Step, count: int) -> None:
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in step.arguments.items())
    console.print(f"\n[bold]{step.index + 1}/{count}  {step.tool}[/]({escape(arguments)})")
    if step.fault is not None:
        console.print(f"  [magenta]injected: {step.fault.kind}[/]")
    if step.error is not None:
        console.print(f"  [red]{step.error.code}[/] {escape(step.error.message)}")
    else:
        for line in _lines(step.result):
            console.print(f"  {escape(line)}", soft_wrap=True)
    for change in step.changes:
        by = f"{change.actor} ({change.event})" if change.event else change.actor
        console.print(f"  [dim]changed by {by}:[/]")
        show_changes(change.changes)


def _show_end(trajectory: Trajectory) -> None:
    reward = trajectory.reward
    console.print(f"\n[bold]{trajectory.stop_reason}[/]", end="")
    if trajectory.answer is not None:
        console.print(f", answered: {trajectory.answer}", markup=False, end="")
    console.print()
    if reward is not None:
        value = "unset" if reward.value is None else f"{reward.value:g}"
        console.print(f"reward [bold]{value}[/] ({reward.outcome})  {escape(reward.reason)}")
        for part in reward.components:
            mark = "[green]holds[/]" if part.passed else "[red]fails[/]"
            console.print(f"  {mark} {escape(part.name)}  {escape(part.reason)}", soft_wrap=True)


def _lines(result: Any) -> Iterator[str]:
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    yield text if len(text) <= SHORT else f"{text[:SHORT]}... ({len(text)} characters)"

"""``envhub schedule``: the horizon schedules of a running hub."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from hub.cli.output import complain, say, table
from hub.settings import Settings

if TYPE_CHECKING:
    from hub.training import Schedule, ScheduleInfo


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("schedule")(schedule)


def schedule(
    name: Annotated[str | None, typer.Argument(help="A schedule; without one all are listed.")] = (
        None
    ),
    phase: Annotated[
        list[str] | None,
        typer.Option(help="FROM_TRAINING_STEP:HORIZON, once for each phase; the first is 0:…"),
    ] = None,
    fixed: Annotated[int | None, typer.Option(help="One horizon for the whole training.")] = None,
    rounds_ctrl: Annotated[
        str | None, typer.Option(help="AgentGym-RL's algorithm.rounds_ctrl as JSON.")
    ] = None,
    advance: Annotated[
        int | None, typer.Option(help="The training step that comes now.", min=0)
    ] = None,
    url: Annotated[str | None, typer.Option(help="The hub's address.")] = None,
) -> None:
    """Show, set or advance horizon schedules: how many steps an episode may take, and when."""
    import hub.client.asks as asks
    from hub.client.blocking import Hub

    settings = Settings.from_environment()
    address = url or settings.address
    with Hub(address, token=settings.token or None, patience_seconds=5) as hub:
        if name is None:
            _show(hub.ask(asks.schedules()).schedules)
            return
        given = _given(phase, fixed, rounds_ctrl)
        if given is not None:
            hub.ask(asks.keep_schedule(name, given))
        if advance is not None:
            hub.ask(asks.advance(name, advance))
        _show((hub.ask(asks.show_schedule(name)),))


def _given(phases: list[str] | None, fixed: int | None, rounds_ctrl: str | None) -> Schedule | None:
    from hub.training import Schedule

    fields: dict[str, Any] = {}
    if phases:
        fields["phases"] = [_phase(text) for text in phases]
    if fixed is not None:
        fields["fixed"] = fixed
    try:
        if rounds_ctrl is not None:
            fields["rounds_ctrl"] = json.loads(rounds_ctrl)
        return msgspec.convert(fields, Schedule) if fields else None
    except (msgspec.ValidationError, json.JSONDecodeError) as error:
        complain(str(error))
        raise typer.Exit(2) from None


def _phase(text: str) -> dict[str, int]:
    start, colon, horizon = text.partition(":")
    if not (colon and start.isdigit() and horizon.isdigit()):
        complain(f"{text!r} is no phase", "write 0:10 for ten steps an episode from the start on")
        raise typer.Exit(2)
    return {"from_training_step": int(start), "horizon": int(horizon)}


def _show(schedules: tuple[ScheduleInfo, ...]) -> None:
    table(
        ("schedule", "phases", "training step", "horizon"),
        [
            (
                each.name,
                ", ".join(f"{phase.from_training_step}:{phase.horizon}" for phase in each.phases),
                str(each.training_step),
                str(each.horizon),
            )
            for each in schedules
        ],
    )
    if not schedules:
        say("no schedule yet; make one:  envhub schedule scaling --phase 0:10 --phase 100:20")

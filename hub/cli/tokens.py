"""``envhub token``: who may use a hub, and for what."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from hub.auth.principal import SCOPES
from hub.auth.quota import Limits
from hub.cli.output import complain, note, say, table
from hub.settings import Settings

if TYPE_CHECKING:
    from hub.auth.tokens import TokenFile

DAY_SECONDS = 86_400

DataDir = Annotated[Path | None, typer.Option(help="The hub's data directory.")]
Name = Annotated[str, typer.Argument(help="What it is called here; no secret.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    tokens = typer.Typer(help="Who may use a hub, and for what.", no_args_is_help=True)
    tokens.command("create")(create)
    tokens.command("list")(show)
    tokens.command("revoke")(revoke)
    app.add_typer(tokens, name="token")


def create(
    name: Name,
    scopes: Annotated[
        str, typer.Option(help=f"Any of {','.join(SCOPES)}; with commas between.")
    ] = "play,rollout,train",
    tenant: Annotated[
        str | None,
        typer.Option(help="Whose things it sees: by default its own. `local`: the hub's owner's."),
    ] = None,
    expires_days: Annotated[
        float | None, typer.Option(help="Good for so long.", min=0.001, max=36_500)
    ] = None,
    episodes: Annotated[int, typer.Option(help="Live episodes its tenant may hold.", min=0)] = 0,
    calls_per_second: Annotated[
        float, typer.Option(help="Requests, batch entries counted.", min=0, max=1_000_000)
    ] = 0.0,
    bytes_per_day: Annotated[
        int, typer.Option("--bytes", help="Bytes a day: bodies, and what calls write.", min=0)
    ] = 0,
    data_dir: DataDir = None,
) -> None:
    """Make a token and print its secret, once. A running hub takes it at once."""
    wanted = [word.strip() for word in scopes.split(",") if word.strip()]
    asked = [scope for scope in SCOPES if scope in wanted]
    unknown = [word for word in wanted if word not in SCOPES]
    if unknown or not wanted:
        complain(f"no scope: {', '.join(unknown)}", f"scopes are {', '.join(SCOPES)}")
        raise typer.Exit(2)
    limits = Limits(
        episodes=episodes, calls_per_second=calls_per_second, bytes_per_day=bytes_per_day
    )
    expires = None if expires_days is None else int(time.time() + expires_days * DAY_SECONDS)
    file = _file(data_dir)
    first = not file.path.exists()
    secret = file.create(name, tenant or name, asked, expires=expires, limits=limits)
    say(secret)
    note(f"Kept nowhere: give it to its bearer, who sends `Authorization: Bearer {secret[:3]}...`,")
    note("or sets ENVHUB_TOKEN for envhub's own client commands.")
    if first:
        note("It is the first: from now on a hub on this data directory asks everybody for one.")


def show(data_dir: DataDir = None) -> None:
    """List tokens, without their secrets."""
    tokens = _file(data_dir).read()
    if not tokens:
        say("no token; make one:  envhub token create NAME --scopes play,rollout")
        return
    table(
        ("token", "tenant", "scopes", "created", "expires", "limits"),
        [
            (
                token.name,
                token.tenant,
                ",".join(token.scopes),
                _day(token.created),
                _day(token.expires),
                _limits(token.limits),
            )
            for token in tokens
        ],
    )


def revoke(name: Name, data_dir: DataDir = None) -> None:
    """Take a token back. A running hub refuses it within a second or two."""
    _file(data_dir).revoke(name)
    say(f"{name} is revoked")


def _file(data_dir: Path | None) -> TokenFile:
    from hub.auth.tokens import TokenFile
    from hub.data_dir import DataDir as Directory

    return TokenFile(Directory(Settings.from_environment(data_dir=data_dir).data_dir).tokens)


def _day(seconds: int | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def _limits(limits: Limits) -> str:
    given: dict[str, Any] = msgspec.to_builtins(limits)
    return ", ".join(f"{name} {value:,}" for name, value in given.items() if value)

"""Commands that serve: the hub, one environment on a pipe, a person's client, the demonstration."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli.output import complain, invocation, note, say, show_changes, table
from hub.settings import Settings

if TYPE_CHECKING:
    from hub.app import Hub

Packs = Annotated[
    list[Path] | None,
    typer.Option("--packs", help="A pack, an archive or a folder of them, beside the shipped."),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="0 takes any free port.", min=0, max=65535)]
DataDir = Annotated[Path | None, typer.Option(help="Where snapshots and the ledger are kept.")]

SHOWN_BROKEN = 10
"""How many broken packs are told of at the start; the API lists all."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command()(serve)
    app.command()(stdio)
    app.command()(connect)
    app.command()(demo)
    app.command()(version)


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    packs: Packs = None,
    durability: Annotated[
        str | None, typer.Option(help="step: a call is on disk before it is answered; or none.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    require_sandbox: Annotated[
        bool | None,
        typer.Option("--require-sandbox", help="Refuse where workers cannot be fully confined."),
    ] = None,
    require_signed: Annotated[
        bool | None,
        typer.Option("--require-signed", help="Refuse packs that no trusted key has signed."),
    ] = None,
    trusted_key: Annotated[
        list[str] | None,
        typer.Option("--trusted-key", help="A public key whose packs are trusted, or its file."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="A PEM file; the hub then speaks https.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key.")] = None,
) -> None:
    """Start the hub."""
    from hub.server import serve as run
    from hub.telemetry import configure_logging

    settings = Settings.from_environment(
        host=host,
        port=port,
        data_dir=data_dir,
        packs=tuple(packs) if packs else None,
        durability=durability,
        log_level=log_level,
        require_sandbox=require_sandbox,
        require_signed=require_signed,
        trusted_keys=tuple(trusted_key) if trusted_key else None,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
    )
    configure_logging(settings.log_level, settings.log_format)
    run(settings, _greet)


def stdio(
    name: Annotated[str, typer.Argument(help="The environment to play.")],
    task: Annotated[str | None, typer.Option(help="The task to begin with.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="Take reset, score and changes beside the tools.")
    ] = False,
    faults: Annotated[
        str | None, typer.Option(help="A fault plan: none, flaky, hostile, or one of the pack.")
    ] = None,
    packs: Packs = None,
) -> None:
    """Serve one episode over standard input and output, for Claude, IDEs and rollout workers."""
    import asyncio

    from hub.telemetry import configure_logging

    settings = Settings.from_environment(packs=tuple(packs) if packs else None)
    configure_logging(settings.log_level, settings.log_format)
    if sys.stdin.isatty():
        note("An MCP client is expected at the other end, not a person; Ctrl-D ends.")
    asyncio.run(_serve_pipe(settings, name, task, seed, rollout, faults))


def connect(
    name: Annotated[str, typer.Argument(help="The environment to connect to.")],
    url: Annotated[str | None, typer.Option(help="The hub's address.")] = None,
    packs: Packs = None,
) -> None:
    """Print an address with a seat of its own, and how to give it to Claude or an IDE."""
    from hub.supply import catalogue_of

    settings = Settings.from_environment(packs=tuple(packs) if packs else None)
    catalogue_of(settings).get(name)
    base = (url or settings.address).rstrip("/")
    address = f"{base}/environments/{name}/mcp?seat={secrets.token_urlsafe(9)}"
    program, *arguments = invocation()
    arguments += ["stdio", name]
    for pack in packs or ():
        arguments += ["--packs", str(pack.absolute())]
    say(address)
    say("\nIts seat is yours: state is kept there between connections.")
    option = ""
    shown: dict[str, Any] = {"url": address}
    if settings.token:
        option = ' --header "Authorization: Bearer $ENVHUB_TOKEN"'
        shown |= {"headers": {"Authorization": "Bearer ${ENVHUB_TOKEN}"}}
    else:
        say("If the hub asks for a token, set ENVHUB_TOKEN first, and this says where it goes.")
    say("With the hub running, give it to:")
    say(f"\nClaude Code\n  claude mcp add --transport http {name} '{address}'{option}")
    _snippet("VS Code, .vscode/mcp.json", "servers", name, {"type": "http", **shown})
    _snippet("Cursor, .cursor/mcp.json", "mcpServers", name, shown)
    # by its whole path: whoever starts it does so elsewhere
    pipe = {"command": str(Path(shutil.which(program) or program).absolute()), "args": arguments}
    _snippet("Claude Desktop, claude_desktop_config.json (no hub)", "mcpServers", name, pipe)


def demo(
    environment: Annotated[str, typer.Option(help="The environment to play.")] = "procurement",
    task: Annotated[
        str | None, typer.Option(help="Its task; by default one of many steps.")
    ] = None,
) -> None:
    """Play one group of 8 episodes with scripted policies, through a real MCP client."""
    import asyncio

    from hub.client import local_hub
    from hub.demo import choose, play_group

    pack, chosen = choose(environment, task)
    say(f"{pack.spec.title}, task {chosen.id}: {chosen.instruction}\n")

    with local_hub() as address:
        group = asyncio.run(play_group(address, pack, chosen))
    table(
        ("policy", "reward", "steps", "row changes", "ms"),
        [
            (
                episode.policy,
                "unset" if episode.reward is None else f"{episode.reward:g}",
                str(episode.steps),
                str(episode.row_changes),
                f"{episode.milliseconds:.0f}",
            )
            for episode in group
        ],
    )
    best = group[0]
    say(f"\nWhat the {best.policy} changed, row by row ({best.episode}):")
    show_changes(best.changes)
    if any(episode.reward is None for episode in group):
        complain("an episode could not be scored", group[0].reason)
        raise typer.Exit(1)


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    say(f"envhub {installed('mcp-env-hub')}")


def _greet(hub: Hub, address: str) -> None:
    """What to do next, for whoever started the hub."""
    catalogue = hub.environments.catalogue
    names = catalogue.names()
    say(f"envhub is listening on {address}")
    say(f"  {len(names)} environments: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}")
    say(f"  data in {hub.settings.data_dir}, durability {hub.settings.durability}")
    asked = "for no token, and is for this machine alone" if hub.gate.open else "for a token"
    say(f"  asks {asked}")
    for error in list(catalogue.invalid.values())[:SHOWN_BROKEN]:
        complain(error.message, error.hint)
    if len(catalogue.invalid) > SHOWN_BROKEN:
        complain(f"... and {len(catalogue.invalid) - SHOWN_BROKEN} more packs that cannot be read")
    if names:
        name = names[0]
        body = json.dumps({"environment": name})
        say(f"\nMCP:   {address}/environments/{name}/mcp")
        shown = "" if hub.gate.open else '-H "Authorization: Bearer $ENVHUB_TOKEN" '
        kind = "-H 'content-type: application/json'"
        say(f"curl:  curl -s {address}/v1/episodes {shown}{kind} -d '{body}'")
        command = shlex.join(invocation())
        usual = Settings.from_environment()
        at_usual = address == usual.address
        elsewhere = "" if at_usual else f" --url {address}"
        say(f"next:  {command} connect {name}{elsewhere}   (an address for Claude or your IDE)")
        say(f"       {command} demo   (8 scripted episodes, scored)")
    say("\nCtrl-C stops it; with durability step it goes on where it was.")


def _snippet(where: str, key: str, name: str, server: dict[str, Any]) -> None:
    text = json.dumps({key: {name: server}}, indent=2).replace("\n", "\n  ")
    say(f"\n{where}\n  {text}")


async def _serve_pipe(
    settings: Settings,
    name: str,
    task: str | None,
    seed: int,
    rollout: bool,
    faults: str | None,
) -> None:
    from environments.environment import open_environments
    from environments.episode import Episode
    from hub.mcp_server.stdio import Control, serve_stdio
    from hub.mcp_server.surfaces import EnvironmentSurface, EpisodeSurface
    from hub.seats import SEAT_HORIZON
    from hub.supply import catalogue_of

    async with open_environments(
        catalogue_of(settings), data_dir=settings.data_dir
    ) as environments:
        environment = (await environments.get(name)).under(faults)
        horizon = None if rollout else SEAT_HORIZON
        episode = await Episode.start(environment, task=task, seed=seed, horizon=horizon)
        if rollout:
            await serve_stdio(EpisodeSurface(episode), Control(episode))
            return

        async def seated(_: object) -> Episode:
            return episode

        await serve_stdio(EnvironmentSurface(environment, seated))

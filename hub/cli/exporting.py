"""``envhub export``: trajectories as tables, and packs in the formats of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hub.cli.output import say, table
from hub.cli.packs import folder_of
from hub.cli.recorded import export_trajectories

if TYPE_CHECKING:
    from environments.exporters.awm.files import Exported, Lines


class _Exports(TyperGroup):
    """What is no format is where trajectories go: ``envhub export runs.parquet --url ...``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["trajectories", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    exports = typer.Typer(
        cls=_Exports, help="Write trajectories, or packs in another format.", no_args_is_help=True
    )
    exports.command("trajectories")(export_trajectories)
    exports.command("awm")(export_awm)
    app.add_typer(exports, name="export")


def export_awm(
    packs: Annotated[list[str], typer.Argument(help="Folders of packs, or names of shipped ones.")],
    into: Annotated[Path, typer.Option(help="The folder the files are written into.")],
) -> None:
    """Write packs as Agent World Model's files; an application in them runs without envhub."""
    from environments.catalogue import load_pack
    from environments.environment import open_environments
    from environments.exporters.awm import export, require_exportable, write

    folders = [folder_of(pack) for pack in packs]
    found = [load_pack(folder) for folder in folders]
    for pack in found:
        require_exportable(pack)

    async def run() -> tuple[Lines, list[Exported]]:
        async with open_environments(folders) as environments:
            return await export(environments, [pack.name for pack in found])

    lines, told = asyncio.run(run())
    write(lines, into)
    rows = [(each.name, str(each.tools), str(each.tasks)) for each in told]
    table(("pack", "tools", "tasks"), rows)
    for each in told:
        for line in each.left_out:
            say(f"{each.name}, left out: {line}")

"""Commands about packs: make one, list them, look at one."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hub.cli.output import complain, console, invocation, note, say, table
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.catalogue import Listed

SHOWN = 50
"""How many a person is shown who did not say how many."""

Packs = Annotated[
    list[Path] | None,
    typer.Option("--packs", help="A pack, an archive or a folder of them, beside the shipped."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("new")(new)
    app.command("list")(list_packs)
    app.command("show")(show)


def new(
    name: Annotated[str, typer.Argument(help="What the environment is called: a-z 0-9 _ -")],
    folder: Annotated[Path, typer.Option("--in", help="Where its folder is made.")] = Path(),
) -> None:
    """Make a small pack that passes its own check, to start from."""
    from environments.scaffold import new_pack

    path = new_pack(name, folder)
    say(f"made {path}")
    command = shlex.join(invocation())
    say(f"check it:  {command} check {path}")
    say(f"serve it:  {command} serve --packs {path}")


def list_packs(
    packs: Packs = None,
    search: Annotated[
        str, typer.Option(help="Words that name, title, summary, domain or tags must hold.")
    ] = "",
    domain: Annotated[str, typer.Option(help="Those of this domain.")] = "",
    tag: Annotated[str, typer.Option(help="Those with this tag.")] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"The most to show; by default {SHOWN}, as JSON all.")
    ] = None,
    as_json: AsJson = False,
    long: Annotated[
        bool, typer.Option("--long", help="Licence, provenance and digest of each.")
    ] = False,
) -> None:
    """List the environments there are."""
    from hub.supply import catalogue_of

    catalogue = catalogue_of(_settings(packs))
    listed = catalogue.listed()
    found = [each for each in listed if each.fits(search, domain, tag)]
    if as_json:
        specs = [
            {
                "name": each.spec.name,
                "digest": each.digest,
                "path": str(each.path),
                "spec": each.spec,
            }
            for each in found[:limit]
        ]
        say(msgspec.json.encode(specs).decode())
    else:
        shown = found[: limit or SHOWN]
        _table_of(shown, long=long)
        if len(shown) < len(listed):
            fit = "" if found == listed else f" that fit, of {len(listed)}"
            note(f"{len(shown)} of {len(found)}{fit}" if found else "nothing fits")
        if len(shown) < len(found):
            note("--search, --domain and --tag find fewer, --limit shows more")
    for error in list(catalogue.invalid.values())[:SHOWN]:
        complain(error.message, error.hint)
    if len(catalogue.invalid) > SHOWN:
        complain(f"... and {len(catalogue.invalid) - SHOWN} more packs that cannot be read")
    if catalogue.invalid:
        raise typer.Exit(1)


def _table_of(listed: Sequence[Listed], *, long: bool) -> None:
    if long:
        table(
            ("name", "version", "licence", "provenance", "digest"),
            [
                (
                    each.spec.name,
                    each.spec.version,
                    declared(each.spec.licence),
                    declared(each.spec.provenance),
                    each.digest[:12],
                )
                for each in listed
            ],
        )
        return
    rows = [(each.spec, str(each.tasks)) for each in listed]
    table(
        ("name", "version", "domain", "tasks", "title"),
        [(spec.name, spec.version, spec.domain, tasks, spec.title) for spec, tasks in rows],
    )


def show(
    name: Annotated[str, typer.Argument(help="An environment's name, a pack's folder or archive.")],
    packs: Packs = None,
    as_json: AsJson = False,
) -> None:
    """Show one environment: its tools, tables and tasks."""
    from environments.environment import open_environments
    from hub.supply import catalogue_of

    settings = _settings(packs, name)

    async def describe() -> None:
        async with open_environments(
            catalogue_of(settings), data_dir=settings.data_dir
        ) as environments:
            environment = await environments.get(name_of(name))
        pack, spec = environment.pack, environment.pack.spec
        if as_json:
            described = {
                "spec": spec,
                "digest": pack.digest,
                "policy": pack.policy,
                "tools": tuple(environment.tools.values()),
                "tables": {table: info.columns for table, info in environment.tables.items()},
                "tasks": tuple(
                    {"id": task.id, "difficulty": task.difficulty, "instruction": task.instruction}
                    for task in pack.tasks.values()
                ),
            }
            say(msgspec.json.encode(described).decode())
            return
        console.print(f"[bold]{spec.title}[/]  {spec.name} {spec.version}  {pack.path}")
        console.print(spec.summary, markup=False)
        console.print(f"licence: {declared(spec.licence)}", markup=False)
        console.print(f"provenance: {declared(spec.provenance)}", markup=False)
        console.print(f"digest: {pack.digest}", markup=False)
        say()
        table(
            ("tool", "writes", "what it does"),
            [
                (tool.name, "" if tool.read_only else "yes", _summary(tool.description))
                for tool in environment.tools.values()
            ],
        )
        say()
        table(
            ("table", "columns"),
            [(name, ", ".join(info.columns)) for name, info in environment.tables.items()],
        )
        say()
        table(
            ("task", "difficulty", "split", "instruction"),
            [
                (task.id, task.difficulty, task.split, task.instruction)
                for task in pack.tasks.values()
            ],
        )

    asyncio.run(describe())


def _settings(packs: Sequence[Path] | None, name: str = "") -> Settings:
    """The settings, with ``name`` among the packs where it is a folder or an archive."""
    given = [*(packs or ())]
    if is_path(name):
        given.append(Path(name))
    return Settings.from_environment(packs=tuple(given) or None)


def is_path(pack: str) -> bool:
    """Whether a pack is given by its folder or archive, and not by its name."""
    from environments.catalogue import MANIFEST
    from hub.supply import is_archive

    looks_so = "/" in pack or pack.startswith(".") or is_archive(Path(pack))
    return looks_so or (Path(pack) / MANIFEST).is_file()


def name_of(pack: str) -> str:
    """The name of a pack given by folder, archive or name. Raises ``PackInvalid``."""
    from environments.catalogue import load_pack

    return load_pack(folder_of(pack)).name if is_path(pack) else pack


def declared(text: str) -> str:
    """What a pack says of itself, without what would steer a terminal."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown or "not declared"


def folder_of(pack: str, *, to_play: bool = False) -> Path:
    """The folder of a pack given by folder, by archive (unpacked into the data directory) or by
    name. Raises ``UnknownEnvironment`` and ``PackInvalid``; ``to_play`` also ``PackNotTrusted`` for
    a folder, where packs must be signed."""
    from hub.supply import catalogue_of, is_archive, require_unsigned_may_be, unpacked

    path, settings = Path(pack), Settings.from_environment()
    if is_archive(path):
        return unpacked(path, settings)
    if is_path(pack) or path.is_dir():
        if to_play:
            require_unsigned_may_be(path, settings)
        return path
    return catalogue_of(settings).get(pack).path


def _summary(text: str) -> str:
    """The first paragraph, in one line."""
    return " ".join(text.strip().split("\n\n")[0].split())

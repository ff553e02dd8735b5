"""``envhub import``: environments of others become packs, once."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import msgspec
import typer

from environments.importers import IMPORTERS
from hub.cli.output import complain, note, say, table
from hub.cli.progress import progress
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.importers.importing import Imported
    from environments.importers.source import Source

NOTHING_IMPORTED, NOT_ALL = 1, 3
SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("import")(import_packs)


def import_packs(
    kind: Annotated[str, typer.Argument(help=f"The format: {', '.join(IMPORTERS)}.")],
    path: Annotated[Path, typer.Argument(help="The file or folder that holds the environments.")],
    into: Annotated[Path, typer.Option(help="The folder the packs are written into.")],
    only: Annotated[
        list[str] | None, typer.Option(help="An environment by name; may be given again.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many at a time; by default one a processor.")
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not run `envhub check` on what was imported.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="JSON lines, and Markdown beside them; by default in the folder --into."),
    ] = None,
) -> None:
    """Make packs of environments in another format; started again, it goes on where it ended.

    Exits with 0 if all are imported and pass their check, 3 if only some, 1 if none. Ctrl-C (130)
    leaves whole packs only.
    """
    from environments.importers import importer
    from environments.importers.report import markdown

    settings = Settings.from_environment()
    wanted = {*(only or ())}
    sources = [each for each in importer(kind)(path) if not wanted or each.name in wanted]
    missing = wanted - {source.name for source in sources}
    for name in sorted(missing):
        complain(f"{path} has no environment {name!r}")
    lines = report or into / "import-report.jsonl"
    kept = None if no_check else settings.data_dir / "checks"
    done: list[Imported] = []
    try:
        with (
            _report_in(lines, into) as file,
            closing(_each(kind, sources, into, kept, jobs)) as found,
        ):
            for one in found:
                if not done:  # not before: it may be the report of an import that is under way
                    file.truncate(0)
                file.write(msgspec.json.encode(one, enc_hook=str) + b"\n")
                file.flush()
                done.append(one)
            if not done:
                file.truncate(0)
    except KeyboardInterrupt:
        note("Stopped. The same command goes on from here.")
        raise
    done.sort(key=lambda one: one.name)
    page = lines.with_suffix(".md")
    page.write_text(markdown(done, kind, str(path)), encoding="utf-8")
    _tell(done)
    say(f"\nreport: {page}, and as JSON lines {lines}")
    if missing or not all(one.sound for one in done):
        raise typer.Exit(NOT_ALL if any(one.sound for one in done) else NOTHING_IMPORTED)


def _report_in(lines: Path, into: Path) -> BinaryIO:
    """The file, as it was until the first result; ``into`` is made. Raises ``ImportRefused``."""
    from environments.importers.source import ImportRefused

    try:
        into.mkdir(parents=True, exist_ok=True)
        return lines.open("ab")
    except OSError as error:
        raise ImportRefused(f"cannot write {error.filename}: {error.strerror}") from error


def _each(
    kind: str, sources: list[Source], into: Path, kept: Path | None, jobs: int | None
) -> Generator[Imported]:
    """What became of each environment, once there is nothing more to find out about it."""
    from environments.importers.importing import check_imported, import_sources

    at_once = jobs or os.cpu_count() or 1
    written: list[Imported] = []
    with (
        progress("importing", len(sources)) as advance,
        closing(import_sources(kind, sources, into, jobs=at_once)) as imported,
    ):
        for one in imported:
            advance()
            if kept is None or not one.is_there:
                yield one
            else:
                written.append(one)
    if kept is None or not written:
        return
    with (
        progress("checking", len(written)) as advance,
        closing(check_imported(written, into, kept, jobs=at_once)) as checked,
    ):
        for one in checked:
            advance()
            yield one


def _tell(done: list[Imported]) -> None:
    from environments.importers.report import summary_of

    summary = summary_of(done)
    table(("", "count"), [(what, str(count)) for what, count in summary.outcomes])
    without = [(one.name, one.outcome, one.reason) for one in done if not one.is_there]
    if without:
        say()
        table(("no pack of", "", "why"), without[:SHOWN])
        if len(without) > SHOWN:
            say(f"... and {len(without) - SHOWN} more, in the report")
    if summary.gates:
        say()
        table(("gate that fails", "packs"), [(gate, str(count)) for gate, count in summary.gates])

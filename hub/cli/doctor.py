"""``envhub doctor``: what this machine has of what a hub needs, and by what workers are held."""

from __future__ import annotations

import asyncio
import platform
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from hub.cli.output import complain, say, table
from hub.settings import Settings

LAYERS = {
    "niceness": ("workers stand back from the hub", "a higher niceness cannot be refused"),
    "memory": ("address space is limited", "needs Linux"),
    "file_size": ("no byte is written to a file", "set the hard limit of the shell lower"),
    "open_files": ("128 open files", "set the hard limit of the shell lower"),
    "core": ("no memory is left in a core file", "set the hard limit of the shell lower"),
    "no_capabilities": ("root's powers are given up", "needs Linux"),
    "no_new_privs": ("none come back", "needs Linux"),
    "not_dumpable": ("no neighbour may look into it", "needs Linux"),
    "landlock": (
        "reads only the interpreter, its pack's code and its snapshot; writes nothing",
        "needs Linux 5.13 with landlock among lsm=, and a container that lets landlock_* pass",
    ),
    "seccomp": (
        "a list of system calls: no network, no process, no tracing",
        "needs Linux on x86-64 or aarch64 with CONFIG_SECCOMP_FILTER",
    ),
}
"""What each layer does, and what it needs."""


class Finding(NamedTuple):
    what: str
    state: str
    good: bool
    note: str


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Look at this machine: are workers fully confined, is the data directory fit, are packs well?

    Exits with 1 if something is missing.
    """
    findings = [*_machine(), *asyncio.run(_layers()), _data_dir(), *_packs()]
    if as_json:
        say(msgspec.json.encode([finding._asdict() for finding in findings]).decode())
    else:
        table(
            ("", "what", "found", "note"),
            [("ok" if f.good else "MISSING", f.what, f.state, f.note) for f in findings],
        )
    bad = [finding.what for finding in findings if not finding.good]
    if bad:
        complain(f"not as it should be: {', '.join(bad)}")
        raise typer.Exit(1)


def _machine() -> list[Finding]:
    import apsw

    from environments.sandbox.confine import landlock

    version = landlock.abi()
    return [
        Finding("python", platform.python_version(), sys.version_info >= (3, 11), sys.executable),
        Finding("sqlite", apsw.sqlite_lib_version(), True, "brought along by apsw"),
        Finding("kernel", f"{platform.system()} {platform.release()}", True, platform.machine()),
        Finding("landlock version", str(version) if version else "none", True, ""),
    ]


async def _layers() -> list[Finding]:
    """Start a worker and ask it."""
    from environments.sandbox.host import Sandbox

    async with Sandbox(on_event=lambda *_, **__: None) as sandbox:
        layers = await sandbox.layers()
    findings = []
    for name in (*layers.active, *layers.missing):
        does, needs = LAYERS[name]
        active = name in layers.active
        note = does if active else f"{does}: {needs}"
        findings.append(Finding(f"layer {name}", "on" if active else "off", active, note))
    return findings


def _data_dir() -> Finding:
    from hub.data_dir import DataDir
    from hub.errors import DataDirLocked, DataDirUnusable

    path = Settings.from_environment().data_dir
    try:
        with DataDir(path).lock():
            return Finding("data directory", "free", True, str(path))
    except DataDirLocked:
        return Finding("data directory", "in use by a hub", True, str(path))
    except DataDirUnusable as error:
        return Finding("data directory", "unusable", False, str(error))


def _packs() -> list[Finding]:
    from hub.supply import catalogue_of

    catalogue = catalogue_of(Settings.from_environment())
    names = catalogue.names()
    told = ", ".join(names[:20]) + ", ..." * (len(names) > 20)
    good = Finding("packs", str(len(names)), True, told)
    return [
        good,
        *(
            Finding(f"pack {Path(path).name}", "invalid", False, error.message)
            for path, error in catalogue.invalid.items()
        ),
    ]

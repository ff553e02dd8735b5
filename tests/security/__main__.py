"""Run the attack suite: ``python -m tests.security [--user UID] [--without LAYER] ...``.

Prints a table; with ``--json`` the verdicts as JSON. Exits with 1 if an attack got through. With
``--layers`` the suite runs once for each group of layers left out, and the table says which attacks
get through then: what each layer is there for.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys

import msgspec
from rich.console import Console
from rich.table import Table

from environments.sandbox.confine.layers import LAYERS, RLIMITS
from tests.security.arena import Verdict, run
from tests.security.attacks import ATTACKS
from tests.security.identity import CannotBecome, become_user, enter_container
from tests.security.somebody import CANNOT

GROUPS = {
    "all layers": (),
    "without rlimits": RLIMITS,
    "without Landlock": ("landlock",),
    "without seccomp": ("seccomp",),
    "a bare process": LAYERS,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security", description=__doc__)
    parser.add_argument("--user", type=int, help="become this user first")
    parser.add_argument("--container", action="store_true", help="under a container's filter")
    parser.add_argument("--without", default="", help="layers to leave out, commas between them")
    parser.add_argument("--only", default="", help="a pattern of the names of attacks to run")
    parser.add_argument("--layers", action="store_true", help="the table attack x layer")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        if options.user is not None:
            become_user(options.user)
    except CannotBecome as error:
        print(error, file=sys.stderr)
        return CANNOT
    if options.container:
        enter_container()
    attacks = [attack for attack in ATTACKS if re.search(options.only, attack.name)]
    groups = {"": tuple(filter(None, options.without.split(",")))}
    if options.layers:
        groups = GROUPS
    verdicts = {name: asyncio.run(run(attacks, without)) for name, without in groups.items()}
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(verdicts))
    else:
        show(verdicts)
    return int(any(not verdict.held for verdict in next(iter(verdicts.values()))))


def show(verdicts: dict[str, list[Verdict]]) -> None:
    single = len(verdicts) == 1
    table = Table("attack", *(["", "how it ended"] if single else verdicts))
    table.title = f"attacks as user {os.geteuid()}"
    for row in zip(*verdicts.values(), strict=True):
        marks = ["held" if verdict.held else "GOT THROUGH" for verdict in row]
        table.add_row(row[0].attack, *([marks[0], row[0].how] if single else marks))
    counts = [sum(verdict.held for verdict in column) for column in verdicts.values()]
    table.add_section()
    table.add_row("held", *(f"{count} of {len(ATTACKS)}" for count in counts))
    Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False).print(table)


if __name__ == "__main__":
    sys.exit(main())

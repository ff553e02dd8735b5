"""Run the benchmarks: ``python -m tests.benchmarks [NAME...] [--json PATH]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from tests.benchmarks import awm, confinement, scale, scoring, serving, storage, tenants, training
from tests.benchmarks.rows import Row

BENCHMARKS = {
    "storage": storage.run,
    "scoring": scoring.run,
    "confinement": confinement.run,
    "serving": serving.run,
    "training": training.run,
    "tenants": tenants.run,
    "scale": scale.run,
    "awm": awm.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(
            f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}"
        )
    rows: list[Row] = []
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr)
        rows.extend(BENCHMARKS[name]())
    show(rows)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
    return 0


def show(rows: list[Row]) -> None:
    table = Table("benchmark", "value", "baseline", "unit", "ratio", "to reach")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(
            row.name, f"{row.value:,}", f"{row.baseline:,}", row.unit, f"{row.ratio:,}", row.target
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


sys.exit(main())

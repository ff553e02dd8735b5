"""Stage ``data``: rows that make the tasks possible; keys, checks and references hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from environments.errors import EnvironmentFault, PackInvalid
from environments.spec import Spec
from environments.synthesis.mending import Job
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.describe import as_json, row_counts
from environments.synthesis.stages.shapes import Rows
from environments.synthesis.stages.stage import Bench, Product, Stage


class Data(Spec, frozen=True, kw_only=True):
    tables: Rows


async def make(bench: Bench) -> Product:
    question = prompt(
        "data",
        title=bench.scenario.title,
        summary=bench.scenario.summary,
        start=bench.scenario.spec.clock.start.isoformat(),
        tasks=bench.made["tasks.json"].decode(),
        schema=bench.made["schema.sql"].decode(),
    )
    job = Job(Data, question, lambda made: _problems(bench, made), lambda made: lines(made.tables))
    made, repairs = await bench.make(job)
    return Product(lines(made.tables).encode(), repairs)


async def _problems(bench: Bench, made: Data) -> Sequence[str]:
    bad = [name for name in made.tables if not name.isidentifier()]
    if bad:
        return [f"{name!r} is no table" for name in bad]
    try:
        environment = await bench.workshop.opened(replace(bench.draft, rows=made.tables))
        counts = row_counts(environment)
    except (PackInvalid, EnvironmentFault) as error:
        return [str(error)]
    return [f"table {name} has no rows" for name, count in counts.items() if not count]


def lines(tables: Rows) -> str:
    """The rows as JSON, one a line."""
    parts = [
        f"{as_json(table)}: [\n" + ",\n".join(map(as_json, rows)) + "\n]"
        for table, rows in tables.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


STAGE: Final = Stage("data", "data.json", make)

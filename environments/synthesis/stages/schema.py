"""Stage ``schema``: the tables that the tasks need, built in the confined guest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from environments.errors import EnvironmentFault, PackInvalid
from environments.spec import Spec
from environments.synthesis.mending import Job
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.shapes import Text
from environments.synthesis.stages.stage import Bench, Product, Stage


class Schema(Spec, frozen=True, kw_only=True):
    sql: Text


async def make(bench: Bench) -> Product:
    question = prompt(
        "schema",
        title=bench.scenario.title,
        summary=bench.scenario.summary,
        tasks=bench.made["tasks.json"].decode(),
        least=bench.wanted.least_tables,
    )
    job = Job(Schema, question, lambda made: _problems(bench, made), lambda made: made.sql)
    made, repairs = await bench.make(job)
    return Product(f"{made.sql.strip()}\n".encode(), repairs)


async def _problems(bench: Bench, made: Schema) -> Sequence[str]:
    try:
        environment = await bench.workshop.opened(replace(bench.draft, schema=made.sql))
        tables = environment.tables
    except (PackInvalid, EnvironmentFault) as error:
        return [str(error)]
    problems = [
        f"table {name} has no primary key"
        for name, info in tables.items()
        if not info.key or "_rowid_" in info.key
    ]
    if len(tables) < bench.wanted.least_tables:
        problems.append(f"there are {len(tables)} tables; at least {bench.wanted.least_tables}")
    return problems


STAGE: Final = Stage("schema", "schema.sql", make)

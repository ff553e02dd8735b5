"""Tables that an application makes when it starts: what its models are in SQL, asked of the code
itself, in a sandbox."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from environments.environment import Environment
from environments.episode import Episode
from environments.importers.source import ImportRefused
from environments.importers.trial import try_out

_TOOL: Final = "envhub_models"
_QUESTION: Final = f"""

@app.get("/{_TOOL}", operation_id="{_TOOL}")
def {_TOOL}(names: str):
    import json
    from sqlalchemy import MetaData
    from sqlalchemy.dialects import sqlite
    from sqlalchemy.schema import CreateIndex, CreateTable

    wanted, made = json.loads(names), {{}}
    found = [getattr(value, "metadata", value) for value in list(globals().values())]
    for metadata in [each for each in found if isinstance(each, MetaData)]:
        for table in metadata.sorted_tables:
            if table.name in wanted:
                parts = [CreateTable(table), *map(CreateIndex, table.indexes)]
                made[table.name] = [str(each.compile(dialect=sqlite.dialect())) for each in parts]
    return made
"""
"""An operation more, in a copy of the pack that is then thrown away."""


def definitions(pack: Path, tables: Iterable[str]) -> dict[str, list[str]]:
    """The statements that would make those of the ``tables`` that the application of ``pack`` maps,
    by table, parents first. Raises ``ImportRefused`` where it does not say."""
    with tempfile.TemporaryDirectory(prefix="envhub-models-") as folder:
        copy = Path(folder) / pack.name
        shutil.copytree(pack, copy)
        with (copy / "tools.py").open("a", encoding="utf-8") as file:
            file.write(_QUESTION)
        (copy / "tasks.jsonl").unlink(missing_ok=True)
        wanted = json.dumps(sorted(tables))
        return try_out(copy, partial(_told, wanted))


async def _told(wanted: str, environment: Environment) -> dict[str, list[str]]:
    episode = await Episode.start(environment)
    step = await episode.call(_TOOL, {"names": wanted})
    await episode.close()
    if step.error is not None:
        raise ImportRefused(f"its models are not to be told: {step.error.message}")
    made: dict[str, list[str]] = step.result
    return made

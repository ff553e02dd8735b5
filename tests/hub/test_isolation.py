"""Episodes of one environment never see each other's rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from environments.environment import open_environments
from environments.episode import Episode

pytestmark = pytest.mark.anyio

CALLS = 10_000

PACK = {
    "environment.toml": """
name = "notebook"
version = "1"
title = "Notebook"
summary = "One table that says who wrote what."
[limits]
max_steps = 1000000
""",
    "schema.sql": """
CREATE TABLE notes (id INTEGER PRIMARY KEY NOT NULL, owner TEXT NOT NULL);
CREATE INDEX notes_by_owner ON notes (owner);
""",
    "tools.py": '''
from environments.authoring import Database, tool


@tool(read_only=False)
def write(db: Database, owner: str) -> list[dict]:
    """Write a note; answers who has written how many."""
    db.insert("notes", owner=owner)
    return read(db)


@tool(read_only=True)
def read(db: Database) -> list[dict]:
    """Who has written how many notes."""
    return db.rows("SELECT owner, count(*) AS notes, max(id) AS last FROM notes GROUP BY owner")
''',
    "tasks.jsonl": "",
}


async def test_ten_thousand_interleaved_calls_stay_apart(tmp_path: Path) -> None:
    pack = tmp_path / "notebook"
    pack.mkdir()
    for name, text in PACK.items():
        (pack / name).write_text(text)
    dice = random.Random(4)
    async with open_environments([pack]) as environments:
        environment = await environments.get("notebook")
        ann, bob = [await Episode.start(environment, seed=1) for _ in range(2)]
        written = {"ann": 0, "bob": 0}
        marked = {"ann": (await ann.mark(), 0), "bob": (await bob.mark(), 0)}
        for _ in range(CALLS):
            owner, episode = dice.choice((("ann", ann), ("bob", bob)))
            chance = dice.random()
            if chance < 0.005:
                marked[owner] = (await episode.mark(), written[owner])
            elif chance < 0.01:
                mark, written[owner] = marked[owner]
                await episode.rewind(mark)
            if dice.random() < 0.5:
                step = await episode.call("write", {"owner": owner})
                written[owner] += 1
            else:
                step = await episode.call("read", {})
            notes = written[owner]
            expected = [{"owner": owner, "notes": notes, "last": notes}] if notes else []
            assert step.result == expected
        assert min(written.values()) > 100

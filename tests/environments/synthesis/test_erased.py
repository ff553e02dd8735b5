"""What is left of tables and tools when all names are erased."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from environments.spec import ToolSpec
from environments.synthesis.erased import erased_tables, erased_tools
from snapshots.shapes import read_shapes

LENDING = """
CREATE TABLE members (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE loans (
    id TEXT NOT NULL PRIMARY KEY,
    member_id TEXT NOT NULL REFERENCES members (id),  -- who has it
    state TEXT NOT NULL CHECK (state IN ('out', 'back')),
    days INTEGER CHECK (days > 3)
);
"""
BERTHS = """
CREATE TABLE "stays, all" (
    nights INTEGER CHECK (nights > 14),
    "stay no" TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('in', 'it''s gone (for good)')),
    boat TEXT NOT NULL REFERENCES boats (sign)
);
CREATE TABLE boats (sign text not null primary key, /* painted, too */ title text not null unique);
"""


def tables(sql: str) -> tuple[str, ...]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(sql)
        shapes = read_shapes(database)
        return erased_tables(database, {name: shape.columns for name, shape in shapes.items()})


def test_tables_that_say_the_same_in_other_words_are_the_same() -> None:
    assert tables(LENDING) == tables(BERTHS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("days INTEGER", "days REAL"),
        ("'out', 'back'", "'out', 'back', 'lost'"),
        (" UNIQUE", ""),
        ("member_id TEXT NOT NULL REFERENCES members (id)", "member_id TEXT NOT NULL"),
        ("CHECK (days > 3)", "CHECK (days > 3 OR state = 'out')"),
    ],
)
def test_types_constraints_and_references_are_told_apart(before: str, after: str) -> None:
    changed = LENDING.replace(before, after, 1)
    assert changed != LENDING
    assert tables(changed) != tables(LENDING)


def test_a_table_that_refers_to_another_kind_is_another() -> None:
    changed = LENDING.replace("name TEXT NOT NULL UNIQUE", "name TEXT NOT NULL", 1)
    assert not set(tables(changed)) & set(tables(LENDING))


def tool(
    name: str, *, read_only: bool = False, limit: str = "integer", answer: str = "string"
) -> ToolSpec:
    parameters = {f"{name}_id": {"type": "string"}, f"{name}s": {"$ref": "#/$defs/Limit"}}
    return ToolSpec(
        name=name,
        description=f"All about {name}.",
        input_schema={
            "type": "object",
            "properties": parameters,
            "required": [f"{name}_id"],
            "$defs": {"Limit": {"anyOf": [{"type": "null"}, {"type": limit, "title": name}]}},
        },
        output_schema={"type": "object", "properties": {name: {"type": answer}}},
        read_only=read_only,
    )


def test_tools_are_what_they_take_and_answer_and_whether_they_write() -> None:
    assert erased_tools([tool("loan")]) == erased_tools([tool("berth")])
    assert erased_tools([tool("loan")]) != erased_tools([tool("loan", read_only=True)])
    assert erased_tools([tool("loan")]) != erased_tools([tool("loan", limit="string")])
    assert erased_tools([tool("loan")]) != erased_tools([tool("loan", answer="integer")])
    twice = erased_tools([tool("loan"), tool("berth")])
    assert len(set(twice)) == 2, "two alike are more than one"

"""The language of blueprints says the same in Python and in SQL."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from environments.synthesis.offline.expressions import (
    names_in,
    python,
    python_opposite,
    sql,
)

TABLES = {"loan": "loans", "member": "members"}
CONSTANTS = {"LIMIT": "2"}
TODAY = "2026-03-10"


class Database:
    """As much of the authoring kit's as expressions use."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.executescript("""
            CREATE TABLE members (id TEXT, name TEXT, fines REAL, left_on TEXT);
            CREATE TABLE loans (id TEXT, member_id TEXT, status TEXT, due_on TEXT, fee INTEGER);
            INSERT INTO members VALUES ('m1', 'Ann', 3.5, NULL), ('m2', 'Bo', 0, '2026-01-01');
            INSERT INTO loans VALUES ('l1', 'm1', 'open', '2026-03-01', 4),
              ('l2', 'm1', 'open', '2026-03-20', 5), ('l3', 'm2', 'returned', '2026-02-01', 6);
        """)
        self.connection.row_factory = sqlite3.Row

    def one(self, sql: str, *values: Any) -> Any:
        return self.connection.execute(sql, values).fetchone()

    def scalar(self, sql: str, *values: Any) -> Any:
        row = self.one(sql, *values)
        return None if row is None else row[0]


def days_between(first: str, second: str) -> int:
    from datetime import date

    return (date.fromisoformat(second) - date.fromisoformat(first)).days


EXPRESSIONS = [
    "count(loan, member_id=member.id, status='open') < LIMIT",
    "count(loan, member_id=member.id, due_on__lt=today()) >= 1 and member.fines > 1",
    "exists(loan, member_id=member.id, status__ne='open')",
    "not exists(loan, member_id=member.id, fee__ge=LIMIT + 3)",
    "total(loan, 'fee', member_id=member.id) - 2 * (LIMIT + 1) > 0",
    "member.left_on is None or member.name in ('Bo', 'Cy')",
    "member.left_on is not None and not (member.fines >= 1)",
    "(member.fines if member.name == 'Ann' else 7) > 5",
    "days_between('2026-03-01', today()) == 9",
    "highest(loan, 'fee', member_id=member.id) == 5",
]


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_python_and_sql_agree(source: str) -> None:
    database = Database()
    names = {"db": database, "LIMIT": 2, "_today": lambda: TODAY, "_days_between": days_between}
    in_sql = sql(source, TABLES, CONSTANTS, TODAY)
    for member in database.connection.execute("SELECT * FROM members").fetchall():
        by_python = bool(eval(python(source, TABLES), {**names, "member": member}))
        opposite = bool(eval(python_opposite(source, TABLES), {**names, "member": member}))
        query = f'SELECT {in_sql} FROM members AS "member" WHERE "member".id = ?'
        by_sql = bool(database.scalar(query, member["id"]))
        assert by_python == by_sql
        assert opposite != by_python


def test_names_are_rows_arguments_and_constants() -> None:
    assert names_in(EXPRESSIONS[0]) == {"member", "LIMIT"}


@pytest.mark.parametrize("source", ["1 +", "lambda: 1", "member.name.first", "[1]"])
def test_what_is_not_in_the_language_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        python(source, TABLES)

"""Collateral damage: one more row changed by the agent must cost the whole reward.

The strays are derived from the oracle (what it did to a row, done to the row most like it; a row it
added, added once more; a row like the one it removed, removed too) and from the schema (one cell
of a row, in every table the oracle left alone). They are made by SQL on a copy of the state in
which the oracle left the episode, and told to be the agent's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import apsw
import msgspec

from environments.assertions.rows import RowChange, label
from environments.check.report import Finding, finding
from environments.check.runs import Run, judged_as, side_by_side
from environments.environment import Environment
from environments.trajectory import Reward, Step
from environments.verifier import Attempt
from snapshots import Changeset
from snapshots.rows import RowChange as SomeChange
from snapshots.rows import row_to_json

MAX_ROWS: Final = 400
"""How many rows of a table are looked at for one like another."""
_TRIES: Final = 12
"""How many strays of one kind are tried until the schema takes one."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stray:
    """A change nobody asked for, and the statement that makes it."""

    change: RowChange
    statement: str


class Rows:
    """The rows of an environment's tables as they are at the start, read once, and what strays
    can be made of them."""

    def __init__(self, environment: Environment) -> None:
        self.tables = environment.tables
        self._unjudged = environment.pack.spec.changes
        with closing(_open(environment)) as connection:
            self.rows = {
                table: _rows(connection, table, self.tables[table].columns) for table in self.judged
            }
        self._elsewhere: dict[str, list[Stray]] = {}

    @property
    def judged(self) -> list[str]:
        """The tables in which a stray change can be made and is looked at."""
        return [
            table
            for table, info in self.tables.items()
            if info.key
            and set(info.key) <= set(info.columns)
            and table not in self._unjudged.ignore_tables
        ]

    def columns(self, table: str) -> list[str]:
        """The columns a stray may change."""
        info, unjudged = self.tables[table], self._unjudged.ignore_columns.get(table, ())
        return [name for name in info.columns if name not in info.key and name not in unjudged]

    def elsewhere(self, table: str) -> list[Stray]:
        """Changes of one cell of a row of this table, as the schema may take them."""
        if table not in self._elsewhere:
            self._elsewhere[table] = list(self._cells(table))
        return self._elsewhere[table]

    def _cells(self, table: str) -> Iterator[Stray]:
        rows = self.rows[table]
        for row in rows[-3:]:
            for column in self.columns(table):
                if isinstance(row[column], bytes):
                    continue
                for value in _others(row[column], [other[column] for other in rows]):
                    yield self._changed(table, row, {column: value})

    def beside(self, table: str, changes: Changeset) -> list[Stray]:
        """The oracle's own changes of this table, done to other rows; a few for each of them."""
        touched = [change.key for change in changes.rows(table)]
        return [
            stray
            for change in changes.rows(table)
            for stray in islice(self._echoes(table, change, touched), _TRIES)
        ]

    def _echoes(self, table: str, change: SomeChange, touched: Sequence[Row]) -> Iterator[Stray]:
        if change.before is not None and change.after is not None:
            columns = self.columns(table)
            after = {name: value for name, value in change.after.items() if name in columns}
            for row in self._like(table, {**change.key, **change.before}, touched):
                if after and any(row[name] != value for name, value in after.items()):
                    yield self._changed(table, row, after)
        elif change.after is not None:
            yield from self._again(table, change.after)
        else:
            for row in self._like(table, change.before or {}, touched):
                yield self._removed(table, row)

    def _like(self, table: str, row: Row, touched: Sequence[Row]) -> list[Row]:
        """Rows nobody touched, those most like ``row`` first."""
        key = self.tables[table].key
        others = [
            other
            for other in self.rows[table]
            if not any(all(other[name] == known[name] for name in key) for known in touched)
        ]
        return sorted(others, key=lambda other: -sum(other.get(name) == row[name] for name in row))

    def _again(self, table: str, row: Row) -> Iterator[Stray]:
        """The same row once more, under a key of its own."""
        key = self.tables[table].key
        for column in reversed(key):
            value = row[column]
            if isinstance(value, int | float):
                taken = [other[column] for other in self.rows[table]]
                fresh: Any = max([value, *(n for n in taken if isinstance(n, int | float))]) + 1
            elif isinstance(value, str):
                fresh = f"{value[:-1]}{'Z' if value[-1:] != 'Z' else 'Y'}"
            else:
                continue
            copy = {**row, column: fresh}
            names = ", ".join(map(_name, copy))
            values = ", ".join(map(apsw.format_sql_value, copy.values()))
            identity = label(table, {name: copy[name] for name in key})
            yield Stray(
                RowChange(table, "added", identity, None, row_to_json(dict(copy))),
                f"INSERT INTO {_name(table)} ({names}) VALUES ({values})",
            )

    def _changed(self, table: str, row: Row, after: Row) -> Stray:
        assignments = ", ".join(
            f"{_name(column)} = {apsw.format_sql_value(value)}" for column, value in after.items()
        )
        before = row_to_json(dict(row))
        return Stray(
            RowChange(
                table,
                "changed",
                self._label(table, row),
                before,
                {**before, **row_to_json(dict(after))},
                frozenset(name for name, value in after.items() if row[name] != value),
            ),
            f"UPDATE {_name(table)} SET {assignments} WHERE {self._where(table, row)}",
        )

    def _removed(self, table: str, row: Row) -> Stray:
        return Stray(
            RowChange(table, "removed", self._label(table, row), row_to_json(dict(row)), None),
            f"DELETE FROM {_name(table)} WHERE {self._where(table, row)}",
        )

    def _label(self, table: str, row: Row) -> str:
        return label(table, {name: row[name] for name in self.tables[table].key})

    def _where(self, table: str, row: Row) -> str:
        return " AND ".join(
            f"{_name(name)} IS {apsw.format_sql_value(row[name])}"
            for name in self.tables[table].key
        )


async def stray_changes(environment: Environment, runs: Sequence[Run]) -> Finding:
    """A stray in every table the oracle left alone, and beside every row it touched, costs all."""
    rows = Rows(environment)
    tried: list[int] = []

    async def problems(run: Run) -> list[str]:
        found: list[str] = []
        for table in rows.judged:
            touched = table in run.changes.tables
            strays = rows.beside(table, run.changes) if touched else rows.elsewhere(table)
            made = await _scored_with(environment, run, _once_each(strays))
            tried.append(len(made))
            found += [
                f"task {run.task.id}: a stray change still scores {reward.value}: "
                f"{stray.change.describe()}"
                for stray, reward in made
                if reward.value != 0.0
            ]
        return found

    listed = await side_by_side(runs, problems)
    note = f"{sum(tried)} strays in {len(rows.judged)} tables"
    return finding(
        "stray changes cost the reward", [one for found in listed for one in found], note=note
    )


def _once_each(strays: Sequence[Stray]) -> list[list[Stray]]:
    """The strays by kind of change; of each kind one is to be made."""
    kinds: dict[str, list[Stray]] = {}
    for stray in strays:
        kinds.setdefault(stray.change.kind, []).append(stray)
    return list(kinds.values())


async def _scored_with(
    environment: Environment, run: Run, kinds: Sequence[Sequence[Stray]]
) -> list[tuple[Stray, Reward]]:
    """What the run is worth with the first stray of each kind that the schema takes and that the
    task does not allow."""
    scored = []
    for strays in kinds:
        unasked = [stray for stray in strays if not _is_allowed(environment, run, stray)]
        for stray in unasked[:_TRIES]:
            attempt = await _with(environment, run.attempt, stray)
            if attempt is not None:
                scored.append((stray, await judged_as(environment, run.task, attempt)))
                break
    return scored


async def _with(environment: Environment, attempt: Attempt, stray: Stray) -> Attempt | None:
    """The attempt as if the agent had made the stray change too; ``None`` if it cannot be made."""
    end = attempt.end.fork()
    done = await environment.act(end, attempt.moment, [stray.statement])
    if done.error is not None or done.delta is None:
        return None
    ignored = environment.pack.spec.changes
    made = (
        Changeset.from_json(change.changes).filter(
            tables=ignored.ignore_tables, columns=ignored.ignore_columns
        )
        for change in done.commits
    )
    if not any(made):
        return None
    end.commit(done.delta, ())
    step = Step(
        index=len(attempt.steps),
        tool="stray",
        arguments={},
        changes=tuple(
            msgspec.structs.replace(change, actor="agent", event=None) for change in done.commits
        ),
        clock_ms=attempt.moment.clock_ms,
    )
    return replace(attempt, end=end, steps=(*attempt.steps, step))


def _is_allowed(environment: Environment, run: Run, stray: Stray) -> bool:
    """Whether an ``allow`` of the task covers the change. What variables stand for is taken to
    fit; entries of ``expect`` excuse nothing."""
    change = stray.change
    for plan in environment.assertions(run.task).plans:
        for pattern in (pattern for part in plan for pattern in part.allow):
            rows = ((pattern.where, change.row), (pattern.set, change.after or {}))
            bindings = {
                name: row.get(column)
                for cells, row in rows
                for column, matcher in cells.items()
                for name in matcher.variables
            }
            if pattern.match(change, bindings) is not None:
                return True
    return False


def _others(value: Any, known: Sequence[Any]) -> Iterator[Any]:
    """Other values for a cell: first those the column has elsewhere, which its checks and
    references take."""
    yield from list(dict.fromkeys(other for other in known if other != value))[:3]
    if isinstance(value, int | float):
        yield value + 1
    else:
        yield f"{value} (stray)"


def _rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """With the rowid, where that is the key."""
    names = ", ".join(map(_name, columns))
    found = connection.execute(f"SELECT {names} FROM {_name(table)} LIMIT {MAX_ROWS}")
    return [dict(zip(columns, row, strict=True)) for row in found]


def _open(environment: Environment) -> sqlite3.Connection:
    return sqlite3.connect(environment.snapshot.uri, uri=True)


def _name(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'

"""Row changes as the assertions see them, and the words for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from environments.assertions.evidence import State
from environments.assertions.values import ABSENT, show
from environments.assertions.words import TableInfo
from snapshots.changeset import Changeset
from snapshots.rows import SchemaChange, row_to_json

ChangeKind = Literal["added", "removed", "changed"]
KINDS: Final[tuple[ChangeKind, ...]] = ("added", "removed", "changed")
SCHEMA_TABLE: Final = "$schema"
"""The name under which a changeset reports changes of the schema itself."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """What became of one row. ``before`` is the whole row that the agent found (``None`` if added),
    ``after`` the whole row afterwards (``None`` if removed), ``columns`` those that differ."""

    table: str
    kind: ChangeKind
    label: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    columns: frozenset[str] = field(default_factory=frozenset)

    @property
    def row(self) -> Mapping[str, Any]:
        """The row that identifies the change: the new one if added, else the one before."""
        return (self.after if self.before is None else self.before) or {}

    def describe(self) -> str:
        """``users u_3 was changed (email: 'a' -> 'b')``."""
        if self.kind != "changed":
            row = {} if self.kind == "removed" else self.row
            shown = ", ".join(f"{name}: {show(value)}" for name, value in list(row.items())[:6])
            more = ", ..." if len(row) > 6 else ""
            return f"{self.label} was {self.kind}" + (f" ({shown}{more})" if shown else "")
        before, after = self.before or {}, self.after or {}
        shown = ", ".join(
            f"{name}: {show(before.get(name, ABSENT))} -> {show(after.get(name, ABSENT))}"
            for name in sorted(self.columns)
        )
        return f"{self.label} was changed ({shown})"


def label(table: str, key: Mapping[str, Any]) -> str:
    """``orders o_17``; parts of a composite key are joined by a slash."""
    return f"{table} {'/'.join(str(value) for value in key.values())}"


def row_changes(
    changes: Changeset, found: Changeset, tables: Mapping[str, TableInfo], initial: State
) -> Iterator[RowChange]:
    """The row changes with whole rows: what the changes leave out is as the agent ``found`` it,
    which is the initial state but for what others had done by then."""
    for table in changes.tables:
        known = {_key(change.key): change for change in found.rows(table)}
        for change in changes.rows(table):
            key = row_to_json(change.key)
            before = None if change.before is None else row_to_json(change.before)
            after = None if change.after is None else row_to_json(change.after)
            columns = frozenset[str]()
            if before is not None and after is not None:
                columns = frozenset(after)
                other = known.get(_key(change.key))
                base = None if other and other.kind == "added" else initial.row(table, key)
                since = row_to_json((other.after if other else None) or {})
                before = {**(base or {}), **since, **key, **before}
                after = {**before, **after}
            yield RowChange(table, change.kind, label(table, key), before, after, columns)
    yield from map(_schema_change, changes.schema)


def _key(key: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(key.values())


def _schema_change(change: SchemaChange) -> RowChange:
    before, after = (
        None if sql is None else {"name": change.name, "sql": sql}
        for sql in (change.before, change.after)
    )
    kind: ChangeKind = "added" if before is None else "removed" if after is None else "changed"
    columns = frozenset({"sql"} if kind == "changed" else ())
    named = f"{change.type} {change.name} of the schema"
    return RowChange(SCHEMA_TABLE, kind, named, before, after, columns)

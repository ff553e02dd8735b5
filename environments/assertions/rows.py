"""Row changes as the assertions see them, and the words for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from environments.assertions.matchers import ABSENT, show

ChangeKind = Literal["added", "removed", "changed"]
KINDS: Final[tuple[ChangeKind, ...]] = ("added", "removed", "changed")
SCHEMA_TABLE: Final = "$schema"
"""The name under which a changeset reports changes of the schema itself."""

Lookup = Callable[[str, dict[str, Any]], dict[str, Any] | None]
"""``(table, key) -> row`` in the initial state, or ``None`` where there is no such row."""


class TableInfo(msgspec.Struct, frozen=True):
    """The columns of a table, and those of its primary key (empty: keyed by rowid)."""

    columns: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """What became of one row. ``before`` is the whole row before the agent (``None`` if added),
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
    changes: Mapping[str, Any], tables: Mapping[str, TableInfo], initial: Lookup
) -> Iterator[RowChange]:
    """The row changes in a changeset's JSON form, whole rows filled in from the initial state."""
    for table, kinds in changes.items():
        if table == SCHEMA_TABLE:
            yield from (_schema_change(entry) for entry in kinds)
            continue
        info = tables.get(table)
        key_columns = kinds.get("key") or (info.key if info else ())
        for row in kinds.get("added", ()):
            key = {name: row.get(name) for name in key_columns} or row
            yield RowChange(table, "added", label(table, key), None, row)
        for row in kinds.get("removed", ()):
            key = {name: row.get(name) for name in key_columns} or row
            yield RowChange(table, "removed", label(table, key), row, None)
        for entry in kinds.get("changed", ()):
            key = entry["key"]
            # A row an event added is in no initial state: of it only what changed is known.
            before = {**(initial(table, key) or {}), **key, **entry["before"]}
            after = {**before, **entry["after"]}
            columns = frozenset(entry["after"])
            yield RowChange(table, "changed", label(table, key), before, after, columns)


def _schema_change(entry: Mapping[str, Any]) -> RowChange:
    before, after = entry.get("before"), entry.get("after")
    kind: ChangeKind = "added" if before is None else "removed" if after is None else "changed"
    named = f"{entry.get('type', 'object')} {entry.get('name', '')} of the schema"
    return RowChange(
        SCHEMA_TABLE,
        kind,
        named,
        None if before is None else {"name": entry.get("name"), "sql": before},
        None if after is None else {"name": entry.get("name"), "sql": after},
        frozenset({"sql"}) if kind == "changed" else frozenset(),
    )

"""What an agent changed, told apart from what the world changed around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from environments.trajectory import Change
from snapshots.changeset import Changeset
from snapshots.rows import Row, RowChange, TableChanges


def split(history: Iterable[Change]) -> tuple[Changeset, Changeset]:
    """``(changes, found)`` of an ``Evidence``, from all changes of a run in order.

    ``changes`` is the net of the agent's. ``found`` is the net of everybody else's to those rows,
    up to where the agent first changed them. What happens to a number of such a row later, while
    the agent's change of it stands, counts as if it had happened before: an agent that takes 2
    from stock, meets a delivery of 10 and takes 1 more has changed the stock by -3.
    """
    net, found, since = Changeset(), Changeset(), Changeset()
    for change in history:
        rows = Changeset.from_json(change.changes)
        if change.actor == "agent":
            net = net.concat(rows, gaps=True)
            settled, since = _parted(since, net)  # rows the agent has put back: found anew
        else:
            settled, meanwhile = _parted(rows, net)
            net = _shifted(net, meanwhile)
            since = since.concat(meanwhile, gaps=True)
        found = found.concat(settled, gaps=True)
    return net, _parted(found, net)[1]


_Rows = Mapping[str, Mapping[Any, RowChange]]


def _parted(rows: Changeset, net: Changeset) -> tuple[Changeset, Changeset]:
    """The changes of rows that ``net`` does not touch, and of those it does."""
    if not rows:
        return rows, rows
    touched = _by_key(net)
    apart: tuple[dict[str, TableChanges], ...] = ({}, {})
    for table in rows.tables:
        columns = rows.key_columns(table)
        for change in rows.rows(table):
            side = apart[_key(change.key) in touched.get(table, {})]
            side.setdefault(table, TableChanges(columns)).put(change)
    return Changeset(apart[0]), Changeset(apart[1])


def _shifted(net: Changeset, meanwhile: Changeset) -> Changeset:
    """The agent's net changes as if the numbers in ``meanwhile`` had moved before it came."""
    if not meanwhile:
        return net
    moved = _by_key(meanwhile)
    tables = {}
    for table in net.tables:
        tables[table] = TableChanges(net.key_columns(table))
        for change in net.rows(table):
            other = moved.get(table, {}).get(_key(change.key))
            shifted = change if other is None else _shift(change, other)
            if shifted is not None:
                tables[table].put(shifted)
    return Changeset(tables, net.schema)


def _shift(change: RowChange, other: RowChange) -> RowChange | None:
    if change.kind != "changed" or other.kind != "changed":
        return change
    before, after = dict(change.before or {}), dict(change.after or {})
    for column, value in (other.after or {}).items():
        earlier = (other.before or {}).get(column)
        mine = before.get(column)
        if column in after and all(_number(part) for part in (value, earlier, mine)):
            before[column] = mine + (value - earlier)  # type: ignore[operator]
            after[column] = value
    return RowChange(change.key, before, after, change.indirect)


def _by_key(changes: Changeset) -> _Rows:
    return {
        table: {_key(change.key): change for change in changes.rows(table)}
        for table in changes.tables
    }


def _key(key: Row) -> tuple[Any, ...]:
    return tuple(key.values())


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))

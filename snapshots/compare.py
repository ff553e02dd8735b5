"""Which rows differ between two states, told from their pages and by nobody's report.

A state is pages, and pages may come from a process that runs strangers' code. ``Comparer`` reads
the rows that are on them, at a cost that follows the number of changed pages, and ``rebuild`` puts
those rows over the state before, so that nothing else of the pages (an index, say) is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from snapshots.branch import Branch
from snapshots.btree import (
    Tree,
    differing,
    key_search,
    leaves,
    rowid_search,
    trail,
    tree_difference,
)
from snapshots.capture import compare, compare_rows
from snapshots.changeset import Changeset
from snapshots.errors import StateDamaged
from snapshots.nodes import TABLE_KINDS, Node, Pages, kind_of, overflowing
from snapshots.pages import Snapshot, schema_cookie
from snapshots.records import Entry, KeyColumn, Order
from snapshots.rows import Key, Row
from snapshots.shapes import TableShape, quoted, read_shapes
from snapshots.workspace import Mount, Workspace

_SEQUENCES = "sqlite_sequence"
_SCHEMA_ROOT = 0
_MAX_NODES = 20_000


class _Layout(NamedTuple):
    """A table: its tree, its columns, and whether its rows are SQLite's own affair."""

    name: str
    tree: Tree
    shape: TableShape
    hidden: bool


class TableDifference(NamedTuple):
    """The rows of one table as they are stored: those that only the state before has, and those
    only after. A changed row is in both."""

    shape: TableShape
    old: tuple[Row, ...]
    new: tuple[Row, ...]


class Comparison(NamedTuple):
    """``changes`` are net, none of them marked ``indirect``. ``tables`` has the rows they come
    from and those of tables that SQLite keeps for itself; None where the schema changed too."""

    changes: Changeset
    tables: Mapping[str, TableDifference] | None


class Comparer:
    """Compares states of one snapshot. Remembers what it learns of the snapshot's own pages."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes: dict[int, Node] = {}
        self._known: tuple[_Layout, ...] | None = None

    def compare(self, before: Mount, after: Mount) -> Comparison:
        """What it takes to get from one mounted state to the other. ``before`` must be sound.

        Where the schema differs, both are read whole.

        Raises:
            StateDamaged: the pages of ``after`` are no database.
        """
        try:
            return self._compare(before, after)
        except (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError) as error:
            raise StateDamaged(f"the state afterwards cannot be read: {error}") from error

    def _compare(self, before: Mount, after: Mount) -> Comparison:
        if len(self._nodes) > _MAX_NODES:
            self._nodes.clear()
        old = Pages(before.branch, self._nodes)
        new = Pages(after.branch, self._nodes)
        found = self._differences(old, new, self._layouts(before, old))
        if found is None:
            return Comparison(compare(before.connection, after.connection), None)
        tables = {
            layout.name: TableDifference(
                layout.shape,
                tuple(_read(before.connection, layout, entries[0])),
                tuple(_read(after.connection, layout, entries[1])),
            )
            for layout, entries in found.items()
        }
        changes = {
            layout.name: compare_rows(layout.shape, *_by_key(tables[layout.name]))
            for layout in found
            if not layout.hidden
        }
        return Comparison(Changeset(changes), tables)

    # --- the tables -------------------------------------------------------------------------------

    def _layouts(self, before: Mount, pages: Pages) -> tuple[_Layout, ...]:
        """The tables of a state, remembered as long as it has the snapshot's own schema."""
        own = schema_cookie(pages[0]) == schema_cookie(self._snapshot.page(0))
        if not own:
            return _read_layouts(before.connection)
        if self._known is None:
            self._known = _read_layouts(before.connection)
        return self._known

    def _differences(
        self, old: Pages, new: Pages, layouts: tuple[_Layout, ...]
    ) -> dict[_Layout, tuple[set[Entry], set[Entry]]] | None:
        """The entries that differ by table; None if the schema is among what differs."""
        differs = differing(old, new)
        if not differs:
            return {}
        schema = _Layout("sqlite_schema", Tree(_SCHEMA_ROOT, None), _NO_SHAPE, True)
        everything = (schema, *layouts)
        held = _trails(old, everything, differs)
        spilled = _spilled(old, held, differs)
        if spilled:
            owners = _owners(old, everything, spilled)
            differs |= owners
            held = _trails(old, everything, differs)
        if schema_cookie(old[0]) != schema_cookie(new[0]):
            return None
        found = {}
        for layout, pages in held.items():
            entries = tree_difference(old, new, layout.tree, pages, differs)
            if any(entries):
                found[layout] = entries
        if schema in found:
            raise StateDamaged("the schema changed and its cookie did not")
        return found


_NO_SHAPE = TableShape((), (), (), False)


def _trails(
    pages: Pages, layouts: Sequence[_Layout], targets: Iterable[int]
) -> dict[_Layout, set[int]]:
    """The pages of each tree that are targets or lead to one."""
    found: dict[_Layout, set[int]] = {}
    by_rowid = [layout for layout in layouts if layout.tree.order is None]
    by_key = [layout for layout in layouts if layout.tree.order is not None]
    for target in targets:
        if target >= pages.count:
            continue
        search, candidates = None, by_key
        if kind_of(pages, target) in TABLE_KINDS:
            search, candidates = rowid_search(pages, target), by_rowid
        for layout in candidates:
            root, order = layout.tree
            searched = search if order is None else key_search(pages, target, order)
            if way := trail(pages, root, target, searched):
                found.setdefault(layout, set()).update(way)
                break
    return found


def _spilled(pages: Pages, held: Mapping[_Layout, set[int]], differs: Iterable[int]) -> set[int]:
    """Changed pages that no changed page of a tree accounts for: rows overflowed onto them.

    Their first four bytes are the number of a page, so that the first is 0; a tree's is not.
    """
    found = {number for number in differs if 0 < number < pages.count and pages[number][0] == 0}
    if found:
        found -= pages.free()
    if found:
        found.difference_update(
            spill
            for ways in held.values()
            for number in ways
            for spill in overflowing(pages, number)
        )
    return found


def _owners(pages: Pages, layouts: Iterable[_Layout], spilled: set[int]) -> set[int]:
    """The pages of trees whose rows overflow onto ``spilled``. Looks through all tables."""
    return {
        way[-1]
        for layout in layouts
        for way in leaves(pages, layout.tree)
        if not spilled.isdisjoint(overflowing(pages, way[-1]))
    }


def _read_layouts(connection: apsw.Connection) -> tuple[_Layout, ...]:
    listed: list[Any] = connection.execute(
        "SELECT name, rootpage - 1 FROM main.sqlite_schema WHERE type = 'table' AND rootpage"
    ).fetchall()
    roots = dict(listed)
    return tuple(
        _Layout(name, Tree(roots[name], _order(connection, name)), shape, hidden)
        for hidden in (False, True)
        for name, shape in read_shapes(connection, hidden=hidden).items()
        if name in roots
    )


def _order(connection: apsw.Connection, table: str) -> Order | None:
    """How the rows of a table WITHOUT ROWID sort; None for other tables."""
    listed = connection.execute("SELECT wr FROM pragma_table_list(?)", (table,)).fetchall()
    if not listed[0][0]:
        return None
    (index,) = (
        str(name)
        for _, name, _, origin, _ in connection.execute(
            f"PRAGMA main.index_list({quoted(table)})"
        ).fetchall()
        if origin == "pk"
    )
    columns = connection.execute(f"PRAGMA main.index_xinfo({quoted(index)})").fetchall()
    return Order([KeyColumn(str(c[4]).upper(), bool(c[3])) for c in columns if c[5]])


def _read(connection: apsw.Connection, layout: _Layout, entries: Iterable[Entry]) -> Iterable[Row]:
    """The rows of those entries as SQLite reads them, with the rowid where it is no column."""
    name, tree, shape, _ = layout
    columns = stored_columns(shape)
    key = ["_rowid_"] if tree.order is None else list(shape.key)
    sql = (
        f"SELECT {', '.join(quoted(column) for column in columns)} FROM main.{quoted(name)} "
        f"WHERE {' AND '.join(f'{quoted(column)} = ?' for column in key)}"
    )
    seen = set()
    for entry in entries:
        identity = (entry.rowid,) if tree.order is None else tree.order.key(entry.record)
        found = connection.execute(sql, identity).fetchall()
        if len(found) != 1 or identity in seen:
            raise StateDamaged(f"a row on the pages of {name} is not found by its key")
        seen.add(identity)
        yield dict(zip(columns, found[0], strict=True))


def stored_columns(shape: TableShape) -> tuple[str, ...]:
    """All that a row is made of."""
    return ("_rowid_", *shape.columns) if shape.hidden_rowid else shape.columns


def _by_key(
    difference: TableDifference,
) -> tuple[dict[Key, Row], dict[Key, Row]]:
    shape = difference.shape
    old, new = (
        {
            tuple(row[column] for column in shape.key): {
                column: row[column] for column in shape.columns
            }
            for row in rows
        }
        for rows in (difference.old, difference.new)
    )
    return old, new


# --- putting the rows back ------------------------------------------------------------------------


def rebuild(workspace: Workspace, before: Branch, tables: Mapping[str, TableDifference]) -> Branch:
    """``before`` with the rows that differ put over it, by a SQLite of our own.

    ``workspace`` must be ``verbatim``. The result has the same rows as the state that was
    compared, down to their rowids; pages, indexes and free space are what SQLite makes of them.

    Raises:
        StateDamaged: rows that no SQLite would have taken (a constraint does not hold).
    """
    branch = before.fork()
    try:
        with workspace.mount(branch, record=False) as mount:
            _put(mount.connection, tables)
    except apsw.Error as error:
        raise StateDamaged(f"the rows do not fit the schema: {error}") from error
    return branch


def _put(connection: apsw.Connection, tables: Mapping[str, TableDifference]) -> None:
    execute = connection.execute
    execute("BEGIN")
    for name, (shape, old, _) in tables.items():
        key = ("_rowid_",) if shape.hidden_rowid else shape.key
        where = " AND ".join(f"{quoted(column)} = ?" for column in key)
        for row in old:
            execute(f"DELETE FROM {quoted(name)} WHERE {where}", tuple(row[c] for c in key))
    for name, (shape, _, new) in tables.items():
        if name != _SEQUENCES:
            _insert(connection, name, shape, new)
    if _SEQUENCES in tables:
        shape, _, new = tables[_SEQUENCES]
        for row in new:  # those tables' own inserts may have made one
            execute(f"DELETE FROM {_SEQUENCES} WHERE name IS ?", (row["name"],))
        _insert(connection, _SEQUENCES, shape, new)
    execute("COMMIT")


def _insert(
    connection: apsw.Connection, table: str, shape: TableShape, rows: Iterable[Row]
) -> None:
    columns = stored_columns(shape)
    names, places = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
    sql = f"INSERT INTO {quoted(table)} ({names}) VALUES ({places})"
    for row in rows:
        connection.execute(sql, tuple(row.values()))

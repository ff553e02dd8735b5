"""Row changes as SQLite reports them while they happen: by its pre-update hook, or by sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

import apsw

from snapshots.capture import null_in_key, refuse_null_keys
from snapshots.changeset import Changeset
from snapshots.rows import Key, Row, RowChange, TableChanges
from snapshots.shapes import ROWID, TableShape, quoted, read_shapes

_SURE_OF_ROWIDS = 50
"""With some more changed rows than this a session loses track of tables without a primary key: it
finds no row again that it noted before its hash table grew (at 128)."""


_READ_APART = 2
"""Up to this many rows are read sooner than a transaction is begun and ended for them."""


class Misreported(Exception):
    """What was recorded is not what happened. Compare the states instead."""


class Recorder(Protocol):
    """Stays on a connection from its opening on and tells what changed since ``begin``.

    From its opening on: a statement prepared while nobody records is never recorded, not even when
    it runs again later (DELETE without WHERE clears the table unseen).
    """

    shapes: Mapping[str, TableShape]

    def begin(self, *, enabled: bool) -> None:
        """Forget what was recorded; record from now on if ``enabled``."""

    def changes(self) -> Changeset:
        """The net changes since ``begin``.

        Raises:
            NullInKey: a row was written that has no key of its own.
            Misreported, apsw.Error: it cannot tell (the schema changed, say); compare the states.
        """

    def close(self) -> None:
        """Stop recording."""


def recorder(connection: apsw.Connection) -> Recorder:
    """The cheapest recorder that can see the rows of all tables there are.

    ``apsw`` hands no row of a table with virtual columns to a hook; sessions see it all the same.
    The two cannot be on one connection.
    """
    shapes = read_shapes(connection)
    if any(shape.virtual for shape in shapes.values()):
        return SessionRecorder(connection, shapes)
    return HookRecorder(connection, shapes)


# --- by hook --------------------------------------------------------------------------------------


class HookRecorder:
    """Notes each row as it was when it is first touched, and in the end looks what became of it.

    What a rollback undoes is not reported, so only the rows themselves say how they ended.
    """

    def __init__(self, connection: apsw.Connection, shapes: Mapping[str, TableShape]) -> None:
        self.shapes = shapes
        self._connection = connection
        self._notes = {name: _Notes(name, shape) for name, shape in shapes.items()}
        self._touched: dict[str, _Notes] = {}
        self._enabled = True
        self._lost = False
        apsw.Connection.preupdate_hook(connection, self._note, id=self)

    def begin(self, *, enabled: bool) -> None:
        for notes in self._touched.values():
            notes.rows.clear()
        self._touched.clear()
        self._enabled = enabled
        self._lost = False

    def close(self) -> None:
        """The connection takes its hook with it."""

    def changes(self) -> Changeset:
        if self._lost:
            raise Misreported
        connection, touched = self._connection, self._touched
        together = sum(len(notes.rows) for notes in touched.values()) > _READ_APART
        if together:  # else each read asks the file anew whether it has changed
            connection.execute("BEGIN")
        try:
            return Changeset({name: notes.net(connection) for name, notes in touched.items()})
        finally:
            if together:
                connection.execute("ROLLBACK")

    def _note(self, update: apsw.PreUpdate) -> None:
        if not self._enabled:
            return
        name = update.table_name
        notes = self._notes.get(name)
        if notes is None:  # virtual tables' own storage, sqlite_sequence
            return
        self._touched[name] = notes
        try:
            notes.take(update)
        except (apsw.Error, LookupError, UnicodeError):  # would surface in the user's statement
            self._lost = True


class _Note:
    """A row at its first touch (None: it was not there), and whether SQL touched it directly."""

    __slots__ = ("before", "indirect")

    def __init__(self, before: Key | None, indirect: bool) -> None:
        self.before = before
        self.indirect = indirect


class _Notes:
    """The noted rows of one table, by key. Equal numbers are one key, as they are to SQLite."""

    def __init__(self, name: str, shape: TableShape) -> None:
        self.rows: dict[Key, _Note] = {}
        self._name = name
        self._shape = shape
        self._key_at = tuple(shape.columns.index(column) for column in shape.key)
        self._others_at = tuple(
            at for at, column in enumerate(shape.columns) if column not in shape.key
        )
        self._hides_rowid = shape.key == (ROWID,)
        columns = ", ".join(quoted(column) for column in shape.columns)
        found = " AND ".join(f"{quoted(column)} IS ?" for column in shape.key)
        self._sql = f"SELECT {columns} FROM main.{quoted(name)} WHERE {found}"

    def take(self, update: apsw.PreUpdate) -> None:
        """Note the row, or both, that an insert, update, delete or blob write is about to touch."""
        operation, indirect = update.opcode, update.depth > 0
        if self._shape.keyed_by_rowid:
            key: Key = (update.rowid,)
            if key not in self.rows and operation != apsw.SQLITE_INSERT:
                self._put(key, self._record(update.old, update.rowid), indirect)
            else:
                self._put(key, None, indirect)
            if operation == apsw.SQLITE_UPDATE and update.rowid_new != update.rowid:
                self._put((update.rowid_new,), None, indirect)
            return
        if operation != apsw.SQLITE_INSERT:
            old = self._record(update.old, update.rowid)
            self._put(self._key(old), old, indirect)
        if operation != apsw.SQLITE_DELETE:
            self._put(self._key(self._record(update.new, update.rowid_new)), None, indirect)

    def _put(self, key: Key, before: Key | None, indirect: bool) -> None:
        note = self.rows.get(key)
        if note is None:
            self.rows[key] = _Note(before, indirect)
        elif not indirect:
            note.indirect = False

    def _record(self, values: apsw.SQLiteValues | None, rowid: int) -> Key:
        assert values is not None
        positions = self._shape.positions
        if len(positions) != len(values):
            values = tuple(values[position] for position in positions)
        return cast("Key", (rowid, *values) if self._hides_rowid else values)

    def _key(self, record: Key) -> Key:
        return tuple([record[position] for position in self._key_at])

    def net(self, connection: apsw.Connection) -> TableChanges:
        """What became of the noted rows."""
        columns = self._shape.columns
        # Where a collation holds others equal to a key, more is found than was asked for.
        present = {self._key(record): record for record in self._read(connection)}
        changes: dict[Key, RowChange] = {}
        for key, note in self.rows.items():
            before, after = note.before, present.get(key)
            if after is not None:
                if None in key:
                    raise null_in_key(self._name, self._shape)
                if before is not None:
                    differ = [
                        at
                        for at in self._others_at
                        if after[at] != before[at] or type(after[at]) is not type(before[at])
                    ]
                    if differ:
                        old = {columns[at]: before[at] for at in differ}
                        new = {columns[at]: after[at] for at in differ}
                        changes[key] = RowChange(self._named(before), old, new, note.indirect)
                else:
                    row = dict(zip(columns, after, strict=True))
                    changes[key] = RowChange(self._named(after), None, row, note.indirect)
            elif before is not None:
                row = dict(zip(columns, before, strict=True))
                changes[key] = RowChange(self._named(before), row, None, note.indirect)
        return TableChanges(self._shape.key, changes)

    def _read(self, connection: apsw.Connection) -> list[Key]:
        """The noted rows that exist."""
        rows = connection.cursor().executemany(self._sql, self.rows).fetchall()
        return cast("list[Key]", rows)

    def _named(self, record: Key) -> Row:
        return {self._shape.columns[at]: record[at] for at in self._key_at}


# --- by session -----------------------------------------------------------------------------------


class SessionRecorder:
    """A session that stays attached to a connection."""

    def __init__(self, connection: apsw.Connection, shapes: Mapping[str, TableShape]) -> None:
        self.shapes = shapes
        self._connection = connection
        self._touched: set[str] = set()
        self._enabled = True
        self._changed_before = 0
        self._session = self._attach()

    def _attach(self) -> apsw.Session:
        session = apsw.Session(self._connection, "main")
        session.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, 1)
        session.table_filter(self._records)
        session.attach()
        return session

    def _records(self, table: str) -> bool:
        if table not in self.shapes:
            return False
        self._touched.add(table)
        return True

    def begin(self, *, enabled: bool) -> None:
        if self._touched:
            old, self._touched = self._session, set()
            self._session = self._attach()
            old.close()  # after the new one is there
            self._enabled = True
        if enabled is not self._enabled:
            self._session.enabled = self._enabled = enabled
        self._changed_before = self._connection.total_changes()

    def close(self) -> None:
        self._session.close()

    def changes(self) -> Changeset:
        touched = {table: self.shapes[table] for table in self._touched}
        if any(shape.key == (ROWID,) for shape in touched.values()):
            changed = self._connection.total_changes() - self._changed_before
            if changed > _SURE_OF_ROWIDS:
                raise Misreported
        refuse_null_keys(self._connection, touched)
        return self._decode(self._session.changeset())

    def _decode(self, recorded: bytes) -> Changeset:
        tables: dict[str, TableChanges] = {}
        for change in apsw.Changeset.iter(recorded):
            name = change.name
            shape = self.shapes[name]
            table = tables.get(name)
            if table is None:
                table = tables[name] = TableChanges(shape.key)
            table.put(_row_change(shape, change))
        return Changeset(tables)


def _row_change(shape: TableShape, change: apsw.TableChange) -> RowChange:
    old, new = _row(shape, change.old), _row(shape, change.new)
    source = old or new or {}
    key = {column: source[column] for column in shape.key}
    if old and new:
        if not new.keys().isdisjoint(shape.key):
            raise Misreported  # to one that its collation holds equal: told as two changes
        old = {column: old[column] for column in new}
    return RowChange(key, old, new, change.indirect)


def _row(shape: TableShape, values: tuple[object, ...] | None) -> Row | None:
    if values is None:
        return None
    absent = apsw.no_change
    named = zip(shape.columns, values, strict=True)
    return cast("Row", {column: value for column, value in named if value is not absent})

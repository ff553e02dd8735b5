"""One SQLite connection that is mounted on one branch after the other."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

import apsw

from snapshots.branch import Branch, Point
from snapshots.capture import compare
from snapshots.changeset import Changeset
from snapshots.errors import (
    AlreadyMounted,
    BranchMoved,
    ReadOnlyViolated,
    SnapshotMismatch,
    UncleanMount,
    WorkspaceBroken,
)
from snapshots.pages import PageDelta, Snapshot, schema_cookie
from snapshots.policy import Authorizer, MountFunctions, SharedConnection
from snapshots.recording import Misreported, recorder
from snapshots.vfs import MountedFile, MountedVFS

_NO_CHANGES = Changeset()


class Mount:
    """One branch on a workspace's connection, for the length of a ``with`` block.

    ``connection`` is in autocommit mode until the body begins a transaction. When the body ends
    well, what it wrote is committed to the branch, and ``delta`` and ``changes`` say what that
    was. When it raises, the branch is what it was, even if the body had committed to the
    connection, unless ``keep_on_error`` was called.
    """

    __slots__ = (
        "_delta",
        "_keep",
        "_workspace",
        "branch",
        "changes",
        "clock_ms",
        "connection",
        "label",
        "point",
        "read_only",
        "record",
        "seed",
    )

    connection: apsw.Connection
    point: Point

    def __init__(
        self,
        workspace: Workspace,
        branch: Branch,
        label: str,
        moment: tuple[int, int],
        recording: tuple[bool, bool],
    ) -> None:
        self._workspace = workspace
        self._keep = False
        self._delta: PageDelta | None = None
        self.branch = branch
        self.label = label
        self.clock_ms, self.seed = moment
        self.read_only, self.record = recording
        self.changes = _NO_CHANGES

    @property
    def delta(self) -> PageDelta:
        """The pages the branch took over when the mount ended."""
        if self._delta is None:
            return PageDelta({}, self.point.size_bytes, self.point.base_pages)
        return self._delta

    def keep_on_error(self) -> None:
        """An exception of the body commits what was written before it, then propagates.

        A transaction still open at that moment is rolled back all the same.
        """
        self._keep = True

    def __enter__(self) -> Self:
        self._workspace._enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workspace._leave(self, error, keep=self._keep and isinstance(error, Exception))


class Workspace:
    """The one connection that a process has for a snapshot; branches take turns on it.

    ``verbatim`` is for putting back what is known to have happened: a write does what it says and
    no more (no triggers, no foreign keys), and tables that SQLite keeps for itself can be written.

    Not thread-safe. Whoever opens it closes it. Once ``broken`` it serves no more mounts.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        allow_ddl: bool = False,
        foreign_keys: bool = True,
        verbatim: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.broken = False
        self._allow_ddl = allow_ddl
        self._foreign_keys = foreign_keys and not verbatim
        self._verbatim = verbatim
        self._file = MountedFile(snapshot.mapping)
        self._vfs = MountedVFS(self._file)
        self._mounted: Mount | None = None
        self._base_cookie = self._cookie = schema_cookie(snapshot.page(0))
        self._held: Point | None = None  # the state that the page cache is known to mirror
        self._file.mount(Point.of(snapshot), stale=True)
        self._open()
        self._file.unmount()

    def mount(
        self,
        branch: Branch,
        *,
        label: str = "agent",
        clock_ms: int = 0,
        seed: int = 0,
        read_only: bool = False,
        record: bool = True,
    ) -> Mount:
        """A context in which the connection reads and writes ``branch``.

        ``label`` says who causes the changes. SQL's idea of now is ``clock_ms`` (since 1970 UTC),
        ``random()`` draws from ``seed``. Without ``record`` no row changes are noted.

        Raises (when entered):
            WorkspaceBroken, AlreadyMounted: it cannot be mounted now.
            SnapshotMismatch: the branch is of another snapshot.
        Raises (when left; the branch is untouched):
            UncleanMount: the body left something open; the workspace is broken.
            ReadOnlyViolated: something was written although ``read_only``.
            NullInKey: a row was written that cannot be tracked.
            BranchMoved: the branch changed meanwhile.
        """
        return Mount(self, branch, label, (clock_ms, seed), (read_only, record and not read_only))

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.broken = True
        self._close_connection()

    # --- the connection -----------------------------------------------------------------------

    def _open(self) -> None:
        """Open the connection on whatever is mounted on the file."""
        connection = SharedConnection("/main", flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs.name)
        for option, value in (
            (apsw.SQLITE_DBCONFIG_DEFENSIVE, int(not self._verbatim)),
            (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, int(not self._verbatim)),
            (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        ):
            apsw.Connection.config(connection, option, value)
        connection.execute(
            "PRAGMA journal_mode=memory; PRAGMA synchronous=off; PRAGMA temp_store=memory;"
            f"PRAGMA foreign_keys={int(self._foreign_keys)}"
        ).fetchall()
        self._connection = connection
        self._functions = MountFunctions(connection)
        self._recorder = recorder(connection)
        self._judge = Authorizer(
            connection, allow_ddl=self._allow_ddl, foreign_keys=self._foreign_keys
        )
        apsw.Connection.set_authorizer(connection, self._judge)

    def _close_connection(self) -> None:
        self._recorder.close()
        apsw.Connection.close(self._connection, True)

    # --- one mount --------------------------------------------------------------------------------

    def _enter(self, mount: Mount) -> None:
        if self.broken:
            raise WorkspaceBroken("the workspace is broken or closed", hint="open another")
        if self._mounted is not None:
            raise AlreadyMounted("the workspace has a branch mounted", hint="open another")
        branch = mount.branch
        if branch.snapshot is not self.snapshot and branch.snapshot.digest != self.snapshot.digest:
            raise SnapshotMismatch(
                "the branch belongs to another snapshot",
                expected=self.snapshot.digest,
                found=branch.snapshot.digest,
            )
        mount.point = point = branch.head
        self._vfs.clock_ms = mount.clock_ms
        self._file.mount(point, stale=point is not self._held)
        if point is not self._held:
            self._hold_schema()
        self._held = None
        self._judge.defined = False
        self._recorder.begin(enabled=mount.record)
        self._functions.begin(mount.seed)
        mount.connection = self._connection
        self._mounted = mount

    def _hold_schema(self) -> None:
        """Reopen the connection if it may have parsed another schema than the file's.

        Only the snapshot's own schema is known by its cookie: siblings that changed theirs in
        different ways have the same one.
        """
        cookie = self._file.cookie
        if cookie != self._base_cookie or self._cookie != self._base_cookie:
            self.broken = True  # unless it opens
            self._close_connection()
            self._open()
            self._cookie = cookie
            self.broken = False

    def _leave(self, mount: Mount, error: BaseException | None, *, keep: bool) -> None:
        try:
            unclean = self._settle(failed=error is not None)
            if unclean:
                self.broken = True
                if error is None:
                    raise UncleanMount(
                        f"the body left {unclean}", hint="end it before returning", what=unclean
                    )
            elif (error is None or keep) and self._file.changed:
                self._commit(mount)
        finally:
            self._unmount(mount)

    def _settle(self, *, failed: bool) -> str:
        """End what is open on the connection; what cannot be left so is named."""
        connection = self._connection
        if connection.txn_state("main") == apsw.SQLITE_TXN_NONE and connection.get_autocommit():
            return ""
        for cursor in _cursors(connection):
            cursor.close(True)
        if not connection.get_autocommit():
            try:
                connection.execute("ROLLBACK").fetchall()
            except apsw.Error as problem:
                return f"a transaction that does not end ({problem})"
            if not failed:
                return "an open transaction"
        if connection.txn_state("main") != apsw.SQLITE_TXN_NONE:
            return "an open blob, backup or statement"
        return ""

    def _commit(self, mount: Mount) -> None:
        """Hand what was written to the branch."""
        if mount.read_only:
            raise ReadOnlyViolated(
                "a read-only mount was written to", pages=sorted(self._file.pending)
            )
        if mount.branch.head is not mount.point:
            raise BranchMoved("the branch was changed while it was mounted")
        if mount.record:
            mount.changes = self._changes(mount.point)
        mount._delta = delta = self._file.delta()
        mount.branch.take(delta, ((mount.label, mount.changes),))
        if self._file.cookie == self._cookie:  # else what is known of the schema is of before
            self._held = mount.branch.head

    def _changes(self, before: Point) -> Changeset:
        if self._file.cookie == self._cookie and not self._judge.defined:
            with suppress(Misreported):
                return self._recorder.changes()
        # If the schema changed, if only for a while, recorders fail or tell only half.
        with closing(self._reader(before)) as reader:
            return compare(reader, self._connection)

    def _reader(self, point: Point) -> apsw.Connection:
        file = MountedFile(self.snapshot.mapping)
        file.mount(point, stale=False)
        vfs = MountedVFS(file)
        return apsw.Connection("/main", flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs.name)

    def _unmount(self, mount: Mount) -> None:
        """Show nothing any more. Unless the branch took it, what was written is gone."""
        file = self._file
        if file.changed:
            self._cookie = file.cookie
        elif not file.stale:  # else nothing was read, and the cache is still another branch's
            self._held = mount.point
        file.unmount()
        self._mounted = None


def _cursors(connection: apsw.Connection) -> Iterator[apsw.Cursor]:
    """The open cursors of a connection, mostly half-read ones held by an exception's frames.

    SQLite lists statements only to C. This is rare enough to look through all objects instead.
    """
    for candidate in gc.get_objects():
        if isinstance(candidate, apsw.Cursor):
            with suppress(apsw.CursorClosedError):
                if candidate.connection is connection:
                    yield candidate

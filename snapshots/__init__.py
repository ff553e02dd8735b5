"""SQLite copy-on-write: immutable snapshots, branches of dirty pages, and their row changes."""

from snapshots.branch import Branch, History, Mark, Point
from snapshots.changeset import Changeset
from snapshots.deltas import decode_delta, encode_delta
from snapshots.errors import SnapshotsError
from snapshots.pages import PAGE_SIZE, PageDelta, Snapshot
from snapshots.rows import RowChange, SchemaChange
from snapshots.store import Recipe, SnapshotStore, TableRows, build_database
from snapshots.workspace import Mount, Workspace

__all__ = [
    "PAGE_SIZE",
    "Branch",
    "Changeset",
    "History",
    "Mark",
    "Mount",
    "PageDelta",
    "Point",
    "Recipe",
    "RowChange",
    "SchemaChange",
    "Snapshot",
    "SnapshotStore",
    "SnapshotsError",
    "TableRows",
    "Workspace",
    "build_database",
    "decode_delta",
    "encode_delta",
]

"""What can go wrong in ``snapshots``, each error with its fields and a ``hint`` at the mend.

Three callers are told apart: code that used a mounted connection in a way that would leak into
another branch (``MountFault``: the environment's fault), data that is damaged or foreign
(``DataFault``), and the library used out of order (``MisuseFault``).
"""

from __future__ import annotations


class SnapshotsError(Exception):
    """Base of every error raised by ``snapshots``. ``details`` holds the fields named below."""

    def __init__(self, message: str, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


# --- code that ran on a mounted connection ---------------------------------------------------


class MountFault(SnapshotsError):
    """Code on a mounted connection did what a shared connection cannot bear. Branch untouched."""


class StatementForbidden(MountFault):
    """A statement or connection method is denied here. Details: ``what``."""


class UncleanMount(MountFault):
    """The body left a transaction, statement or handle open; the workspace is broken now.

    Details: ``what``.
    """


class ReadOnlyViolated(MountFault):
    """A read-only mount was written to. Details: ``pages``."""


class NullInKey(MountFault):
    """A row with NULL in its primary key was written: such a row cannot be tracked.

    Details: ``table``.
    """


# --- damaged or foreign data -----------------------------------------------------------------


class DataFault(SnapshotsError):
    """Bytes that came from a file, a ledger or a worker are not what they should be."""


class BadDelta(DataFault):
    """A page delta does not fit the branch it is committed to: wrong number, size or header."""


class BranchDamaged(DataFault):
    """An encoded branch is cut, altered, or of an unknown version."""


class StateDamaged(DataFault):
    """The pages of a state are no database: a tree is broken, or a row in it cannot be read."""


class SnapshotMismatch(DataFault):
    """A branch or mark belongs to another snapshot. Details: ``expected``, ``found``."""


class MarkForeign(SnapshotMismatch):
    """A mark of another snapshot was given to ``Branch.rewind`` or ``Branch.changes``."""


class SnapshotInvalid(DataFault):
    """A file cannot serve as a snapshot (WAL header, page size, failed check)."""


class SnapshotMissing(DataFault):
    """The store has no snapshot of this digest. Details: ``digest``."""


class BuildFailed(DataFault):
    """A recipe does not build. Details: ``script`` or ``table`` with ``row``, ``statement``."""


class ChangesetInvalid(DataFault):
    """JSON that is no changeset, or two changesets that do not follow one another."""


class ChangesetConflict(DataFault):
    """A changeset does not fit the database it is applied to. Details: ``table``, ``key``."""


# --- the library used out of order -----------------------------------------------------------


class MisuseFault(SnapshotsError):
    """The library was used out of order; a bug of the caller."""


class WorkspaceBroken(MisuseFault):
    """The workspace was left unclean or closed; open another (or replace the process)."""


class NotMounted(MisuseFault):
    """The connection was used while no branch is mounted on it."""


class AlreadyMounted(MisuseFault):
    """A workspace serves one mount at a time."""


class BranchMoved(MisuseFault):
    """The branch was committed to, rewound or reset while it was mounted."""


class MarkUnreachable(MisuseFault):
    """A mark is no ancestor of the branch's head, so there are no changes since it."""

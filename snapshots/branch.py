"""A branch: a snapshot and the pages written since, with the row changes that led there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import zstandard

from snapshots.changeset import Changeset
from snapshots.errors import (
    BadDelta,
    BranchDamaged,
    MarkForeign,
    MarkUnreachable,
    SnapshotMismatch,
)
from snapshots.pages import PAGE_SIZE, Image, PageDelta, Snapshot, check_delta

_MAGIC = b"ENVHUB-BRANCH\x01"
_CHECKSUM_BYTES = 16


class History:
    """How a state came about, newest first: who changed what. Immutable, shared by forks."""

    __slots__ = ("changes", "label", "parent")

    def __init__(self, parent: History | None, label: str, changes: Changeset) -> None:
        self.parent = parent
        self.label = label
        self.changes = changes


class Point(Image):
    """One immutable state of a branch. Fork, mark and rewind only copy a reference to it."""

    __slots__ = ("history",)

    def __init__(
        self,
        pages: Mapping[int, bytes],
        size_bytes: int,
        base_pages: int,
        history: History | None = None,
    ) -> None:
        super().__init__(pages, size_bytes, base_pages)
        self.history = history

    @classmethod
    def of(cls, snapshot: Snapshot) -> Point:
        """The bare snapshot."""
        size_bytes = snapshot.size_bytes
        return cls({}, size_bytes, size_bytes // PAGE_SIZE)


class Mark(NamedTuple):
    """A point of a branch to rewind to, or to count changes from."""

    digest: str
    point: Point


class Store(Protocol):
    """Whatever opens snapshots by digest."""

    def open(self, digest: str) -> Snapshot: ...


class _Parked(msgspec.Struct, frozen=True):
    snapshot: str
    size_bytes: int
    base_pages: int
    pages: dict[int, bytes]


class Branch:
    """A mutable pointer to an immutable ``Point``. Cheap: at rest it is only its dirty pages."""

    __slots__ = ("_head", "snapshot")

    def __init__(self, snapshot: Snapshot, head: Point | None = None) -> None:
        self.snapshot = snapshot
        self._head = head or Point.of(snapshot)

    @property
    def head(self) -> Point:
        """The state the branch is in."""
        return self._head

    @property
    def dirty_pages(self) -> int:
        """How many pages the branch has of its own."""
        return len(self._head.pages)

    @property
    def dirty_bytes(self) -> int:
        return self.dirty_pages * PAGE_SIZE

    def __repr__(self) -> str:
        return f"Branch(of {self.snapshot!r}, {self.dirty_pages} dirty pages)"

    # --- moving the head ------------------------------------------------------------------------

    def reset(self) -> None:
        """Back to the bare snapshot, with no history."""
        self._head = Point.of(self.snapshot)

    def fork(self) -> Branch:
        """An independent branch in the same state, with the same history."""
        return Branch(self.snapshot, self._head)

    def mark(self) -> Mark:
        """The present state, to rewind to. Costs a reference, keeps the pages of this state."""
        return Mark(self.snapshot.digest, self._head)

    def rewind(self, mark: Mark) -> None:
        """Back (or forth) to a marked state.

        Raises:
            MarkForeign: the mark is of another snapshot.
        """
        self._own(mark)
        self._head = mark.point

    def commit(self, delta: PageDelta, commits: Sequence[tuple[str, Changeset]]) -> None:
        """Write ``delta`` over the head and note the labelled changes that it makes.

        Raises:
            BadDelta: the delta does not fit this branch, which stays as it was.
        """
        check_delta(delta, self._head)
        self.take(delta, commits)

    def take(self, delta: PageDelta, commits: Sequence[tuple[str, Changeset]]) -> None:
        """``commit`` of what was checked against this head, or written on it by this process."""
        head = self._head
        history = head.history
        for label, changes in commits:
            if changes:
                history = History(history, label, changes)
        base_pages = min(head.base_pages, delta.base_pages)
        self._head = Point(head.pages_after(delta), delta.size_bytes, base_pages, history)
        head.forget_what_follows()

    # --- what changed -----------------------------------------------------------------------------

    def entries(self, since: Mark | None = None) -> list[tuple[str, Changeset]]:
        """Every labelled change since ``since`` (or since the snapshot), oldest first, un-netted.

        Raises:
            MarkForeign: the mark is of another snapshot.
            MarkUnreachable: the head did not come from the mark's state.
        """
        return [(node.label, node.changes) for node in reversed(list(self._trail(since)))]

    def changes(self, since: Mark | None = None, label: str | None = None) -> Changeset:
        """Net changes since ``since`` (or since the snapshot), if asked only those of ``label``.

        Raises:
            MarkForeign, MarkUnreachable: as for ``entries``.
        """
        net = Changeset()
        for actor, changes in self.entries(since):
            if label is None or actor == label:
                net = net.concat(changes, gaps=label is not None)
        return net

    def _trail(self, since: Mark | None) -> Iterator[History]:
        if since is not None:
            self._own(since)
        end = since.point.history if since else None
        node = self._head.history
        while node is not end:
            if node is None:
                raise MarkUnreachable(
                    "the branch's state did not come from the mark's",
                    hint="rewind to the mark first, or take changes since the snapshot",
                )
            yield node
            node = node.parent

    def _own(self, mark: Mark) -> None:
        if mark.digest != self.snapshot.digest:
            raise MarkForeign(
                "the mark belongs to another snapshot",
                expected=self.snapshot.digest,
                found=mark.digest,
            )

    # --- to other places --------------------------------------------------------------------------

    def delta_from(self, known: Mapping[int, bytes] | None) -> dict[int, bytes]:
        """The head's pages that are not the very objects in ``known``: what a worker lacks.

        Pages in ``known`` that the head does not have must go; see ``head.pages``.
        """
        pages = self._head.pages
        if not known:
            return dict(pages)
        return {number: page for number, page in pages.items() if known.get(number) is not page}

    def encode(self) -> bytes:
        """The state as compressed bytes, for parking it or moving it. History is not in it."""
        head = self._head
        parked = _Parked(
            self.snapshot.digest, head.size_bytes, head.base_pages, dict(sorted(head.pages.items()))
        )
        payload = zstandard.compress(msgspec.msgpack.encode(parked), 3)
        return _MAGIC + blake2b(payload, digest_size=_CHECKSUM_BYTES).digest() + payload

    @classmethod
    def decode(cls, data: bytes, source: Snapshot | Store) -> Branch:
        """The branch that ``encode`` gave, on its snapshot or on the one a store finds for it.

        Raises:
            BranchDamaged: the bytes are cut, altered, or of an unknown version.
            SnapshotMismatch: the branch is of another snapshot than the one given.
            SnapshotMissing: the store does not have its snapshot.
        """
        parked = _unpack(data)
        snapshot = source if isinstance(source, Snapshot) else source.open(parked.snapshot)
        if snapshot.digest != parked.snapshot:
            raise SnapshotMismatch(
                "the branch belongs to another snapshot",
                expected=snapshot.digest,
                found=parked.snapshot,
            )
        delta = PageDelta(parked.pages, parked.size_bytes, parked.base_pages)
        try:
            check_delta(delta, Point.of(snapshot))
        except BadDelta as error:
            raise BranchDamaged(f"the branch does not fit its snapshot: {error}") from error
        return cls(snapshot, Point(parked.pages, parked.size_bytes, parked.base_pages))

    def flatten(self, path: Path) -> None:
        """Write the state to ``path`` as an ordinary SQLite file; replaces what is there."""
        head, base = self._head, self.snapshot.mapping
        shown = min(head.base_pages * PAGE_SIZE, head.size_bytes)
        with tempfile.TemporaryDirectory(prefix=path.name, dir=path.parent) as folder:
            beside = Path(folder) / path.name
            with beside.open("wb") as file:
                with memoryview(base) as view, view[:shown] as pages:
                    file.write(pages)
                file.truncate(head.size_bytes)
                for number, page in sorted(head.pages.items()):
                    file.seek(number * PAGE_SIZE)
                    file.write(page)
            beside.replace(path)


def _unpack(data: bytes) -> _Parked:
    start = len(_MAGIC)
    if data[: start - 1] != _MAGIC[:-1]:
        raise BranchDamaged("these bytes are no branch")
    if data[:start] != _MAGIC:
        raise BranchDamaged("the branch was encoded by another version")
    checksum, payload = data[start : start + _CHECKSUM_BYTES], data[start + _CHECKSUM_BYTES :]
    if blake2b(payload, digest_size=_CHECKSUM_BYTES).digest() != checksum:
        raise BranchDamaged("the branch's bytes are cut or altered")
    try:
        return msgspec.msgpack.decode(zstandard.decompress(payload), type=_Parked)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise BranchDamaged(f"the branch's bytes do not decode: {error}") from error

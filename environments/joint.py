"""Several databases that move as one: the state of a world.

A joint branch is a branch whose points hold a point of each member. Marks, forks and rewinds are
those of any branch; what a call wrote is a joint delta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from environments.names import shortened
from snapshots import (
    Branch,
    Changeset,
    Mark,
    PageDelta,
    Point,
    Snapshot,
    decode_delta,
    encode_delta,
)

_KEPT = msgspec.msgpack.Decoder(dict[str, bytes])


class JointPoint(Point):
    """One state of all members. Its own pages are none: those of the members are theirs."""

    __slots__ = ("members",)

    def __init__(self, members: Mapping[str, Point], like: Point) -> None:
        super().__init__({}, like.size_bytes, like.base_pages)
        self.members = members


class JointDelta(PageDelta, frozen=True):
    """What one call wrote, by member."""

    members: dict[str, PageDelta] = msgspec.field(default_factory=dict)

    def merge(self, later: PageDelta) -> PageDelta:
        assert isinstance(later, JointDelta)
        merged = dict(self.members)
        for name, delta in later.members.items():
            merged[name] = merged[name].merge(delta) if name in merged else delta
        return joint_delta(merged)


def joint_delta(members: dict[str, PageDelta]) -> JointDelta:
    """The deltas of some members as one."""
    return JointDelta({}, 0, 0, members)


class JointBranch(Branch):
    """The branches of a world's members, moved together. ``snapshot`` names the world."""

    __slots__ = ("_members",)

    def __init__(self, snapshot: Snapshot, members: Mapping[str, Branch]) -> None:
        self._members = dict(members)
        super().__init__(snapshot, self._joined())

    def member(self, name: str) -> Branch:
        """The branch of one member, in the state the world is in. It is not to be committed to."""
        branch = self._members[name]
        branch.rewind(Mark(branch.snapshot.digest, self._points[name]))
        return branch

    @property
    def _points(self) -> Mapping[str, Point]:
        head = self.head
        assert isinstance(head, JointPoint)
        return head.members

    def _joined(self) -> JointPoint:
        points = {name: branch.head for name, branch in self._members.items()}
        return JointPoint(points, next(iter(points.values())))

    @property
    def dirty_pages(self) -> int:
        return sum(len(point.pages) for point in self._points.values())

    def fork(self) -> JointBranch:
        return JointBranch(self.snapshot, {name: self.member(name).fork() for name in self._points})

    def commit(self, delta: PageDelta, commits: Sequence[tuple[str, Changeset]]) -> None:
        assert isinstance(delta, JointDelta)
        after = {name: self.member(name).fork() for name in self._points}
        for name, change in delta.members.items():
            after[name].commit(change, ())
        points = {name: branch.head for name, branch in after.items()}
        mark = Mark(self.snapshot.digest, JointPoint(points, next(iter(points.values()))))
        self.rewind(mark)

    def take(self, delta: PageDelta, commits: Sequence[tuple[str, Changeset]]) -> None:
        self.commit(delta, commits)

    def encode(self) -> bytes:
        return msgspec.msgpack.encode({name: self.member(name).encode() for name in self._points})


def decode_joint(data: bytes, snapshot: Snapshot, members: Mapping[str, Snapshot]) -> JointBranch:
    """The branch that ``JointBranch.encode`` gave. Raises ``BranchDamaged``."""
    kept = _KEPT.decode(data)
    branches = {name: Branch.decode(kept[name], members[name]) for name in members}
    return JointBranch(snapshot, branches)


def encode_joint_delta(delta: PageDelta, branch: Branch) -> bytes:
    """``delta`` by member, each as the difference against its branch."""
    assert isinstance(delta, JointDelta)
    assert isinstance(branch, JointBranch)
    return msgspec.msgpack.encode(
        {name: encode_delta(change, branch.member(name)) for name, change in delta.members.items()}
    )


def decode_joint_delta(data: bytes, branch: Branch) -> JointDelta:
    """The delta that ``encode_joint_delta`` was given. Raises ``BranchDamaged``."""
    assert isinstance(branch, JointBranch)
    kept = _KEPT.decode(data)
    return joint_delta(
        {name: decode_delta(change, branch.member(name)) for name, change in kept.items()}
    )


# --- names -----------------------------------------------------------------------------------


SEPARATOR = "__"


def joined(member: str, name: str) -> str:
    """The world's name for a table of a member."""
    return f"{member}{SEPARATOR}{name}"


def joined_tool(member: str, tool: str) -> str:
    """The world's name for a tool of a member: clients take no more than 40 characters."""
    return shortened(joined(member, tool))


def parted(name: str) -> tuple[str, str]:
    """The member and its own name; the member is empty for what is the world's."""
    member, separator, inner = name.partition(SEPARATOR)
    return (member, inner) if separator else ("", name)


def joined_changes(member: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A changeset of a member (as JSON), in the world's names."""
    return {joined(member, table): rows for table, rows in changes.items()}


def member_changes(member: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a changeset of the world says of one member, in the member's names."""
    parts = {parted(table): rows for table, rows in changes.items()}
    return {inner: rows for (owner, inner), rows in parts.items() if owner == member}

"""Branches: moving the head, telling changes, leaving for other places."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard

from snapshots import Branch, Changeset, PageDelta, Recipe, Snapshot, SnapshotStore, Workspace
from snapshots.errors import (
    BadDelta,
    BranchDamaged,
    MarkForeign,
    MarkUnreachable,
    SnapshotMismatch,
    SnapshotMissing,
)
from tests.snapshots.conftest import contents, rows, run

USES = "SELECT uses FROM tag ORDER BY name"


@pytest.fixture
def other(store: SnapshotStore) -> Snapshot:
    return store.build(Recipe(("CREATE TABLE t (a);",)))


# --- moving the head ----------------------------------------------------------------------------


def test_reset_fork_mark_and_rewind(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10")
    mark, fork = branch.mark(), branch.fork()
    run(workspace, branch, "UPDATE tag SET uses = 20")
    later = branch.mark()
    run(workspace, fork, "DELETE FROM tag")
    assert rows(workspace, branch, USES) == [(20,), (20,)]
    assert rows(workspace, fork, USES) == []
    branch.rewind(mark)
    assert rows(workspace, branch, USES) == [(10,), (10,)]
    branch.rewind(later)
    assert rows(workspace, branch, USES) == [(20,), (20,)]
    branch.reset()
    assert rows(workspace, branch, USES) == [(1,), (2,)]
    assert (branch.dirty_pages, branch.dirty_bytes) == (0, 0)
    assert fork.dirty_bytes == fork.dirty_pages * 4096 > 0


def test_fork_mark_and_rewind_copy_no_pages(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10")
    fork, mark = branch.fork(), branch.mark()
    assert fork.head is branch.head
    run(workspace, branch, "UPDATE tag SET uses = 11")
    branch.rewind(mark)
    assert branch.head is fork.head


def test_a_foreign_mark_is_refused(branch: Branch, other: Snapshot) -> None:
    mark = Branch(other).mark()
    with pytest.raises(MarkForeign) as caught:
        branch.rewind(mark)
    assert caught.value.details["found"] == other.digest
    with pytest.raises(MarkForeign):
        branch.changes(since=mark)


# --- changes --------------------------------------------------------------------------------------


def test_changes_since_a_mark_and_by_label(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10 WHERE name = 'new'")
    mark = branch.mark()
    with workspace.mount(branch, label="environment") as mount:
        mount.connection.execute("UPDATE tag SET uses = 5 WHERE name = 'old'")
    run(workspace, branch, "UPDATE tag SET uses = 11 WHERE name = 'new'", "DELETE FROM note")
    assert [label for label, _ in branch.entries()] == ["agent", "environment", "agent"]
    assert [label for label, _ in branch.entries(mark)] == ["environment", "agent"]

    def changed(changes: Changeset) -> list[object]:
        return [(c.key["name"], c.before, c.after) for c in changes.rows("tag")]

    new, old = ("new", {"uses": 1}, {"uses": 11}), ("old", {"uses": 2}, {"uses": 5})
    assert changed(branch.changes()) == [new, old]
    assert changed(branch.changes(since=mark)) == [("new", {"uses": 10}, {"uses": 11}), old]
    assert changed(branch.changes(label="agent")) == [new]
    assert changed(branch.changes(label="environment")) == [old]
    assert branch.changes(label="environment").tables == ("tag",)
    assert not branch.changes(label="fault")


def test_changes_of_one_label_bear_gaps(workspace: Workspace, branch: Branch) -> None:
    insert, delete = "INSERT INTO tag VALUES ('x', 1)", "DELETE FROM tag WHERE name = 'x'"
    run(workspace, branch, insert)
    with workspace.mount(branch, label="environment") as mount:
        mount.connection.execute(delete)
    run(workspace, branch, insert)
    assert [c.kind for c in branch.changes(label="agent").rows("tag")] == ["added"]


def test_a_mark_that_is_no_ancestor_has_no_changes_since(
    workspace: Workspace, branch: Branch
) -> None:
    start = branch.mark()
    run(workspace, branch, "UPDATE tag SET uses = 10")
    mark = branch.mark()
    branch.rewind(start)
    run(workspace, branch, "UPDATE tag SET uses = 10")
    with pytest.raises(MarkUnreachable):
        branch.changes(since=mark)
    assert len(branch.changes(since=start)) == 2


def test_a_fork_shares_the_history_before_it_and_none_after(
    workspace: Workspace, branch: Branch
) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10")
    mark, fork = branch.mark(), branch.fork()
    run(workspace, fork, "DELETE FROM note")
    assert len(fork.changes()) == 5
    assert len(fork.changes(since=mark)) == 3
    assert len(branch.changes()) == 2


# --- what a worker sends --------------------------------------------------------------------------


def forged(good: PageDelta, **fields: object) -> PageDelta:
    return msgspec.structs.replace(good, **fields)


def first_page(good: PageDelta, at: int, value: bytes) -> dict[int, bytes]:
    page = good.pages[0]
    return {**good.pages, 0: page[:at] + value + page[at + len(value) :]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: {"size_bytes": d.size_bytes + 1},
        lambda d: {"size_bytes": 0},
        lambda d: {"size_bytes": -4096},
        lambda d: {"size_bytes": d.size_bytes + 4096},
        lambda d: {"base_pages": 0},
        lambda d: {"base_pages": d.base_pages + 1},
        lambda d: {"pages": {**d.pages, -1: bytes(4096)}},
        lambda d: {"pages": {**d.pages, d.size_bytes // 4096: bytes(4096)}},
        lambda d: {"pages": {**d.pages, 1: b"short"}},
        lambda d: {"pages": first_page(d, 0, b"no database")},
        lambda d: {"pages": first_page(d, 16, b"\x20")},
        lambda d: {"pages": first_page(d, 18, b"\x02\x02")},
        lambda d: {"pages": first_page(d, 20, b"\x08")},
        lambda d: {"pages": first_page(d, 28, b"\x00\x00\x00\x01")},
        lambda d: {"pages": {1: bytes(4096)}, "size_bytes": d.size_bytes + 4096},
    ],
)
def test_a_delta_that_no_mount_gave_is_refused(
    workspace: Workspace, branch: Branch, spoil: Callable[[PageDelta], dict[str, object]]
) -> None:
    before = branch.fork()
    with workspace.mount(branch) as mount:
        mount.connection.execute("UPDATE tag SET uses = 10")
    head = before.head
    with pytest.raises(BadDelta):
        before.commit(forged(mount.delta, **spoil(mount.delta)), [("agent", mount.changes)])
    assert before.head is head
    before.commit(mount.delta, [("agent", mount.changes), ("environment", Changeset())])
    assert [label for label, _ in before.entries()] == ["agent"]


def test_deltas_travel_and_merge(workspace: Workspace, branch: Branch) -> None:
    start, deltas = branch.fork(), []
    for number in range(3):
        with workspace.mount(branch) as mount:
            mount.connection.execute("INSERT INTO note VALUES (hex(zeroblob(3000)), ?)", (number,))
        wire = msgspec.msgpack.encode(mount.delta)
        deltas.append(msgspec.msgpack.decode(wire, type=PageDelta))
    start.commit(deltas[0].merge(deltas[1]).merge(deltas[2]), [])
    assert start.head.pages == branch.head.pages
    assert start.head.size_bytes == branch.head.size_bytes


def test_deltas_that_shrink_and_grow_merge_too(
    free_workspace: Workspace, branch: Branch, plain: Callable[[Branch], sqlite3.Connection]
) -> None:
    grow = [f"INSERT INTO note VALUES (hex(zeroblob(9000)), {n})" for n in range(20)]
    steps = [grow, ["DELETE FROM item", "DELETE FROM note", "VACUUM"], grow[:7]]
    start, merged = branch.fork(), None
    for step in steps:
        with free_workspace.mount(branch) as mount:
            for statement in step:
                mount.connection.execute(statement).fetchall()
        merged = merged.merge(mount.delta) if merged else mount.delta
    assert merged is not None
    start.commit(merged, [])
    assert contents(plain(start)) == contents(plain(branch))
    assert rows(free_workspace, start, "PRAGMA integrity_check") == [("ok",)]


def test_delta_from_names_the_pages_a_worker_lacks(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10")
    known = dict(branch.head.pages)
    assert branch.delta_from(None) == known
    assert branch.delta_from(known) == {}
    run(workspace, branch, "DELETE FROM note")
    lacking = branch.delta_from(known)
    assert 0 < len(lacking) < branch.dirty_pages
    assert {**known, **lacking} == branch.head.pages


# --- parking and flattening -----------------------------------------------------------------------


def test_a_parked_branch_comes_back(
    workspace: Workspace, branch: Branch, store: SnapshotStore
) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10", "DELETE FROM note")
    data = branch.encode()
    assert data == branch.fork().encode()
    assert len(data) < branch.dirty_bytes / 2
    for source in (store, branch.snapshot):
        back = Branch.decode(data, source)
        assert back.head.pages == branch.head.pages
        assert rows(workspace, back, USES) == [(10,), (10,)]
        assert back.entries() == []
        mark = back.mark()
        run(workspace, back, "DELETE FROM tag")
        assert len(back.changes(since=mark)) == 2


def test_damaged_bytes_are_refused(workspace: Workspace, branch: Branch) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10")
    data, snapshot = branch.encode(), branch.snapshot
    for cut in range(0, len(data), 7):
        with pytest.raises(BranchDamaged):
            Branch.decode(data[:cut], snapshot)
    for at in range(0, len(data), 5):
        altered = data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]
        with pytest.raises(BranchDamaged):
            Branch.decode(altered, snapshot)
    with pytest.raises(BranchDamaged, match="another version"):
        Branch.decode(data.replace(b"BRANCH\x01", b"BRANCH\x09"), snapshot)


def test_foreign_and_orphaned_bytes_are_refused(
    branch: Branch, other: Snapshot, tmp_path: Path
) -> None:
    with pytest.raises(SnapshotMismatch):
        Branch.decode(branch.encode(), other)
    with pytest.raises(SnapshotMissing):
        Branch.decode(branch.encode(), SnapshotStore(tmp_path))


def test_bytes_of_another_file_under_the_same_digest_are_refused(
    workspace: Workspace, branch: Branch, other: Snapshot
) -> None:
    run(workspace, branch, "UPDATE tag SET uses = 10")
    impostor = Snapshot.open(other.path, branch.snapshot.digest)
    with pytest.raises(BranchDamaged, match="does not fit"):
        Branch.decode(branch.encode(), impostor)


def test_the_checksum_covers_what_zstd_would_accept(branch: Branch) -> None:
    data = branch.encode()
    payload = zstandard.compress(b"\x81")
    with pytest.raises(BranchDamaged):
        Branch.decode(data[:30] + payload, branch.snapshot)


def test_a_flattened_branch_is_an_ordinary_file(
    workspace: Workspace, branch: Branch, tmp_path: Path
) -> None:
    run(
        workspace,
        branch,
        "UPDATE tag SET uses = 10",
        *(f"INSERT INTO note VALUES (hex(zeroblob(4000)), {n})" for n in range(9)),
    )
    path = tmp_path / "flat.sqlite"
    path.write_text("something older")
    branch.flatten(path)
    connection = sqlite3.connect(path)
    assert connection.execute(USES).fetchall() == [(10,), (10,)]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("SELECT count(*) FROM words('laptop')").fetchall() == [(1,)]
    connection.close()
    assert [found.name for found in tmp_path.iterdir()] == ["flat.sqlite"]

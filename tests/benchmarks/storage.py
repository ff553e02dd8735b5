"""The storage alone: reset, fork, resting memory, and what changes cost, without a server."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from snapshots import Branch, Changeset, Recipe, Snapshot, SnapshotStore, Workspace
from snapshots.store import TableRows
from tests.benchmarks.rows import Row, faster, median_us

TABLES = 20
RESTING = 10_000
CLOCK_MS = 1_767_600_000_000
UPDATE = "UPDATE t3 SET quantity = quantity + 1, status = 'closed' WHERE id = ?"
READ = "SELECT id, name, price FROM t3 WHERE id = ?"


def recipe(rows_per_table: int, tables: int = TABLES) -> Recipe:
    """A database of ``tables`` tables with an index each; 100 rows a table is about 400 KiB."""
    scripts = [
        f"""CREATE TABLE t{number} (
              id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, quantity INTEGER NOT NULL,
              status TEXT NOT NULL, created_at TEXT NOT NULL
            );
            CREATE INDEX t{number}_status ON t{number}(status);"""
        for number in range(tables)
    ]
    columns = ("id", "name", "price", "quantity", "status", "created_at")
    rows = tuple(
        TableRows(
            f"t{number}",
            columns,
            tuple(
                (key, f"article {number}/{key} ".ljust(60, "x"), key * 1.5, key % 7,
                 "open" if key % 3 else "closed", "2026-01-05T09:00:00Z")
                for key in range(1, rows_per_table + 1)
            ),
        )
        for number in range(tables)
    )  # fmt: skip
    return Recipe(scripts=tuple(scripts), rows=rows, clock_ms=CLOCK_MS)


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="envhub-bench-") as folder:
        store = SnapshotStore(Path(folder))
        snapshot = store.build(recipe(100))
        yield from reset_and_fork(snapshot)
        yield from changes_against_size(store, snapshot)
        yield resting_memory(snapshot)


def reset_and_fork(snapshot: Snapshot) -> Iterator[Row]:
    workspace = Workspace(snapshot)
    branch = Branch(snapshot)

    def reset_and_read() -> None:
        branch.reset()
        with workspace.mount(branch, clock_ms=CLOCK_MS, read_only=True) as mount:
            mount.connection.execute(READ, (57,)).fetchall()

    def dirty() -> None:
        with workspace.mount(branch, clock_ms=CLOCK_MS) as mount:
            mount.connection.execute(UPDATE, (57,))

    ours = median_us(reset_and_read)
    after_write = median_us(reset_and_read, before=dirty)
    copied = median_us(copy_and_read(snapshot), times=300)
    deserialized = median_us(deserialize_and_read(snapshot), times=500)
    yield faster("reset + first read, against file copy + open", ours, copied, ">= 30")
    yield faster("reset + first read, against deserialize", ours, deserialized, ">= 15")
    yield faster("reset of a dirty branch + first read, against file copy", after_write, copied)

    dirty()
    fork = median_us(branch.fork)
    yield faster("fork of a dirty branch, against file copy + open", fork, copied)
    episodes = [branch.fork() for _ in range(1000)]
    turns = iter(episodes * 6)

    def in_turn() -> None:
        with workspace.mount(next(turns), clock_ms=CLOCK_MS) as mount:
            mount.connection.execute(UPDATE, (57,))
            mount.connection.execute(READ, (57,)).fetchall()

    turn = median_us(in_turn, times=4000)
    plain = sqlite3.connect(":memory:", isolation_level=None)
    plain.deserialize(snapshot.path.read_bytes())
    private = median_us(lambda: (plain.execute(UPDATE, (57,)), plain.execute(READ, (57,))))
    plain.close()
    yield faster(
        "1,000 branches in turn: mount + update + read + changes, against one private connection",
        turn,
        private,
    )
    workspace.close()


def copy_and_read(snapshot: Snapshot):  # type: ignore[no-untyped-def]
    target = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())
    target = target / f"envhub-bench-{os.getpid()}.sqlite"

    def work() -> None:
        shutil.copyfile(snapshot.path, target)
        connection = sqlite3.connect(target)
        connection.execute(READ, (57,)).fetchall()
        connection.close()
        target.unlink()

    return work


def deserialize_and_read(snapshot: Snapshot):  # type: ignore[no-untyped-def]
    image = snapshot.path.read_bytes()

    def work() -> None:
        connection = sqlite3.connect(":memory:")
        connection.deserialize(image)
        connection.execute(READ, (57,)).fetchall()
        connection.close()

    return work


def changes_against_size(store: SnapshotStore, small: Snapshot) -> Iterator[Row]:
    """One update and its changeset on about 0.5 MB and on about 50 MB."""
    large = store.build(recipe(21_000))
    costs = []
    for snapshot in (small, large):
        workspace, branch = Workspace(snapshot), Branch(snapshot)

        def update(workspace: Workspace = workspace, branch: Branch = branch) -> Changeset:
            branch.reset()
            with workspace.mount(branch, clock_ms=CLOCK_MS) as mount:
                mount.connection.execute(UPDATE, (57,))
            return mount.changes

        assert len(update()) == 1
        costs.append(median_us(update))
        workspace.close()
    yield Row(
        name=f"changes after one update, {large.size_bytes / 1e6:.0f} MB against "
        f"{small.size_bytes / 1e6:.1f} MB",
        value=round(costs[1], 2),
        unit="us",
        baseline=round(costs[0], 2),
        ratio=round(costs[1] / costs[0], 2),
        target="<= 1.5",
    )


def resting_memory(snapshot: Snapshot) -> Row:
    """Memory of resting branches with about 5 dirty pages, against a private copy of the file."""
    workspace = Workspace(snapshot)

    def played(number: int) -> Branch:
        branch = Branch(snapshot)
        with workspace.mount(branch, clock_ms=CLOCK_MS, record=False) as mount:
            for table in range(2):
                mount.connection.execute(
                    f"UPDATE t{table} SET status = 'busy', quantity = ? WHERE id = ?",
                    (number, 1 + number % 90),
                )
        return branch

    gc.collect()
    before = resident_bytes()
    branches = [played(number) for number in range(RESTING)]
    gc.collect()
    used = resident_bytes() - before
    pages = sum(branch.dirty_pages for branch in branches) / RESTING
    workspace.close()
    copies = snapshot.size_bytes * RESTING
    return Row(
        name=f"{RESTING:,} resting branches with {pages:.1f} dirty pages, against file copies",
        value=round(used / 1e6, 1),
        unit="MB",
        baseline=round(copies / 1e6, 1),
        ratio=round(copies / used, 1),
        target="< 600 MB",
    )


def resident_bytes() -> int:
    """Resident memory of this process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

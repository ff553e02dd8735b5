"""Files past one gibibyte, where SQLite leaves out the page it locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapshots import PAGE_SIZE, Branch, PageDelta, Recipe, Snapshot, Workspace, build_database
from snapshots.errors import BadDelta
from snapshots.pages import LOCK_PAGE
from tests.snapshots.conftest import rows, run


@pytest.fixture
def huge(tmp_path: Path) -> Snapshot:
    """A snapshot that ends three pages before the lock page; nearly all of it is a hole."""
    path = tmp_path / "huge.sqlite"
    build_database(Recipe(("CREATE TABLE t (a);",)), path)
    count = LOCK_PAGE - 3
    with path.open("r+b") as file:
        file.seek(28)
        file.write(count.to_bytes(4, "big"))
    os.truncate(path, count * PAGE_SIZE)
    return Snapshot.open(path, "0" * 64)


def test_the_lock_page_is_never_written(huge: Snapshot) -> None:
    workspace, branch = Workspace(huge), Branch(huge)
    run(workspace, branch, *["INSERT INTO t VALUES (hex(randomblob(2000)))"] * 9)
    assert {LOCK_PAGE - 1, LOCK_PAGE + 1} <= set(branch.head.pages)
    assert LOCK_PAGE not in branch.head.pages
    assert branch.head.size_bytes > 0x40000000 + PAGE_SIZE
    assert rows(workspace, branch, "SELECT count(*), sum(length(a)) FROM t") == [(9, 36000)]
    back = Branch.decode(branch.encode(), huge)
    assert rows(workspace, back, "SELECT sum(length(a)) FROM t") == [(36000,)]
    workspace.close()


def test_a_delta_with_the_lock_page_is_refused(huge: Snapshot) -> None:
    workspace, branch = Workspace(huge), Branch(huge)
    before = branch.fork()
    with workspace.mount(branch) as mount:
        for _ in range(9):
            mount.connection.execute("INSERT INTO t VALUES (hex(randomblob(2000)))")
    pages = {**mount.delta.pages, LOCK_PAGE: bytes(PAGE_SIZE)}
    with pytest.raises(BadDelta, match="out of range"):
        before.commit(PageDelta(pages, mount.delta.size_bytes, mount.delta.base_pages), [])
    workspace.close()

"""A small shop in a snapshot, and a plain SQLite copy of any branch to compare with."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from snapshots import Branch, Recipe, Snapshot, SnapshotStore, TableRows, Workspace

settings.register_profile("evidence")

SHOP = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stock INTEGER, price REAL,
                   doubled INTEGER GENERATED ALWAYS AS (stock * 2) STORED,
                   label TEXT AS (name || '!') VIRTUAL, picture BLOB);
CREATE TABLE sale (id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL
                   REFERENCES item (id) ON DELETE CASCADE, sold_at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE note (text TEXT, stars INTEGER);
CREATE TABLE place (region TEXT NOT NULL, shelf INTEGER NOT NULL, item INTEGER,
                    PRIMARY KEY (region, shelf)) WITHOUT ROWID;
CREATE TABLE tag (name TEXT PRIMARY KEY, uses INTEGER);
CREATE TABLE audit (id INTEGER PRIMARY KEY, what TEXT);
CREATE INDEX sale_by_item ON sale (item);
CREATE TRIGGER item_renamed AFTER UPDATE OF name ON item
  BEGIN INSERT INTO audit (what) VALUES (old.name || ' -> ' || new.name); END;
CREATE VIRTUAL TABLE words USING fts5 (body);
"""


def shop(items: int = 60, *, virtual: bool = True) -> Recipe:
    """``virtual`` decides which recorder a workspace has: with it a session, without it a hook."""
    script = SHOP if virtual else SHOP.replace("VIRTUAL,", "STORED,")
    rows = tuple((n, f"item {n}", n % 7, n * 1.5, bytes([n % 256])) for n in range(1, items + 1))
    return Recipe(
        scripts=(script,),
        rows=(
            TableRows("sale", ("item",), tuple((n,) for n in range(1, items + 1, 3))),
            TableRows("item", ("id", "name", "stock", "price", "picture"), rows),
            TableRows("note", ("text", "stars"), (("good", 5), ("bad", 1), ("good", 5))),
            TableRows("place", ("region", "shelf", "item"), (("north", 1, 1), ("south", 1, 2))),
            TableRows("tag", ("name", "uses"), (("new", 1), ("old", 2))),
            TableRows("words", ("body",), (("a laptop in stock",), ("a desk",))),
        ),
        clock_ms=1_700_000_000_000,
    )


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> SnapshotStore:
    return SnapshotStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session", params=["session", "hook"])
def snapshot(store: SnapshotStore, request: pytest.FixtureRequest) -> Snapshot:
    return store.build(shop(virtual=request.param == "session"))


@pytest.fixture
def workspace(snapshot: Snapshot) -> Iterator[Workspace]:
    opened = Workspace(snapshot)
    yield opened
    opened.close()


@pytest.fixture
def free_workspace(snapshot: Snapshot) -> Iterator[Workspace]:
    """One where the schema may change."""
    opened = Workspace(snapshot, allow_ddl=True)
    yield opened
    opened.close()


@pytest.fixture
def branch(snapshot: Snapshot) -> Branch:
    return Branch(snapshot)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Callable[[Branch], sqlite3.Connection]]:
    """Opens a branch's state as an ordinary file, with the standard library's SQLite."""
    opened: list[sqlite3.Connection] = []

    def flat(branch: Branch) -> sqlite3.Connection:
        path = tmp_path / f"flat-{len(opened)}.sqlite"
        branch.flatten(path)
        opened.append(sqlite3.connect(path, isolation_level=None))
        return opened[-1]

    yield flat
    for connection in opened:
        connection.close()


class Raised(Exception):
    """What a body fails with."""


def rows(workspace: Workspace, branch: Branch, sql: str) -> list[tuple[Any, ...]]:
    """What a query answers on a branch."""
    with workspace.mount(branch, read_only=True) as mount:
        return mount.connection.execute(sql).fetchall()


def run_and_raise(
    workspace: Workspace,
    branch: Branch,
    *statements: str,
    keep: bool = False,
    error: type[BaseException] = Raised,
) -> None:
    """A mount that runs the statements and then fails."""
    with workspace.mount(branch) as mount:
        if keep:
            mount.keep_on_error()
        for statement in statements:
            mount.connection.execute(statement).fetchall()
        raise error


def run(workspace: Workspace, branch: Branch, *statements: str) -> dict[str, Any]:
    """The changes, as JSON, of a mount that runs the statements."""
    with workspace.mount(branch) as mount:
        for statement in statements:
            mount.connection.execute(statement).fetchall()
    return mount.changes.to_json()


def contents(connection: Any) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every ordinary table, and the schema."""
    execute = connection.execute
    tables = [
        name
        for _, name, kind, *_ in execute("PRAGMA main.table_list").fetchall()
        if kind == "table" and not name.startswith("sqlite_")
    ]
    found = {
        name: sorted(execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in tables
    }
    found["sqlite_schema"] = sorted(
        execute("SELECT type, name, sql FROM sqlite_schema").fetchall(), key=repr
    )
    return found

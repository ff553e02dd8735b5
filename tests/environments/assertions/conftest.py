"""A small shop in real SQLite: run SQL on a branch and judge what it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from environments.assertions import Assertions, TableInfo
from environments.trajectory import Component
from snapshots import Branch, Recipe, SnapshotStore, Workspace

SCHEMA = """
CREATE TABLE users (id TEXT PRIMARY KEY NOT NULL, name TEXT, email TEXT);
CREATE TABLE orders (
  id TEXT PRIMARY KEY NOT NULL, user_id TEXT REFERENCES users(id), status TEXT NOT NULL,
  total REAL, note TEXT, tags TEXT, updated_at TEXT
);
CREATE TABLE lines (
  order_id TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
  PRIMARY KEY (order_id, sku)
);
CREATE TABLE stock (sku TEXT PRIMARY KEY NOT NULL, on_hand INTEGER, reserved INTEGER);
CREATE TABLE log (id INTEGER PRIMARY KEY NOT NULL, what TEXT, order_id TEXT);
INSERT INTO users VALUES ('u_1', 'Ann Lee', 'ann@x.org'), ('u_3', 'Bo', 'bo@x.org');
INSERT INTO orders VALUES
  ('o_17', 'u_1', 'pending', 25.0, NULL, '["new"]', '2026-01-01'),
  ('o_18', 'u_3', 'pending', 99.5, 'Ring twice', '["old", "vip"]', '2026-01-01'),
  ('o_19', 'u_3', 'shipped', 10.0, NULL, NULL, '2026-01-01');
INSERT INTO lines VALUES ('o_17', 'LT-14', 1), ('o_18', 'LT-14', 2);
INSERT INTO stock VALUES ('LT-14', 7, 1), ('MS-02', 40, 0);
"""

TABLES = {
    "users": TableInfo(("id", "name", "email"), ("id",)),
    "orders": TableInfo(
        ("id", "user_id", "status", "total", "note", "tags", "updated_at"), ("id",)
    ),
    "lines": TableInfo(("order_id", "sku", "quantity"), ("order_id", "sku")),
    "stock": TableInfo(("sku", "on_hand", "reserved"), ("sku",)),
    "log": TableInfo(("id", "what", "order_id"), ("id",)),
}

Judge = Callable[..., dict[str, Component]]


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder: Path = tmp_path_factory.mktemp("shop")
    workspace = Workspace(SnapshotStore(folder).build(Recipe((SCHEMA,))), allow_ddl=True)
    yield workspace
    workspace.close()


@pytest.fixture
def judge(shop: Workspace) -> Judge:
    """``judge(verifier, sql, answer)``: the components by name, after ``sql`` ran as the agent."""

    def initial(table: str, key: Mapping[str, Any]) -> dict[str, Any] | None:
        where = " AND ".join(f'"{name}" = ?' for name in key)
        with shop.mount(Branch(shop.snapshot), read_only=True) as mounted:
            cursor = mounted.connection.execute(
                f'SELECT * FROM "{table}" WHERE {where}', tuple(key.values())
            )
            names = TABLES[table].columns
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
        return rows[0] if rows else None

    def run(
        verifier: Mapping[str, Any], sql: str = "", answer: str | None = None
    ) -> dict[str, Component]:
        branch = Branch(shop.snapshot)
        if sql:
            with shop.mount(branch, label="agent") as mounted:
                mounted.connection.execute(sql).fetchall()
        parsed = Assertions.parse(verifier, TABLES)
        components = parsed.evaluate(branch.changes(label="agent"), initial, answer)
        assert len({component.name for component in components}) == len(components)
        return {component.name: component for component in components}

    return run

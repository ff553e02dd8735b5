"""A shop with tasks of every kind of verifier, played by real workers."""

from __future__ import annotations

import json
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from environments.environment import Environment, open_environments
from environments.sandbox.host import SandboxLimits
from environments.verifier.judge import Judge

SCHEMA = """
CREATE TABLE orders (id TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL, total REAL);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, orders INTEGER NOT NULL);
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT);
CREATE TABLE notes (body TEXT);
CREATE TABLE prices (sku TEXT NOT NULL PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE entries (name TEXT NOT NULL PRIMARY KEY, value TEXT);
CREATE INDEX orders_by_status ON orders (status);
CREATE TRIGGER cancelled AFTER UPDATE OF status ON orders
  BEGIN INSERT INTO audit (what) VALUES (new.id || ' is ' || new.status); END;
"""
DATA = """
INSERT INTO orders VALUES ('o-1', 'pending', 12.5), ('o-2', 'pending', 3), ('o-3', 'shipped', 99);
INSERT INTO customers VALUES (1, 'Ann Lee', 2), (2, 'Bo', 1);
INSERT INTO prices VALUES ('tea', 450), ('cup', 1200);
"""
TOOLS = '''
from environments.authoring import Database, ToolError, tool

@tool(read_only=True)
def find(db: Database, id: str) -> dict:
    """An order."""
    row = db.one("SELECT * FROM orders WHERE id = ?", id)
    if row is None:
        raise ToolError("NO_SUCH_ORDER", f"there is no {id}")
    return row

@tool(read_only=True)
def open_orders(db: Database) -> list[str]:
    """Orders that are pending."""
    return [r["id"] for r in db.rows("SELECT id FROM orders WHERE status = 'pending' ORDER BY id")]

@tool(read_only=False)
def cancel(db: Database, id: str) -> dict:
    """Cancel an order."""
    if not db.run("UPDATE orders SET status = 'cancelled' WHERE id = ?", id):
        raise ToolError("NO_SUCH_ORDER", f"there is no {id}")
    return {"id": id}

@tool(read_only=False)
def note(db: Database, body: str) -> dict:
    """Write something down."""
    return {"row": db.insert("notes", body=body)}

@tool(read_only=False)
def charge(db: Database, id: str, amount: float) -> dict:
    """Add to the total."""
    db.run("UPDATE orders SET total = total + ? WHERE id = ?", amount, id)
    return {}
'''
EVENTS = [
    {
        "id": "dearer",
        "at": "2026-01-05T12:00:00Z",
        "statements": ["UPDATE prices SET cents = cents + 50"],
    }
]
CANCELLED = {
    "expect": [{"table": "orders", "where": {"id": "o-1"}, "set": {"status": "cancelled"}}],
    "allow": [{"table": "audit", "change": "added"}],
}
ORACLE = [{"tool": "cancel", "arguments": {"id": "o-1"}}]

HEAD = 'name = "shop"\nversion = "1"\ntitle = "Shop"\nsummary = "A shop"\n'

Shop = Callable[..., Awaitable[Environment]]


def task(verifier: dict[str, Any], id: str = "t", **fields: Any) -> dict[str, Any]:
    return {"id": id, "instruction": "Cancel o-1.", "verifier": verifier, **fields}


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """``await shop(task, ..., code=..., tools=..., limits=...)``: an opened environment."""
    async with AsyncExitStack() as stack:

        async def make(
            *tasks: dict[str, Any],
            code: str = "",
            tools: str = "",
            manifest: str = "",
            limits: SandboxLimits | None = None,
            judge: Judge | None = None,
        ) -> Environment:
            folder = tmp_path / "packs" / "shop"
            folder.mkdir(parents=True)
            files = {
                "environment.toml": HEAD + manifest,
                "schema.sql": SCHEMA,
                "data.sql": DATA,
                "tools.py": TOOLS + textwrap.dedent(tools),
                "events.jsonl": "".join(f"{json.dumps(event)}\n" for event in EVENTS),
                "tasks.jsonl": "".join(f"{json.dumps(each)}\n" for each in tasks),
            }
            if code:
                files["verifiers.py"] = textwrap.dedent(code)
            for name, text in files.items():
                (folder / name).write_text(text)
            environments = await stack.enter_async_context(
                open_environments([folder], limits=limits, judge=judge)
            )
            return await environments.get("shop")

        yield make

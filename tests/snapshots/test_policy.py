"""What SQL is refused, by name, and what ordinary programs may still do."""

from __future__ import annotations

import apsw
import pytest

from snapshots import Branch, Workspace
from snapshots.errors import StatementForbidden
from tests.snapshots.conftest import run

ALWAYS: list[tuple[str, str | None]] = [
    ("ATTACH ':memory:' AS other", "ATTACH"),
    ("ATTACH '' AS other", "ATTACH"),
    ("DETACH main", "DETACH"),
    ("VACUUM INTO '/tmp/never.sqlite'", "VACUUM"),
    ("SELECT load_extension('x')", "load_extension()"),
    ("PRAGMA writable_schema = on", "PRAGMA writable_schema=on"),
    ("PRAGMA schema_version = 7", "PRAGMA schema_version=7"),
    ("PRAGMA user_version = 7", "PRAGMA user_version=7"),
    ("PRAGMA journal_mode = wal", "PRAGMA journal_mode=wal"),
    ("PRAGMA Synchronous = full", "PRAGMA synchronous=full"),
    ("PRAGMA foreign_keys = off", "PRAGMA foreign_keys=off"),
    ("PRAGMA optimize", "PRAGMA optimize"),
    ("PRAGMA incremental_vacuum", "PRAGMA incremental_vacuum"),
    ("PRAGMA temp_store = 0", "PRAGMA temp_store=0"),
    ("PRAGMA mmap_size = 1000000", "PRAGMA mmap_size=1000000"),
    ("PRAGMA unheard_of", "PRAGMA unheard_of"),
    ("CREATE TEMP TABLE t (a)", "CREATE TEMP TABLE"),
    ("CREATE TEMP VIEW v AS SELECT 1", "CREATE TEMP VIEW"),
    ("ANALYZE", "ANALYZE"),
]
FIXED_SCHEMA: list[tuple[str, str | None]] = [
    ("CREATE TABLE t (a)", "CREATE TABLE t"),
    ("CREATE TABLE t AS SELECT 1", "CREATE TABLE t"),
    ("DROP TABLE note", "DROP TABLE note"),
    ("ALTER TABLE note ADD COLUMN a", "ALTER TABLE main"),
    ("CREATE INDEX i ON note (stars)", "CREATE INDEX i"),
    ("DROP INDEX sale_by_item", "DROP INDEX sale_by_item"),
    ("CREATE TRIGGER t AFTER INSERT ON note BEGIN SELECT 1; END", "CREATE TRIGGER t"),
    ("DROP TRIGGER item_renamed", "DROP TRIGGER item_renamed"),
    ("CREATE VIEW v AS SELECT 1", "CREATE VIEW v"),
    ("CREATE VIRTUAL TABLE f USING fts5 (a)", "CREATE VIRTUAL TABLE f"),
    ("REINDEX note", None),
    ("VACUUM", "VACUUM"),
]


@pytest.mark.parametrize(("sql", "what"), ALWAYS + FIXED_SCHEMA)
def test_refused_where_the_schema_is_fixed(
    workspace: Workspace, branch: Branch, sql: str, what: str | None
) -> None:
    with workspace.mount(branch) as mount:
        if what is None:  # no index, nothing to judge
            mount.connection.execute(sql).fetchall()
            return
        with pytest.raises(StatementForbidden) as caught:
            mount.connection.execute(sql).fetchall()
    assert caught.value.details["what"] == what
    assert what in str(caught.value)
    assert caught.value.hint
    assert branch.dirty_pages == 0


@pytest.mark.parametrize(("sql", "what"), ALWAYS)
def test_refused_where_the_schema_may_change(
    free_workspace: Workspace, branch: Branch, sql: str, what: str
) -> None:
    with free_workspace.mount(branch) as mount, pytest.raises(StatementForbidden) as caught:
        mount.connection.execute(sql).fetchall()
    assert caught.value.details["what"] == what


@pytest.mark.parametrize(("sql", "what"), FIXED_SCHEMA)
def test_allowed_where_the_schema_may_change(
    free_workspace: Workspace, branch: Branch, sql: str, what: str | None
) -> None:
    run(free_workspace, branch, sql)
    assert branch.dirty_pages or what is None


@pytest.mark.parametrize(
    "sql",
    [
        "PRAGMA foreign_keys = ON",  # what it is anyway
        "PRAGMA foreign_keys",
        "PRAGMA table_info(item)",
        "PRAGMA TABLE_XINFO(item)",
        "SELECT name FROM pragma_table_info('item')",
        "PRAGMA foreign_key_check(sale)",
        "PRAGMA integrity_check",
        "PRAGMA user_version",
        "PRAGMA journal_mode",
        "BEGIN; SAVEPOINT a; RELEASE a; COMMIT",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<9) SELECT * FROM n",
        "DELETE FROM sqlite_sequence WHERE name = 'nobody'",
        "EXPLAIN QUERY PLAN SELECT * FROM item",
        "SELECT json_extract('[1]', '$[0]'), printf('%d', 1), abs(-1)",
    ],
)
def test_ordinary_statements_are_allowed(workspace: Workspace, branch: Branch, sql: str) -> None:
    run(workspace, branch, sql)


def test_a_refused_statement_leaves_the_rest_of_the_body_alone(
    workspace: Workspace, branch: Branch
) -> None:
    with workspace.mount(branch) as mount:
        mount.connection.execute("UPDATE tag SET uses = 4")
        with pytest.raises(StatementForbidden):
            mount.connection.execute("DROP TABLE tag")
        assert mount.connection.execute("SELECT DISTINCT uses FROM tag").fetchall() == [(4,)]
    assert len(mount.changes) == 2


@pytest.mark.parametrize(
    "sql",
    ["UPDATE sqlite_schema SET sql = ''", "INSERT INTO words_data VALUES (1, x'00')"],
)
def test_the_schema_and_shadow_tables_cannot_be_written(
    free_workspace: Workspace, branch: Branch, sql: str
) -> None:
    with free_workspace.mount(branch) as mount, pytest.raises(apsw.SQLError, match="may not be"):
        mount.connection.execute(sql)

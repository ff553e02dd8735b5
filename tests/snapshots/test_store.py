"""Building snapshots, and keeping them."""

from __future__ import annotations

import gc
import sqlite3
from pathlib import Path

import msgspec
import pytest

from snapshots import Branch, Recipe, Snapshot, SnapshotStore, TableRows, Workspace, build_database
from snapshots.errors import BuildFailed, SnapshotInvalid, SnapshotMissing
from tests.snapshots.conftest import rows, shop

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n"


# --- building -------------------------------------------------------------------------------------


def test_two_builds_are_the_same_to_the_byte(tmp_path: Path) -> None:
    recipe = Recipe(
        (
            TABLE + "CREATE TABLE u (at DEFAULT CURRENT_TIMESTAMP, r DEFAULT (random()), b);",
            "INSERT INTO u (b) VALUES (randomblob(9)), (datetime('now'));",
        ),
        clock_ms=1_000_000_000_000,
        seed=5,
    )
    for name in ("a", "b"):
        build_database(recipe, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    connection = sqlite3.connect(tmp_path / "a")
    assert connection.execute("SELECT DISTINCT at FROM u").fetchall() == [("2001-09-09 01:46:40",)]
    connection.close()


def test_the_digest_follows_every_part_of_the_recipe() -> None:
    recipe = Recipe((TABLE,), (TableRows("t", ("id", "name"), ((1, "a"),)),))
    others = [
        msgspec.structs.replace(recipe, scripts=(TABLE, "")),
        msgspec.structs.replace(recipe, rows=(TableRows("t", ("id", "name"), ((1, b"a"),)),)),
        msgspec.structs.replace(recipe, rows=(TableRows("t", ("id", "name"), ((1.0, "a"),)),)),
        msgspec.structs.replace(recipe, clock_ms=1),
        msgspec.structs.replace(recipe, seed=1),
        msgspec.structs.replace(recipe, foreign_keys=False),
    ]
    assert len({recipe.digest, *(other.digest for other in others)}) == 7
    wire = msgspec.msgpack.encode(recipe)
    assert msgspec.msgpack.decode(wire, type=Recipe).digest == recipe.digest


def test_the_file_has_our_page_size_and_a_rollback_journal(tmp_path: Path) -> None:
    build_database(shop(), tmp_path / "shop")
    header = (tmp_path / "shop").read_bytes()[:100]
    assert header[16:21] == b"\x10\x00\x01\x01\x00"
    with pytest.raises(FileExistsError):
        build_database(shop(), tmp_path / "shop")


@pytest.mark.parametrize(
    ("recipe", "message", "details"),
    [
        (
            Recipe(
                (TABLE, "\n-- two\nINSERT INTO t VALUES (1, ';');\n\nINSERT INTO t\n VALUES (2);")
            ),
            "script 2, line 5: .*2 columns but 1 values",
            {"script": 2, "line": 5, "statement": "INSERT INTO t\n VALUES (2);"},
        ),
        (Recipe(("CREATE TABEL t (a);",)), 'near "TABEL": syntax error', {"script": 1, "line": 1}),
        (Recipe((TABLE + "ATTACH 'x' AS y;",)), "ATTACH is not allowed", {"line": 2}),
        (Recipe((TABLE + "SELECT load_extension('x');",)), "load_extension", {"line": 2}),
        (Recipe(("CREATE TEMP TABLE t (a);",)), "CREATE TEMP TABLE", {"line": 1}),
        (Recipe(("PRAGMA journal_mode = wal;",)), "journal_mode", {"line": 1}),
        (Recipe(("BEGIN;",)), "leaves a transaction open", {"script": 1}),
        (
            Recipe((TABLE,), (TableRows("t", ("id", "name"), ((1, "a"), (2, None))),)),
            "table t, row 2: NOT NULL constraint failed: t.name",
            {"table": "t", "row": 2},
        ),
        (Recipe((TABLE,), (TableRows("u", ("a",), ((1,),)),)), "no such table: u", {"table": "u"}),
        (
            Recipe(
                (TABLE + "CREATE TABLE c (id INTEGER PRIMARY KEY, t INT REFERENCES t (id));",),
                (TableRows("c", ("id", "t"), ((8, 99),)),),
            ),
            "row 8 of c, which names a missing row of t",
            {"table": "c"},
        ),
        (
            Recipe(("CREATE TABLE t (a TEXT PRIMARY KEY); INSERT INTO t VALUES (NULL);",)),
            "table t has a row with NULL in its primary key",
            {"table": "t"},
        ),
    ],
)
def test_what_does_not_build_says_where(
    store: SnapshotStore, recipe: Recipe, message: str, details: dict[str, object]
) -> None:
    with pytest.raises(BuildFailed, match=message) as caught:
        store.build(recipe)
    assert details.items() <= caught.value.details.items()
    assert store.find(recipe.digest) is None
    assert not list(store.root.glob(".build-*"))


def test_a_dump_builds(store: SnapshotStore) -> None:
    source = sqlite3.connect(":memory:")
    source.executescript(
        TABLE + "CREATE TABLE log (what TEXT);"
        "CREATE TRIGGER r AFTER UPDATE ON t BEGIN INSERT INTO log VALUES ('a;b'); SELECT 1; END;"
        "INSERT INTO t VALUES (1, 'a;''b'), (2, '-- no comment');"
    )
    snapshot = store.build(Recipe(("PRAGMA foreign_keys=OFF;\n" + "\n".join(source.iterdump()),)))
    source.close()
    copy = sqlite3.connect(f"{snapshot.path.as_uri()}?immutable=1", uri=True)
    assert copy.execute("SELECT name FROM t").fetchall() == [("a;'b",), ("-- no comment",)]
    assert copy.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(3,)]
    copy.close()


def test_rows_may_come_before_the_rows_they_refer_to(store: SnapshotStore) -> None:
    snapshot = store.build(
        Recipe(
            (TABLE + "CREATE TABLE c (id INTEGER PRIMARY KEY, t INT REFERENCES t (id));",),
            (TableRows("c", ("t",), ((1,),)), TableRows("t", ("id", "name"), ((1, "a"),))),
        )
    )
    workspace = Workspace(snapshot)
    assert rows(workspace, Branch(snapshot), "SELECT name FROM c JOIN t ON t.id = c.t") == [("a",)]
    workspace.close()


def test_orphans_are_borne_where_foreign_keys_are_off(store: SnapshotStore) -> None:
    recipe = Recipe(
        ("CREATE TABLE c (t INT REFERENCES t (id)); INSERT INTO c VALUES (9);",),
        foreign_keys=False,
    )
    snapshot = store.build(recipe)
    workspace = Workspace(snapshot, foreign_keys=False)
    assert rows(workspace, Branch(snapshot), "PRAGMA foreign_keys") == [(0,)]
    workspace.close()


# --- keeping --------------------------------------------------------------------------------------


def test_a_built_snapshot_is_found_shared_and_read_only(tmp_path: Path) -> None:
    store, recipe = SnapshotStore(tmp_path / "deep" / "er"), Recipe((TABLE,))
    assert store.find(recipe.digest) is None
    with pytest.raises(SnapshotMissing):
        store.open(recipe.digest)
    snapshot = store.build(recipe)
    assert store.build(recipe) is store.open(recipe.digest) is snapshot
    assert snapshot.path.stat().st_mode & 0o777 == 0o444
    other = SnapshotStore(store.root)
    again = other.open(recipe.digest)
    assert again is not snapshot
    assert again.page(0) == snapshot.page(0) == snapshot.path.read_bytes()[:4096]
    assert snapshot.size_bytes == len(snapshot.path.read_bytes())
    assert [found.name for found in store.root.iterdir()] == [f"{recipe.digest}.sqlite"]


def test_a_mapping_closes_when_nobody_refers_to_the_snapshot(tmp_path: Path) -> None:
    store, recipe = SnapshotStore(tmp_path), Recipe((TABLE,))
    store.build(recipe)
    gc.collect()
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("no /proc here")
    assert recipe.digest not in maps.read_text()
    held = store.open(recipe.digest)
    assert recipe.digest in maps.read_text()
    del held
    assert recipe.digest not in maps.read_text()


def test_a_file_built_elsewhere_is_admitted(tmp_path: Path) -> None:
    recipe, store = Recipe((TABLE,)), SnapshotStore(tmp_path / "store")
    path = tmp_path / "built elsewhere?%20"
    build_database(recipe, path)
    snapshot = store.admit(recipe.digest, path)
    assert not path.exists()
    assert store.open(recipe.digest) is snapshot


def spoiled(path: Path, kind: str) -> None:
    if kind == "wal":
        connection = sqlite3.connect(path)
        connection.executescript("PRAGMA journal_mode = wal; CREATE TABLE t (a);")
        connection.close()
    elif kind == "page size":
        connection = sqlite3.connect(path)
        connection.executescript("PRAGMA page_size = 1024; CREATE TABLE t (a);")
        connection.close()
    elif kind == "text":
        path.write_text("hello " * 1000)
    elif kind == "empty":
        path.touch()
    elif kind == "cut":
        build_database(shop(), path)
        path.write_bytes(path.read_bytes()[:-5000])
    elif kind == "damaged":
        build_database(shop(), path)
        data = bytearray(path.read_bytes())
        data[4096 * 2 : 4096 * 3] = b"\xaa" * 4096
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("wal", "WAL"),
        ("page size", "page size is not 4096"),
        ("text", "not an SQLite database"),
        ("empty", "not an SQLite database"),
        ("cut", "whole number of pages"),
        ("damaged", "integrity_check|malformed"),
        ("missing", "No such file"),
    ],
)
def test_a_file_that_cannot_serve_is_not_admitted(tmp_path: Path, kind: str, message: str) -> None:
    store, path = SnapshotStore(tmp_path / "store"), tmp_path / "file"
    spoiled(path, kind)
    with pytest.raises(SnapshotInvalid, match=message):
        store.admit("0" * 64, path)
    assert store.find("0" * 64) is None


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_what_is_no_digest_names_no_file(store: SnapshotStore, digest: str) -> None:
    with pytest.raises(SnapshotMissing):
        store.find(digest)


def test_a_worker_needs_only_the_path(snapshot: Snapshot) -> None:
    opened = Snapshot.open(snapshot.path, snapshot.digest)
    workspace = Workspace(opened)
    assert rows(workspace, Branch(snapshot), "SELECT count(*) FROM item") == [(60,)]
    workspace.close()


def test_a_snapshot_is_opened_by_others_whatever_its_folder_is_called(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "50% off? #1")
    recipe = Recipe((TABLE + "INSERT INTO t VALUES (1, 'a');",))
    path = store.root / "new.sqlite"
    build_database(recipe, path)
    snapshot = store.admit(recipe.digest, path)
    connection = sqlite3.connect(snapshot.uri, uri=True)
    assert connection.execute("SELECT name FROM t").fetchall() == [("a",)]
    connection.close()

"""What changed, told from pages: against sessions, and with pages nobody wrote honestly.

``pytest tests/snapshots --hypothesis-profile evidence`` searches longer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots import Branch, Changeset, Recipe, Snapshot, SnapshotStore, TableRows, Workspace
from snapshots.compare import Comparer, Comparison, rebuild
from snapshots.errors import StateDamaged
from snapshots.pages import PAGE_SIZE, PageDelta
from tests.snapshots.conftest import Raised, contents, run, shop
from tests.snapshots.test_interleaving import BODIES, DEFINITIONS, NUMBERS, attempt, statement

LARGE = """
CREATE TABLE big (id INTEGER PRIMARY KEY, body TEXT);
CREATE TABLE named (name TEXT PRIMARY KEY NOT NULL, n INTEGER);
CREATE INDEX named_by_n ON named (n);
CREATE TABLE keyed (word TEXT COLLATE NOCASE NOT NULL, rank REAL NOT NULL, body TEXT,
                    PRIMARY KEY (word, rank DESC)) WITHOUT ROWID;
CREATE TABLE loose (body TEXT);
CREATE TABLE real_key (at REAL PRIMARY KEY NOT NULL, body BLOB) WITHOUT ROWID;
"""


def large(rows: int = 1200) -> Recipe:
    """Tables of several levels."""
    return Recipe(
        scripts=(LARGE,),
        rows=(
            TableRows("big", ("id", "body"), tuple((n * 3, f"{n:0200}") for n in range(rows))),
            TableRows("named", ("name", "n"), tuple((f"name {n}", n) for n in range(rows))),
            TableRows(
                "keyed", ("word", "rank", "body"),
                tuple((f"Word {n // 3}", n % 3, f"{n:0150}") for n in range(rows)),
            ),
            TableRows("loose", ("body",), tuple((f"{n:090}",) for n in range(rows))),
            TableRows("real_key", ("at", "body"), tuple((n / 2, bytes(90)) for n in range(rows))),
        ),
    )  # fmt: skip


@dataclass
class Scene:
    """A branch in play, and everything needed to judge what became of it."""

    play: Workspace
    before: Workspace
    after: Workspace
    verbatim: Workspace
    comparer: Comparer
    branch: Branch

    def compare(self, start: Branch, end: Branch) -> Comparison:
        with (
            self.before.mount(start, read_only=True) as one,
            self.after.mount(end, read_only=True) as other,
        ):
            return self.comparer.compare(one, other)

    def rows(self, branch: Branch) -> dict[str, list[tuple[object, ...]]]:
        with self.before.mount(branch, read_only=True) as mount:
            return contents(mount.connection)

    def check(self, start: Branch, expected: Changeset) -> None:
        """The comparison is what was recorded, and the rows put back are all there."""
        comparison = self.compare(start, self.branch)
        assert plain(comparison.changes) == plain(expected)
        back = self.compare(self.branch, start)
        assert plain(back.changes) == plain(expected.invert())
        if comparison.tables is not None:
            rebuilt = rebuild(self.verbatim, start, comparison.tables)
            assert self.rows(rebuilt) == self.rows(self.branch)
            assert not self.compare(rebuilt, self.branch).changes


def plain(changes: Changeset) -> dict[str, Any]:
    """Without the mark that a trigger did it: pages cannot tell."""
    data = changes.to_json()
    for name, table in data.items():
        if name != "$schema":
            table.pop("indirect", None)
            for entry in table["changed"]:
                entry.pop("indirect", None)
    return data


@pytest.fixture(scope="module")
def opened(store: SnapshotStore) -> Iterator[Callable[[Recipe], Scene]]:
    with ExitStack() as stack:
        scenes: dict[str, Scene] = {}

        def scene_of(recipe: Recipe) -> Scene:
            snapshot = store.build(recipe)
            if snapshot.digest not in scenes:
                workspaces = [
                    Workspace(snapshot, allow_ddl=True),
                    Workspace(snapshot),
                    Workspace(snapshot),
                    Workspace(snapshot, verbatim=True),
                ]
                for workspace in workspaces:
                    stack.callback(workspace.close)
                scenes[snapshot.digest] = Scene(*workspaces, Comparer(snapshot), Branch(snapshot))
            scene = scenes[snapshot.digest]
            scene.branch = Branch(snapshot)
            return scene

        yield scene_of


# --- against sessions -----------------------------------------------------------------------------

LARGE_WRITES = st.one_of(
    statement("INSERT OR REPLACE INTO big VALUES (? * 531, ?)", NUMBERS, st.just("x" * 90)),
    statement("UPDATE big SET body = body || 'more' WHERE id = ? * 600", NUMBERS),
    statement("UPDATE big SET body = hex(zeroblob(? * 400)) WHERE id = 9", NUMBERS),
    statement("UPDATE big SET body = replace(body, '00', '11') WHERE id = 9"),
    statement("DELETE FROM big WHERE id BETWEEN ? * 500 AND ? * 700", NUMBERS, NUMBERS),
    statement("DELETE FROM big"),
    statement("INSERT INTO big SELECT n + 20000, name FROM named WHERE n < ? * 100", NUMBERS),
    statement("UPDATE named SET n = n + 1 WHERE n % 97 = ?", NUMBERS),
    statement("UPDATE named SET name = 'new ' || name WHERE n = ?", NUMBERS),
    statement("DELETE FROM named WHERE n > ? * 200", NUMBERS),
    statement("UPDATE keyed SET body = 'changed' WHERE rank = 1 AND word LIKE 'word ?%'"),
    statement("UPDATE keyed SET rank = rank + 0.5 WHERE word = 'WORD ' || ?", NUMBERS),
    statement("UPDATE keyed SET word = upper(word) WHERE word = 'word ' || ?", NUMBERS),
    statement("DELETE FROM keyed WHERE word > 'word ' || ?", NUMBERS),
    statement("INSERT INTO keyed SELECT 'k' || n, n, 'x' FROM named WHERE n < ? * 50", NUMBERS),
    statement("INSERT INTO loose SELECT name FROM named WHERE n < ? * 90", NUMBERS),
    statement("DELETE FROM loose WHERE rowid > ? * 100", NUMBERS),
    statement("DELETE FROM real_key WHERE at < ? * 10", NUMBERS),
    statement("INSERT OR REPLACE INTO real_key VALUES (? * 100.25, zeroblob(? * 700))",
              NUMBERS, NUMBERS),
)  # fmt: skip
STEPS = st.lists(st.lists(LARGE_WRITES, min_size=1, max_size=4), min_size=1, max_size=4)


def play(scene: Scene, bodies: list[Any]) -> Changeset:
    net = Changeset()
    for body in bodies:
        with scene.play.mount(scene.branch) as mount:
            attempt(mount.connection, body)
        net = net.concat(mount.changes)
    return net


@settings(deadline=None, max_examples=20)
@given(STEPS, STEPS)
def test_pages_tell_what_sessions_tell(
    opened: Callable[[Recipe], Scene], first: Any, second: Any
) -> None:
    """From the snapshot to a state, and from that state to a later one."""
    scene = opened(large())
    start = scene.branch.fork()
    net = play(scene, first)
    scene.check(start, net)
    middle = scene.branch.fork()
    later = play(scene, second)
    scene.check(middle, later)
    scene.check(start, net.concat(later))


@settings(deadline=None)
@given(st.lists(BODIES, min_size=1, max_size=4))
def test_every_kind_of_table(opened: Callable[[Recipe], Scene], bodies: Any) -> None:
    """Generated columns, triggers, cascades, no key, no rowid, AUTOINCREMENT, overflow."""
    scene = opened(shop())
    start = scene.branch.fork()
    scene.check(start, play(scene, bodies))


@settings(deadline=None)
@given(st.lists(st.lists(DEFINITIONS, min_size=1, max_size=2), min_size=1, max_size=2))
def test_a_changed_schema_is_told_by_reading_everything(
    opened: Callable[[Recipe], Scene], bodies: Any
) -> None:
    scene = opened(shop())
    start = scene.branch.fork()
    with scene.play.mount(scene.branch) as mount:
        for body in bodies:
            attempt(mount.connection, body)
    scene.check(start, mount.changes)


# --- what pages can hide --------------------------------------------------------------------------


def test_a_page_freed_by_one_table_and_taken_by_another(
    opened: Callable[[Recipe], Scene],
) -> None:
    """The page may have the same bytes under both, so that it does not differ at all."""
    scene = opened(large())
    start = scene.branch.fork()
    first = run(scene.play, scene.branch, "DELETE FROM big WHERE id > 4000")
    second = run(
        scene.play, scene.branch,
        "INSERT INTO loose (rowid, body) SELECT 90000 + n, printf('%0200d', n) FROM named",
    )  # fmt: skip
    scene.check(start, Changeset.from_json(first).concat(Changeset.from_json(second)))


def test_text_changed_in_place_on_overflow_pages_alone(
    opened: Callable[[Recipe], Scene],
) -> None:
    """The page that holds the row is then the same in both states."""
    scene = opened(large())
    scene.play.mount(scene.branch)
    run(scene.play, scene.branch, "UPDATE big SET body = hex(zeroblob(9000)) WHERE id = 30")
    start = scene.branch.fork()
    changes = run(
        scene.play, scene.branch,
        "UPDATE big SET body = substr(body, 1, 12000) || 'X' || substr(body, 12002) WHERE id = 30",
    )  # fmt: skip
    differs = {
        number
        for number, page in scene.branch.head.pages.items()
        if start.head.pages.get(number) != page
    }
    assert len(differs) == 2, "the first page and the overflow page"
    scene.check(start, Changeset.from_json(changes))


def test_the_cost_follows_the_changes(
    opened: Callable[[Recipe], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in pages looked at, which does not depend on the machine."""
    looked_at = []
    page = Snapshot.page

    def counted(snapshot: Snapshot, number: int) -> bytes:
        looked_at.append(number)
        return page(snapshot, number)

    counts = {}
    for rows in (3000, 30_000):
        scene = opened(large(rows))
        start = scene.branch.fork()
        run(scene.play, scene.branch, "UPDATE big SET body = 'x' WHERE id % 1500 = 0 AND id < 9000")
        monkeypatch.setattr(Snapshot, "page", counted)
        looked_at.clear()
        assert len(scene.compare(start, scene.branch).changes) == 6
        counts[rows] = len(looked_at)
        monkeypatch.setattr(Snapshot, "page", page)
    assert counts[30_000] <= counts[3000] + 10


def test_nothing_changed(opened: Callable[[Recipe], Scene]) -> None:
    scene = opened(shop())
    assert not scene.compare(scene.branch, scene.branch.fork()).changes


# --- pages nobody wrote honestly ------------------------------------------------------------------


def altered(branch: Branch, edit: Callable[[sqlite3.Connection], None], tmp: Any) -> Branch:
    """The branch with its pages changed by another program."""
    path = tmp / "altered.sqlite"
    branch.flatten(path)
    connection = sqlite3.connect(path, isolation_level=None)
    edit(connection)
    connection.close()
    data = path.read_bytes()
    pages = {n: data[n * PAGE_SIZE : (n + 1) * PAGE_SIZE] for n in range(len(data) // PAGE_SIZE)}
    forged = branch.fork()
    forged.commit(PageDelta(pages, len(data), branch.head.base_pages), ())
    return forged


def test_rows_are_told_from_pages_with_no_report_at_all(
    opened: Callable[[Recipe], Scene], tmp_path: Any
) -> None:
    scene = opened(shop())
    forged = altered(
        scene.branch, lambda db: db.execute("UPDATE item SET stock = 99 WHERE id = 3"), tmp_path
    )
    (entry,) = scene.compare(scene.branch, forged).changes.to_json()["item"]["changed"]
    assert (entry["key"], entry["after"]) == ({"id": 3}, {"stock": 99})


def test_an_index_that_lies_is_not_taken_over(opened: Callable[[Recipe], Scene]) -> None:
    """The rows say one thing and an index another: the rows count."""
    scene = opened(large(3000))
    # An entry of the index is changed where it lies: 2999 (0x0bb7) becomes 2998.
    pages = dict(scene.branch.head.pages)
    snapshot = scene.branch.snapshot
    with scene.before.mount(scene.branch, read_only=True) as mount:
        count = mount.connection.execute(
            "SELECT count(*) FROM named INDEXED BY named_by_n WHERE n = 2998"
        ).fetchall()
    assert count == [(1,)]
    size = snapshot.size_bytes // PAGE_SIZE
    forged = scene.branch.fork()
    for number in range(size):
        page = snapshot.page(number)
        at = page.find(b"\x0b\xb7\x0b\xb8")
        if page[0] == 10 and at > 0:
            pages[number] = page[:at] + b"\x0b\xb6" + page[at + 2 :]
            break
    else:
        pytest.fail("the entry is nowhere")
    forged.commit(PageDelta(pages, snapshot.size_bytes, size), ())
    with scene.after.mount(forged, read_only=True) as mount:
        sql = "SELECT count(*) FROM named INDEXED BY named_by_n WHERE n = 2998"
        assert mount.connection.execute(sql).fetchall() == [(2,)], "the index lies"
    comparison = scene.compare(scene.branch, forged)
    assert not comparison.changes
    assert comparison.tables == {}
    rebuilt = rebuild(scene.verbatim, scene.branch, comparison.tables)
    assert rebuilt.head.pages == scene.branch.head.pages


@pytest.mark.parametrize(
    "damage",
    [
        lambda page: bytes(PAGE_SIZE),
        lambda page: b"\x05" + page[1:],
        lambda page: page[:3] + b"\xff\xff" + page[5:],
        lambda page: page[:8] + b"\xff\xf0" * 200 + page[408:],
        lambda page: page[:2000] + b"\xff" * 2096,
    ],
)
def test_broken_pages_are_named_and_nothing_else_raised(
    opened: Callable[[Recipe], Scene], damage: Callable[[bytes], bytes]
) -> None:
    scene = opened(large())
    snapshot = scene.branch.snapshot
    with scene.before.mount(scene.branch, read_only=True) as mount:
        (root,) = mount.connection.execute(
            "SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'keyed'"
        ).fetchall()[0]
    for number in {root, root + 7, root + 20}:
        forged = scene.branch.fork()
        page = damage(snapshot.page(number))
        size = snapshot.size_bytes // PAGE_SIZE
        forged.commit(PageDelta({number: page}, snapshot.size_bytes, size), ())
        with suppress(StateDamaged):
            scene.compare(scene.branch, forged)


@settings(deadline=None)
@given(st.data())
def test_no_bytes_do_more_than_damage(opened: Callable[[Recipe], Scene], data: Any) -> None:
    scene = opened(large())
    snapshot = scene.branch.snapshot
    count = snapshot.size_bytes // PAGE_SIZE
    number = data.draw(st.integers(1, count - 1))
    page = bytearray(snapshot.page(number))
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, PAGE_SIZE - 1), st.integers(0, 255)), max_size=6)
    ):
        page[at] = byte
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 255)), max_size=3)
    ):
        page[at] = byte
    forged = scene.branch.fork()
    forged.commit(PageDelta({number: bytes(page)}, snapshot.size_bytes, count), ())
    with suppress(StateDamaged):
        comparison = scene.compare(scene.branch, forged)
        rebuild(scene.verbatim, scene.branch, comparison.tables or {})


def test_a_workspace_that_writes_verbatim(snapshot: Snapshot, branch: Branch) -> None:
    workspace = Workspace(snapshot, verbatim=True)
    changes = run(
        workspace, branch,
        "UPDATE item SET name = 'other' WHERE id = 1",
        "INSERT INTO sale (item) VALUES (12345)",
        "DELETE FROM item WHERE id = 4",
    )  # fmt: skip
    assert set(changes) == {"item", "sale"}, "no trigger, no cascade, no foreign key"
    assert not changes["sale"]["removed"]
    with pytest.raises(Raised), workspace.mount(branch):
        raise Raised
    workspace.close()


def test_changes_after_a_changed_schema_are_recorded_by_the_new_one(
    free_workspace: Workspace, branch: Branch
) -> None:
    run(free_workspace, branch, "ALTER TABLE note ADD COLUMN extra DEFAULT 'none'")
    changes = run(free_workspace, branch, "UPDATE note SET extra = 'some' WHERE stars = 1")
    (entry,) = changes["note"]["changed"]
    assert entry["after"] == {"extra": "some"}

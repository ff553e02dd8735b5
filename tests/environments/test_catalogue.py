"""Packs on disk: found, hashed, read, and refused with file, line and word."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from environments.catalogue import Catalogue, load_pack, pack_digest
from environments.datafiles import read_tables
from environments.errors import PackInvalid, UnknownEnvironment, UnknownTask
from environments.scaffold import new_pack
from snapshots import SnapshotStore

SHOP = Path(__file__).resolve().parents[1] / "packs" / "shop"
Edit = Callable[[str, str, str], None]


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return new_pack("reading-room", tmp_path)


@pytest.fixture
def edit(pack: Path) -> Edit:
    def replace(file: str, old: str, new: str) -> None:
        text = (pack / file).read_text()
        assert old in text
        (pack / file).write_text(text.replace(old, new, 1))

    return replace


def test_a_pack_is_read_whole(pack: Path) -> None:
    read = load_pack(pack)
    assert (read.name, read.spec.limits.max_steps) == ("reading-room", 12)
    assert list(read.tasks) == ["lend-cyberiad", "unblock-by-return", "who-has-solaris"]
    assert read.task("lend-cyberiad").oracle[2].tool == "lend_book"
    assert read.policy.startswith("# The library desk")
    assert read.recipe().clock_ms == read.spec.clock.start_ms == 1_772_442_000_000
    tables = [(table.table, len(table.rows)) for table in read.recipe().rows]
    # rows that name the same columns stand together
    assert [(name, count) for name, count in tables if name != "members"] == [
        ("books", 16), ("loans", 13)
    ]  # fmt: skip
    assert sum(count for name, count in tables if name == "members") == 12
    assert list(dict.fromkeys(name for name, _ in tables)) == ["members", "books", "loans"]


def test_what_is_read_builds(pack: Path, tmp_path: Path) -> None:
    snapshot = SnapshotStore(tmp_path / "store").build(load_pack(pack).recipe())
    assert snapshot.size_bytes > 0


def test_an_unknown_task_names_its_neighbours(pack: Path) -> None:
    with pytest.raises(UnknownTask, match="did you mean lend-cyberiad"):
        load_pack(pack).task("lend-cyberia")


# --- data files -------------------------------------------------------------------------------


def test_parents_come_before_children_and_a_number_overrules(pack: Path) -> None:
    (pack / "data" / "05-loans.jsonl").write_bytes((pack / "data" / "loans.jsonl").read_bytes())
    (pack / "data" / "loans.jsonl").unlink()
    order = [table.table for table in load_pack(pack).recipe().rows]
    assert list(dict.fromkeys(order)) == ["loans", "members", "books"]


def test_csv_fields_are_text_and_empty_ones_null(pack: Path) -> None:
    (pack / "data" / "loans.jsonl").unlink()
    (pack / "data" / "loans.csv").write_text(
        'id,member_id,book_id,lent_at,due_on,returned_at\nL-1,M-1041,"B-0388",2026,"a, b",\n'
    )
    loans = load_pack(pack).recipe().rows[-1]
    assert loans.columns[0] == "id"
    assert loans.rows == (("L-1", "M-1041", "B-0388", "2026", "a, b", None),)


def test_nested_json_is_stored_as_text(pack: Path) -> None:
    (pack / "data" / "books.jsonl").write_text('{"id": "B-1", "title": ["a", {"b": "é"}]}\n')
    books = next(table for table in load_pack(pack).recipe().rows if table.table == "books")
    assert books.rows == (("B-1", '["a", {"b": "é"}]'),)


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "environment.toml",
            "summary =",
            "sumary =",
            (
                "environment.toml: line 4: Object contains unknown field `sumary` "
                "(did you mean summary?)"
            ),
        ),
        (
            "environment.toml",
            "step_seconds = 60.0",
            "step_second = 60.0",
            "unknown field `step_second` - at `$.clock` (did you mean step_seconds or",
        ),
        (
            "environment.toml",
            "max_steps = 12",
            'max_steps = "many"',
            "environment.toml: line 14: Expected `int`, got `str` - at `$.limits.max_steps`",
        ),
        ("environment.toml", 'licence = "', "licence = ", "environment.toml: "),
        (
            "environment.toml",
            'name = "reading-room"',
            'name = "Reading Room"',
            "environment.toml: line 1: name 'Reading Room' is not allowed",
        ),
        (
            "tasks.jsonl",
            '"difficulty": "medium"',
            '"dificulty": "medium"',
            (
                "tasks.jsonl: line 2: Object contains unknown field `dificulty` "
                "(did you mean difficulty?)"
            ),
        ),
        (
            "tasks.jsonl",
            '{"tool": "find_books"',
            '{"tol": "find_books"',
            (
                "tasks.jsonl: line 1: Object contains unknown field `tol` - at `$.oracle[1]` "
                "(did you mean tool?)"
            ),
        ),
        ("tasks.jsonl", '"difficulty": "easy"', '"difficulty": "trivial"', "line 1: Invalid enum"),
        (
            "tasks.jsonl",
            '"id": "unblock-by-return"',
            '"id": "lend-cyberiad"',
            "tasks.jsonl: line 2: id 'lend-cyberiad' is already that of line 1",
        ),
        ("tasks.jsonl", '{"id": "who', '{id: "who', "tasks.jsonl: line 3: not JSON"),
        (
            "data/books.jsonl",
            '{"id": "B-0214"',
            '{"id" "B-0214"',
            "reading-room/data/books.jsonl: line 2: not JSON",
        ),
        ("data/books.jsonl", '{"id": "B-0210"', '[{"id": "B-0210"', "line 1: not JSON"),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    pack: Path, edit: Edit, file: str, old: str, new: str, message: str
) -> None:
    edit(file, old, new)
    with pytest.raises(PackInvalid) as refused:
        load_pack(pack)
    assert message in str(refused.value)


def test_a_csv_row_of_another_length_is_refused(pack: Path) -> None:
    (pack / "data" / "books.csv").write_text("id,title\nB-1,One\nB-2\n")
    with pytest.raises(PackInvalid, match=r"books\.csv: line 3: does not have the 2 fields"):
        load_pack(pack)


@pytest.mark.parametrize("missing", ["environment.toml", "schema.sql", "tools.py"])
def test_a_pack_has_its_three_files(pack: Path, missing: str) -> None:
    (pack / missing).unlink()
    with pytest.raises(PackInvalid, match=missing):
        load_pack(pack)


def test_text_that_is_not_utf8_is_refused(pack: Path) -> None:
    (pack / "policy.md").write_bytes(b"caf\xe9")
    with pytest.raises(PackInvalid, match=r"policy\.md: byte 3 is not UTF-8"):
        load_pack(pack)


def test_a_file_that_cannot_be_read_breaks_its_pack_alone(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def forbidden(path: Path) -> bytes:  # root, as whom tests may run, is forbidden nothing
        if path.name == "tools.py":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    catalogue = Catalogue([pack])
    assert catalogue.listed() == []
    (error,) = catalogue.invalid.values()
    assert error.message == "reading-room/tools.py cannot be read: Permission denied"


@pytest.mark.parametrize("name", ["loans.csv", "loans.jsonl"])
def test_rows_that_cannot_be_read_any_more_are_the_packs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def failing(path: Path, *_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / name).touch()
    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(PackInvalid, match=rf"/{name} cannot be read: Input/output error"):
        read_tables(tmp_path, "")


def test_a_link_that_leads_round_breaks_its_pack_alone(tmp_path: Path) -> None:
    new_pack("good", tmp_path)
    bad = new_pack("bad", tmp_path)
    (bad / "data" / "round").symlink_to("round")
    catalogue = Catalogue([tmp_path])
    assert [listed.spec.name for listed in catalogue.listed()] == ["good"]
    assert catalogue.invalid[bad].message.startswith("data/round cannot be read: ")


def test_only_a_newline_ends_a_line(pack: Path) -> None:
    tasks, books = pack / "tasks.jsonl", pack / "data" / "books.jsonl"
    tasks.write_text(tasks.read_text().replace("Cyberiad", "Cyber\u2028iad\x85"), newline="\r\n")
    books.write_text(books.read_text().replace("Solaris", "Sol\u2029aris"))
    read = load_pack(pack)
    assert "Cyber\u2028iad\x85" in read.task("lend-cyberiad").instruction
    rows = next(table.rows for table in read.recipe().rows if table.table == "books")
    assert any("Sol\u2029aris" in row for row in rows)


# --- digest -----------------------------------------------------------------------------------


def test_the_digest_covers_every_file_and_nothing_else(pack: Path) -> None:
    before = pack_digest(pack)
    (pack / "__pycache__").mkdir()
    (pack / "__pycache__" / "tools.pyc").write_bytes(b"x")
    (pack / ".DS_Store").write_bytes(b"x")
    assert pack_digest(pack) == before
    (pack / "data" / "extra.txt").write_text("")
    assert pack_digest(pack) != before
    (pack / "data" / "extra.txt").rename(pack / "data" / "other.txt")
    renamed = pack_digest(pack)
    (pack / "data" / "other.txt").write_text("x")
    assert len({before, renamed, pack_digest(pack)}) == 3


def test_the_digest_does_not_depend_on_the_place(pack: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(pack, tmp_path / "elsewhere")
    assert pack_digest(moved) == pack_digest(pack)


def test_a_link_out_of_the_pack_is_refused(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    (pack / "data" / "secret.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(PackInvalid, match=r"data/secret\.txt is a link that leads out of the pack"):
        load_pack(pack)


# --- the catalogue ----------------------------------------------------------------------------


def test_a_root_is_a_pack_or_a_folder_of_packs(tmp_path: Path) -> None:
    new_pack("one", tmp_path / "many")
    new_pack("two", tmp_path / "many")
    single = new_pack("three", tmp_path)
    catalogue = Catalogue([tmp_path / "many", single])
    assert catalogue.names() == ["one", "three", "two"]
    assert catalogue.get("two") is catalogue.get("two")
    with pytest.raises(UnknownEnvironment, match="did you mean three"):
        catalogue.get("thre")


def test_a_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackInvalid, match="neither a pack nor a folder of packs"):
        Catalogue([tmp_path / "nowhere"])


def test_a_bad_pack_hides_no_other(tmp_path: Path) -> None:
    new_pack("good", tmp_path)
    bad = new_pack("bad", tmp_path)
    (bad / "environment.toml").write_text("name = ")
    catalogue = Catalogue([tmp_path])
    assert catalogue.names() == ["good"]
    assert list(catalogue.invalid) == [bad]
    with pytest.raises(PackInvalid, match=r"bad/environment\.toml"):
        catalogue.get("bad")


def test_a_pack_that_turns_out_bad_is_noted(tmp_path: Path) -> None:
    bad = new_pack("bad", tmp_path)
    (bad / "tasks.jsonl").write_text("{}\n")
    catalogue = Catalogue([tmp_path])
    assert not catalogue.invalid
    with pytest.raises(PackInvalid, match=r"tasks\.jsonl: line 1"):
        catalogue.get("bad")
    assert list(catalogue.invalid) == [bad]


def test_two_packs_of_one_name_are_both_named(tmp_path: Path) -> None:
    first, second = new_pack("desk", tmp_path / "a"), new_pack("desk", tmp_path / "b")
    catalogue = Catalogue([tmp_path / "a", tmp_path / "b"])
    assert catalogue.get("desk").path == first
    assert str(first) in str(catalogue.invalid[second])
    assert str(second) in str(catalogue.invalid[second])


def test_listing_many_packs_reads_only_manifests(tmp_path: Path) -> None:
    for number in range(50):
        folder = tmp_path / f"p{number}"
        folder.mkdir()
        (folder / "environment.toml").write_text(
            f'name = "p{number}"\nversion = "1"\ntitle = "T"\nsummary = "S"\n'
        )
        (folder / "tools.py").write_text("raise SystemExit('a catalogue runs no code')")
        (folder / "tasks.jsonl").write_text("not read")
    assert len(Catalogue([tmp_path]).names()) == 50


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("products.jsonl", b'{"name": "\\ud800"}', "line 1: no database holds half of a character"),
        ("products.jsonl", b'{"\\ud800": 1}', "line 1: no database holds half of a character"),
        ("products.jsonl", b'{"name": [1, "\\udc00"]}', "no database holds half of a character"),
        ("products.jsonl", b'{"stock": 9223372036854775808}', "no database holds the integer 92"),
        ("products.jsonl", b'{"name": ' + b"[" * 100_000, "line 1: not JSON"),
        ("products.csv", b"name\n\xff\n", "byte 5 is not UTF-8"),
        ("products.csv", b"name\n" + b"a\n" * 50_000 + b"\xff", "byte 100005 is not UTF-8"),
        ("../schema.sql", b"CREATE TABLE a (b)\0;", "schema.sql: a NUL stands in it"),
        ("../environment.toml", b"[changes]\nx = 1" + b"0" * 5000, "environment.toml: "),
    ],
)
def test_what_no_database_and_no_parser_takes_is_the_packs_fault(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    pack = Path(shutil.copytree(SHOP, tmp_path / "shop"))
    (pack / "data").mkdir(exist_ok=True)
    (pack / "data" / name).write_bytes(content)
    with pytest.raises(PackInvalid) as caught:
        load_pack(pack)
    assert told in str(caught.value)


def test_a_schema_is_read_in_time_that_grows_with_its_length(tmp_path: Path) -> None:
    tables = 3000
    chain = "".join(f"CREATE TABLE t{n} (a REFERENCES t{n + 1});" for n in range(tables))
    for number in (0, tables - 1):
        (tmp_path / f"t{number}.csv").write_text("a\nb\n")
    # comments that do not end: looked for from each of their beginnings, they would take minutes
    rows = read_tables(tmp_path, chain + "/* " * 300_000)
    assert [each.table for each in rows] == [f"t{tables - 1}", "t0"]

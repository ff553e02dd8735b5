"""Pack archives: the same bytes everywhere, and whatever comes back is that pack or an error."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as some

from environments.archives import PublicKey, SecretKey, Trust, build_archive, read_archive
from environments.archives.layout import (
    MANIFEST,
    MAX_FILES,
    ArchiveInvalid,
    ArchiveManifest,
    Names,
    header,
    padding,
)
from environments.archives.signatures import KeyInvalid, PackNotTrusted, signature_of
from environments.catalogue import pack_digest
from environments.errors import PackInvalid
from environments.scaffold import new_pack

SHOP = Path(__file__).resolve().parents[1] / "packs" / "shop"
MANIFEST_OF_SHOP, ARCHIVE = build_archive(SHOP)
TAR = zstandard.ZstdDecompressor().decompressobj().decompress(ARCHIVE)

PUBLIC = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
"""The key and a signature of the four bytes ``test``, both minisign's own."""
SIGNATURE = (
    "untrusted comment: signature from minisign secret key\n"
    "RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo"
    "8KLzZwo=\n"
    "trusted comment: timestamp:1633700835\tfile:test\tprehashed\n"
    "wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n"
)


def unpacked(content: bytes, into: Path) -> Path:
    """Where the pack in those bytes comes to lie below ``into``."""
    file = into / "given.tar.zst"
    file.write_bytes(content)
    try:
        return read_archive(file).unpack(into / "packs")
    finally:
        file.unlink()


def compressed(tar: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(tar)


def entry(name: str, content: bytes) -> bytes:
    return header(name, len(content)) + content + bytes(padding(len(content)))


def archive_of(*entries: bytes) -> bytes:
    """The shop's manifest, those entries, and an end."""
    manifest = entry(f"shop/{MANIFEST}", MANIFEST_OF_SHOP.encode())
    return compressed(manifest + b"".join(entries) + bytes(1024))


def everything_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# --- there and back ----------------------------------------------------------------------------


def test_a_pack_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = unpacked(ARCHIVE, tmp_path)
    assert folder == tmp_path / "packs" / "shop"
    assert pack_digest(folder) == pack_digest(SHOP) == MANIFEST_OF_SHOP.digest
    assert everything_below(tmp_path / "packs") == {
        "shop", f"shop/{MANIFEST}", *(f"shop/{file.name}" for file in SHOP.glob("*.*"))
    }  # fmt: skip
    assert {path.stat().st_mode & 0o7777 for path in folder.iterdir()} == {0o644}


def test_bytes_do_not_depend_on_when_where_and_by_whom(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(SHOP, tmp_path / "elsewhere"))
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "tools.pyc").write_bytes(b"x")
    (copy / ".notes").write_text("mine")
    for number, file in enumerate(copy.glob("*.*")):
        os.utime(file, (number, number))
        file.chmod(0o600)
    assert build_archive(copy)[1] == ARCHIVE
    again = unpacked(ARCHIVE, tmp_path)
    assert build_archive(again)[1] == ARCHIVE


def test_a_pack_that_is_there_stays_and_another_is_not_overwritten(tmp_path: Path) -> None:
    folder = unpacked(ARCHIVE, tmp_path)
    inode = folder.stat().st_ino
    assert unpacked(ARCHIVE, tmp_path).stat().st_ino == inode
    (folder / "policy.md").write_text("another policy")
    with pytest.raises(ArchiveInvalid, match="there already, and is not this pack"):
        unpacked(ARCHIVE, tmp_path)
    assert (folder / "policy.md").read_text() == "another policy"
    file = tmp_path / "given.tar.zst"
    file.write_bytes(ARCHIVE)
    read_archive(file).unpack(tmp_path / "packs", replace=True)
    assert pack_digest(folder) == MANIFEST_OF_SHOP.digest
    assert [path.name for path in (tmp_path / "packs").iterdir()] == ["shop"]


def test_what_no_archive_may_hold_is_refused_when_it_is_built(tmp_path: Path) -> None:
    pack = new_pack("reading-room", tmp_path)
    (pack / "two words.txt").write_text("x")
    with pytest.raises(ArchiveInvalid, match=r"'reading-room/two words\.txt' is no name"):
        build_archive(pack)
    (pack / "two words.txt").rename(pack / "Policy.md")
    with pytest.raises(ArchiveInvalid, match="there twice"):
        build_archive(pack)


# --- hostile archives --------------------------------------------------------------------------

SIZES = {"name": (0, 100), "mode": (100, 108), "size": (124, 136), "kind": (156, 157)}


def bent(path: str, **fields: bytes) -> bytes:
    """A header with fields of its own, and a checksum that is right."""
    block = bytearray(header(path, 0))
    for field, value in fields.items():
        start, end = SIZES[field]
        block[start:end] = value.ljust(end - start, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def from_tarfile() -> bytes:
    """The shop as Python's ``tarfile`` packs it, long names and all."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(SHOP, arcname="shop")
    return compressed(out.getvalue())


def with_window(log: int) -> bytes:
    """The shop, in a frame that asks for so much memory."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=log)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(TAR) + compressor.flush()


FILES = [entry(f"shop/{file.name}", file.read_bytes()) for file in sorted(SHOP.glob("*.*"))]
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "symbolic link": (lambda: archive_of(bent("shop/a", kind=b"2")), "is a symbolic link"),
    "hard link": (lambda: archive_of(bent("shop/a", kind=b"1")), "is a link"),
    "device": (lambda: archive_of(bent("shop/a", kind=b"3")), "is a device"),
    "pipe": (lambda: archive_of(bent("shop/a", kind=b"6")), "is a pipe"),
    "folder": (lambda: archive_of(bent("shop/a/", kind=b"5")), "is a folder of its own"),
    "extension": (lambda: archive_of(bent("shop/a", kind=b"x")), "a header that is not envhub's"),
    "sparse file": (lambda: archive_of(bent("shop/a", kind=b"S")), "a header that is not"),
    "set-uid": (lambda: archive_of(bent("shop/a", mode=b"0004755")), "a header that is not"),
    "size in base 256": (
        lambda: archive_of(bent("shop/a", size=b"\x80" + b"\xff" * 11)),
        "a header that is not",
    ),
    "absolute": (lambda: archive_of(entry("/etc/passwd", b"x")), "leads out of the pack"),
    "upwards": (lambda: archive_of(entry("shop/../../a", b"x")), "leads out of the pack"),
    "another folder": (lambda: archive_of(entry("shoq/a", b"x")), "not where it belongs"),
    "hidden": (lambda: archive_of(entry("shop/.bashrc", b"x")), "is no name"),
    "cache": (lambda: archive_of(entry("shop/__pycache__/a.pyc", b"x")), "is no name"),
    "control characters": (lambda: archive_of(entry("shop/a\x1b[2J", b"x")), "is no name"),
    "backslash": (lambda: archive_of(entry("shop/..\\a", b"x")), "is no name"),
    "colon": (lambda: archive_of(entry("shop/C:a", b"x")), "is no name"),
    "null in a name": (lambda: archive_of(bent("shop/a", name=b"shop/a\0b")), "is no name"),
    "not ASCII": (lambda: archive_of(bent("shop/a", name="shop/é".encode())), "a header that"),
    "nothing between slashes": (lambda: archive_of(entry("shop//a", b"x")), "is no name"),
    "deep": (lambda: archive_of(entry("shop" + "/a" * 20, b"x")), "too long or too deep"),
    "twice": (lambda: archive_of(FILES[0], FILES[0]), "there twice"),
    "case": (
        lambda: archive_of(entry("shop/Data.sql", b"x"), entry("shop/data.sql", b"y")),
        "there twice",
    ),
    "case of a folder": (
        lambda: archive_of(entry("shop/D/a", b"x"), entry("shop/d/b", b"y")),
        "differ only in case",
    ),
    "file and folder": (
        lambda: archive_of(entry("shop/data", b"x"), entry("shop/data/a", b"y")),
        "both a file and a folder",
    ),
    "out of order": (lambda: archive_of(FILES[1], FILES[0]), "not where it belongs"),
    "file too large": (
        lambda: archive_of(header("shop/a", 1 << 30)),
        "brings the archive to 1073741824 bytes",
    ),
    "too many files": (
        lambda: archive_of(*(entry(f"shop/{n:05}", b"") for n in range(MAX_FILES + 1))),
        "more than 4096 files",
    ),
    "bytes after a file": (
        lambda: archive_of(header("shop/a", 1) + b"x" * 512),
        "followed by what is not its own",
    ),
    "a file missing": (lambda: archive_of(*FILES[1:]), "and says it is shop"),
    "a file more": (lambda: archive_of(*FILES, entry("shop/zz", b"x")), "and says it is shop"),
    "nothing": (lambda: b"", "ends too early"),
    "no archive": (lambda: b"PK\x03\x04" + bytes(100), "no archive, or a damaged one"),
    "cut": (lambda: ARCHIVE[:-10], "ends too early|the end is missing"),
    "trailing byte": (lambda: ARCHIVE + b"\0", "something follows the end"),
    "trailing frame": (lambda: ARCHIVE + compressed(b""), "something follows the end"),
    "trailing skippable frame": (
        lambda: ARCHIVE + b"\x50\x2a\x4d\x18\1\0\0\0x",
        "something follows the end",
    ),
    "trailing zeros": (lambda: compressed(TAR + bytes(512)), "something follows the end"),
    "no end": (lambda: compressed(TAR[:-512]), "ends too early"),
    "a tar of another's": (from_tarfile, "a header that is not envhub's"),
    "window": (
        lambda: with_window(27),
        "too much memory",
    ),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_archive_leaves_nothing(attack: str, tmp_path: Path) -> None:
    make, says = HOSTILE[attack]
    content = make()
    with pytest.raises(PackInvalid, match=says):
        unpacked(content, tmp_path)
    assert everything_below(tmp_path) <= {"packs"}


def test_a_bomb_is_met_with_bounded_memory(tmp_path: Path) -> None:
    """A gibibyte of zeros in some kilobytes: what is read of it is what a header asks for."""
    import tracemalloc

    def plain() -> Iterator[bytes]:
        yield entry(f"shop/{MANIFEST}", MANIFEST_OF_SHOP.encode())
        yield header("shop/a", 200 << 20)
        yield from (bytes(1 << 20) for _ in range(1024))

    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    bomb = b"".join([*map(compressor.compress, plain()), compressor.flush()])
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveInvalid):
            unpacked(bomb, tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert everything_below(tmp_path) <= {"packs"}


def test_the_manifest_must_tell_the_truth(tmp_path: Path) -> None:
    lies = ArchiveManifest(format=1, name="shop", version="1.0.0", digest="0" * 64)
    content = compressed(entry(f"shop/{MANIFEST}", lies.encode()) + b"".join(FILES) + bytes(1024))
    with pytest.raises(ArchiveInvalid, match=r"says it is shop 1\.0\.0 0000"):
        unpacked(content, tmp_path)
    newer = ArchiveManifest(format=2, name="shop", version="1.0.0", digest=MANIFEST_OF_SHOP.digest)
    with pytest.raises(ArchiveInvalid, match="format 2"):
        unpacked(compressed(entry(f"shop/{MANIFEST}", newer.encode())), tmp_path)


@pytest.mark.parametrize(
    "lie",
    [
        {"digest": "/tmp/outside"},
        {"digest": "../../outside"},
        {"digest": "a\0b"},
        {"digest": "0" * 3000},
        {"digest": "0" * 63 + "A"},
        {"version": "1.0\tdigest:" + "0" * 64},
        {"version": "../1.0"},
        {"version": "\x1b]0;mine\x07"},
    ],
)
def test_what_comes_to_name_files_and_folders_is_one_word(
    lie: dict[str, str], tmp_path: Path
) -> None:
    lies = msgspec.structs.replace(MANIFEST_OF_SHOP, **lie)
    file = tmp_path / "given.tar.zst"
    file.write_bytes(
        compressed(entry(f"shop/{MANIFEST}", lies.encode()) + b"".join(FILES) + bytes(1024))
    )
    with pytest.raises(ArchiveInvalid, match=r"no (digest|version)"):
        read_archive(file)


def test_a_version_that_is_no_word_is_not_signed(tmp_path: Path) -> None:
    pack = Path(shutil.copytree(SHOP, tmp_path / "shop"))
    manifest = pack / "environment.toml"
    manifest.write_text(manifest.read_text().replace('"1.0.0"', '"1.0.0\\tdigest:0000"'))
    with pytest.raises(ArchiveInvalid, match="no version"):
        build_archive(pack)


# --- by chance ---------------------------------------------------------------------------------


@some.composite
def mutations(draw: some.DrawFn) -> Callable[[bytes], bytes]:
    """Something that happens to bytes: some are changed, cut out, doubled, put elsewhere."""
    where = some.floats(0, 1, exclude_max=True)
    kind = draw(some.sampled_from(["set", "cut", "double", "insert", "truncate", "swap"]))
    at, to = sorted((draw(where), draw(where)))
    new = draw(some.binary(min_size=1, max_size=16))

    def mutate(data: bytes) -> bytes:
        first, last = int(at * len(data)), int(to * len(data))
        match kind:
            case "set":
                return data[:first] + new + data[first + len(new) :]
            case "cut":
                return data[:first] + data[last:]
            case "double":
                return data[:last] + data[first:]
            case "insert":
                return data[:first] + new + data[first:]
            case "truncate":
                return data[:first]
            case _:
                block, other = first // 512 * 512, last // 512 * 512
                one, two = data[block : block + 512], data[other : other + 512]
                swapped = data[:block] + two + data[block + 512 :]
                return swapped[:other] + one + swapped[other + 512 :]

    return mutate


@settings(max_examples=150, deadline=None)
@given(changes=some.lists(mutations(), min_size=1, max_size=3), inside=some.booleans())
def test_a_mutated_archive_is_that_pack_or_an_error(
    changes: list[Callable[[bytes], bytes]], inside: bool
) -> None:
    data = TAR if inside else ARCHIVE
    for change in changes:
        data = change(data)
    with tempfile.TemporaryDirectory() as name:
        around = Path(name)
        (around / "canary").write_text("untouched")
        try:
            folder = unpacked(compressed(data) if inside else data, around)
        except PackInvalid:
            assert everything_below(around) <= {"canary", "packs"}
        else:
            assert pack_digest(folder) == MANIFEST_OF_SHOP.digest
            assert build_archive(folder)[1] == ARCHIVE
        assert (around / "canary").read_text() == "untouched"


@given(some.lists(some.text("aAbB./\\\0é ", max_size=6), max_size=6))
def test_names_that_pass_are_apart_on_any_file_system(names: list[str]) -> None:
    known, passed = Names(), []
    for name in names:
        try:
            known.add(name)
        except ArchiveInvalid:
            continue
        passed.append(name.casefold())
    assert len(set(passed)) == len(passed)
    assert not any(other.startswith(f"{name}/") for name in passed for other in passed)
    assert all(name.isascii() and ".." not in name.split("/") for name in passed)


# --- signatures --------------------------------------------------------------------------------


def test_minisign_is_understood() -> None:
    key = PublicKey.parse(PUBLIC)
    assert key.name == "E7620F1842B4E81F"
    assert key.verify(b"test", SIGNATURE) == "timestamp:1633700835\tfile:test\tprehashed"
    for content, signature in (
        (b"Test", SIGNATURE),
        (b"test", SIGNATURE.replace("file:test", "file:tset")),
    ):
        with pytest.raises(PackNotTrusted, match="is not this file's"):
            key.verify(content, signature)


def test_a_key_is_kept_and_read_again(tmp_path: Path) -> None:
    key = SecretKey.generate()
    public = key.save(tmp_path / "my.key")
    assert (tmp_path / "my.key").stat().st_mode & 0o777 == 0o600
    assert SecretKey.load(tmp_path / "my.key") == key
    assert PublicKey.given(str(public)) == PublicKey.given(key.public.text) == key.public
    assert "seed" not in repr(key)
    with pytest.raises(KeyInvalid, match="there already"):
        SecretKey.generate().save(tmp_path / "my.key")
    with pytest.raises(KeyInvalid, match="a public half is called"):
        SecretKey.generate().save(tmp_path / "other.pub")
    assert not (tmp_path / "other.pub").exists()
    with pytest.raises(KeyInvalid, match="no secret key"):
        SecretKey.load(public)
    for nonsense in ("nonsense", "longer than any name of a file " * 20):
        with pytest.raises(KeyInvalid, match="no public key, nor is there such a file"):
            PublicKey.given(nonsense)
    with pytest.raises(KeyInvalid, match=r"my\.key' is no public key \(") as raised:
        PublicKey.given(str(tmp_path / "my.key"))
    assert "secret key" not in str(raised.value), "nothing of the file is told"


def test_trust(tmp_path: Path) -> None:
    file = tmp_path / "shop.tar.zst"
    file.write_bytes(ARCHIVE)
    ours, theirs = SecretKey.generate(), SecretKey.generate()
    anybody = Trust((ours.public,))
    required = Trust((ours.public,), required=True)
    assert read_archive(file, anybody).signer == ""
    with pytest.raises(PackNotTrusted, match=r"shop\.tar\.zst is not signed"):
        read_archive(file, required)
    signature_of(file).write_text(theirs.sign(ARCHIVE, "theirs"))
    assert read_archive(file, anybody).signer == ""
    with pytest.raises(PackNotTrusted, match=f"by key {theirs.public.name}, which is not trusted"):
        read_archive(file, required)
    signature_of(file).write_text(ours.sign(ARCHIVE, "ours"))
    assert read_archive(file, required).signer == ours.public.name
    signature_of(file).write_text(ours.sign(ARCHIVE + b"x", "another file's"))
    for trust in (anybody, required):
        with pytest.raises(PackNotTrusted, match="is not this file's"):
            read_archive(file, trust)
    signature_of(file).write_text("garbage")
    with pytest.raises(PackNotTrusted, match="cannot be read"):
        read_archive(file, anybody)

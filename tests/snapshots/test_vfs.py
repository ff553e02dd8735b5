"""The file that SQLite sees: what is cut off is gone, what lies past the end is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap

import apsw
import pytest

from snapshots import PAGE_SIZE
from snapshots.pages import LOCK_PAGE, Image
from snapshots.vfs import MountedFile

ZEROS = bytes(PAGE_SIZE)


def page(letter: str) -> bytes:
    return letter.encode() * PAGE_SIZE


@pytest.fixture
def base() -> Iterator[mmap]:
    """Four pages: a b c d."""
    with mmap(-1, 4 * PAGE_SIZE) as mapping:
        mapping.write(b"".join(map(page, "abcd")))
        yield mapping


@pytest.fixture
def file(base: mmap) -> MountedFile:
    """The base with its second page private, and a private fifth and sixth."""
    file = MountedFile(base)
    file.mount(Image({1: page("B"), 4: page("e"), 5: page("f")}, 6 * PAGE_SIZE, 4), stale=False)
    return file


def shown(file: MountedFile) -> str:
    count = file.xFileSize() // PAGE_SIZE
    pages = [file.xRead(PAGE_SIZE, number * PAGE_SIZE) for number in range(count)]
    return "".join("." if found == ZEROS else chr(found[0]) for found in pages)


def test_private_pages_lie_over_the_base(file: MountedFile) -> None:
    assert shown(file) == "aBcdef"
    assert file.xRead(16, PAGE_SIZE + 24) == b"B" * 16
    assert file.xRead(PAGE_SIZE, 6 * PAGE_SIZE) == b""
    assert file.xRead(100, 6 * PAGE_SIZE) == b""


def test_writes_stay_apart_until_handed_over(file: MountedFile) -> None:
    assert not file.changed
    file.xWrite(page("A"), 0)
    file.xWrite(page("g"), 6 * PAGE_SIZE)
    assert shown(file) == "ABcdefg"
    assert sorted(file.image.pages) == [1, 4, 5]
    delta = file.delta()
    assert (sorted(delta.pages), delta.size_bytes, delta.base_pages) == ([0, 6], 7 * PAGE_SIZE, 4)
    file.mount(file.image, stale=False)
    assert shown(file) == "aBcdef"


def test_what_is_cut_off_does_not_come_back_when_the_file_grows(file: MountedFile) -> None:
    file.xWrite(page("F"), 5 * PAGE_SIZE)
    file.xTruncate(2 * PAGE_SIZE)
    assert shown(file) == "aB"
    assert file.xRead(PAGE_SIZE, 2 * PAGE_SIZE) == b""
    assert file.changed
    file.xWrite(page("g"), 6 * PAGE_SIZE)
    assert shown(file) == "aB....g"
    delta, image = file.delta(), file.image
    assert delta.base_pages == 2
    after = Image(image.pages_after(delta), delta.size_bytes, delta.base_pages)
    file.mount(after, stale=False)
    assert shown(file) == "aB....g"


def test_a_shorter_image_loses_its_private_pages(file: MountedFile) -> None:
    file.xTruncate(5 * PAGE_SIZE)
    delta = file.delta()
    assert sorted(file.image.pages_after(delta)) == [1, 4]
    assert (delta.pages, delta.size_bytes, delta.base_pages) == ({}, 5 * PAGE_SIZE, 4)


def test_only_the_first_question_for_the_version_is_answered_with_nobodys(
    file: MountedFile,
) -> None:
    file.mount(file.image, stale=True)
    assert file.xRead(16, 24) == b"\xff" * 16
    assert file.xRead(16, 24) == b"a" * 16


@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"short", 0), (ZEROS, 1), (ZEROS, LOCK_PAGE * PAGE_SIZE)],
)
def test_what_is_no_page_is_not_written(file: MountedFile, data: bytes, offset: int) -> None:
    with pytest.raises(apsw.IOError):
        file.xWrite(data, offset)
    assert not file.changed

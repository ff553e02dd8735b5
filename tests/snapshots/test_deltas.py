"""Deltas at rest: they come back as they were, stay small, and refuse what is not theirs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots import Branch, Snapshot, Workspace, decode_delta, encode_delta
from snapshots.errors import BranchDamaged
from snapshots.pages import PAGE_SIZE, PageDelta

edits = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 8, 63, 64, 511, 512, 2048, 4000, 4087]) | st.integers(0, 4087),
        st.binary(min_size=1, max_size=600),
    ),
    max_size=12,
)


@given(edits=edits, beyond=st.booleans())
def test_any_page_comes_back(
    snapshot: Snapshot, edits: list[tuple[int, bytes]], beyond: bool
) -> None:
    branch = Branch(snapshot)
    base_pages = snapshot.size_bytes // PAGE_SIZE
    number = base_pages if beyond else 1
    page = bytearray(PAGE_SIZE if beyond else snapshot.page(1))
    for offset, data in edits:
        data = data[: PAGE_SIZE - offset]
        page[offset : offset + len(data)] = data
    delta = PageDelta({number: bytes(page)}, (base_pages + beyond) * PAGE_SIZE, base_pages)
    stored = encode_delta(delta, branch)
    assert decode_delta(stored, branch) == delta
    # what lies between two changes in one part of 8 bytes goes along
    written = sum(len(data) for _, data in edits)
    assert len(stored) <= 50 + written + 20 * len(edits) or written > PAGE_SIZE // 4


def test_a_step_is_stored_as_what_it_changed(workspace: Workspace, branch: Branch) -> None:
    with workspace.mount(branch) as mount:
        mount.connection.execute("UPDATE tag SET uses = uses + 1 WHERE name = 'new'")
    stored = encode_delta(mount.delta, branch)
    assert len(stored) < 200
    assert decode_delta(stored, branch) == mount.delta


@pytest.mark.parametrize(
    "pages",
    [{1: [(PAGE_SIZE - 3, b"four")]}, {1: [(-1, b"x")]}, {1: [("0", b"x")]}, {1: b"raw"}],
)
def test_what_reaches_beyond_its_page_is_refused(branch: Branch, pages: object) -> None:
    with pytest.raises(BranchDamaged):
        decode_delta(msgspec.msgpack.encode([2, PAGE_SIZE, 1, pages]), branch)


def test_a_delta_cut_or_of_another_version_is_refused(branch: Branch) -> None:
    whole = encode_delta(PageDelta({0: bytes(PAGE_SIZE)}, PAGE_SIZE, 1), branch)
    for damaged in (whole[:-1], b"", msgspec.msgpack.encode([1, PAGE_SIZE, 1, {}])):
        with pytest.raises(BranchDamaged):
            decode_delta(damaged, branch)

"""A new pack is whole, called what was asked for, and passes its own check."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments.catalogue import load_pack
from environments.check import check_pack
from environments.errors import AgentError
from environments.scaffold import TEMPLATE, new_pack


@pytest.mark.anyio
async def test_a_new_pack_passes_every_gate(tmp_path: Path) -> None:
    report = await check_pack(new_pack("reading-room", tmp_path))
    assert [finding for finding in report.findings if not finding.passed] == []
    assert report.passed


def test_a_new_pack_is_called_what_was_asked_for(tmp_path: Path) -> None:
    spec = load_pack(new_pack("parcel_desk-2", tmp_path)).spec
    assert (spec.name, spec.title) == ("parcel_desk-2", "Parcel desk 2")


def test_the_template_is_copied_whole_and_left_as_it_is(tmp_path: Path) -> None:
    path = new_pack("desk", tmp_path)
    names = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
    assert names == {
        "environment.toml",
        "schema.sql",
        "tools.py",
        "policy.md",
        "tasks.jsonl",
        "data/books.jsonl",
        "data/loans.jsonl",
        "data/members.jsonl",
    }
    assert "{{name}}" in (TEMPLATE / "environment.toml").read_text()


@pytest.mark.parametrize("name", ["", "9lives", "Desk", "a b", "../desk", "d" * 41])
def test_a_name_clients_would_refuse_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(AgentError, match="is not a name"):
        new_pack(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "desk").mkdir()
    with pytest.raises(AgentError, match="is already there"):
        new_pack("desk", tmp_path)

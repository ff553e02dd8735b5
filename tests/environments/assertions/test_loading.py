"""A typo in a verifier keeps its pack from loading, named with its task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from environments.environment import open_environments
from environments.errors import PackInvalid
from environments.scaffold import new_pack

ADDED = {"table": "loans", "change": "added"}
TYPOS: dict[str, tuple[dict[str, Any], str]] = {
    "table": ({"expect": [{**ADDED, "table": "loan"}]}, "unknown table 'loan'"),
    "column": (
        {"expect": [{**ADDED, "where": {"bok_id": 1}}]},
        "unknown column of loans: 'bok_id'",
    ),
    "matcher": ({"expect": [{**ADDED, "where": {"id": {"regx": "L"}}}]}, "unknown matcher 'regx'"),
    "tool": ({"trace": [{"tool": "lend_bok"}]}, "unknown tool 'lend_bok'"),
    "argument": (
        {"trace": [{"tool": "lend_book", "arguments": {"book": "B-1"}}]},
        "unknown argument of lend_book: 'book'",
    ),
    "query": (
        {"answer": {"numeric": {"sql": "SELECT count(*) FROM lones"}}},
        "unknown table 'lones'",
    ),
}


@pytest.mark.anyio
async def test_a_pack_with_a_typo_is_refused(tmp_path: Path) -> None:
    for name, (verifier, _) in TYPOS.items():
        task = {"id": f"with-{name}", "instruction": "Lend it.", "verifier": verifier}
        new_pack(name, tmp_path).joinpath("tasks.jsonl").write_text(json.dumps(task))
    async with open_environments([tmp_path]) as environments:
        for name, (_, message) in TYPOS.items():
            with pytest.raises(PackInvalid) as refused:
                await environments.get(name)
            assert f"task with-{name}: " in refused.value.message
            assert message in refused.value.message
            assert refused.value.hint

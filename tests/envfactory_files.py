"""A small checkout of EnvFactory of our own, with rows of RL data as it writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parent / "samples" / "envfactory"
TIME = "2026-01-05T09:00:00"


def write_envfactory(folder: Path) -> Path:
    """Copy the sample into ``folder`` and write its rows beside it."""
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    rows = [lending(), reading(), elsewhere(), together()]
    (folder / "rl_train.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1))
    (folder / "rl_val.jsonl").write_text(json.dumps(waiting()) + "\n\n")
    (folder / "other.json").write_text("[1, 2]")
    return folder


def desk(**changes: Any) -> dict[str, Any]:
    held: dict[str, Any] = {
        "books": {"b-7": {"title": "Röda rummet", "copies": 2, "tags": []}},
        "loans": {},
        "waiting": {},
        "notes": [],
        "motto": None,
        "random_seed": 7,
        "current_time": TIME,
    }
    return held | changes


def row(
    asked: str,
    calls: list[tuple[str, dict[str, Any]]],
    initial: dict[str, Any],
    final: dict[str, Any],
    *before: tuple[str, str],
) -> dict[str, Any]:
    prompt = [{"role": role, "content": content} for role, content in (*before, ("user", asked))]
    named = [{"name": f"LendingDesk-{name}", "arguments": given} for name, given in calls]
    given = {
        "mcp_servers": json.dumps(["LendingDesk"]),
        "initial_config": json.dumps({"LendingDesk": initial}),
        "final_config": json.dumps({"LendingDesk": final}),
    }
    return {
        "prompt": json.dumps(prompt),
        "data_source": "EnvFactory",
        "reward_model": {"ground_truth": json.dumps(named), "style": "rule"},
        "extra_info": {"mcp_factory_kwargs": given},
    }


def lending() -> dict[str, Any]:
    """A loan, in the middle of a conversation."""
    loan = {"book": "b-7", "member": "Åsa", "since": TIME, "fee": 0.0}
    book = {"title": "Röda rummet", "copies": 1, "tags": []}
    return row(
        "I am Åsa. Lend me Röda rummet.",
        [("sign_in", {"member": "Åsa"}), ("lend_book", {"book": "b-7"})],
        desk(),
        desk(books={"b-7": book}, loans={"1": loan}),
        ("user", "Hello"),
        ("assistant", "Good morning"),
    )


def reading() -> dict[str, Any]:
    """Nothing is changed: only the calls tell whether it was done."""
    return row("Have you Röda rummet?", [("search_books", {"text": "röda"})], desk(), desk())


def elsewhere() -> dict[str, Any]:
    """Its calls do not lead where it says."""
    return row("Lend it to me.", [("search_books", {"text": ""})], desk(), desk(motto="Read"))


def waiting() -> dict[str, Any]:
    """A call that fails and changes something all the same."""
    book = {"title": "Röda rummet", "copies": 0, "tags": []}
    before = desk(books={"b-7": book})
    return row(
        "I am Bo. Lend me Röda rummet.",
        [("sign_in", {"member": "Bo"}), ("lend_book", {"book": "b-7"})],
        before,
        {**before, "waiting": {"b-7": ["Bo"]}},
    )


def together() -> dict[str, Any]:
    """Played on two servers."""
    both = reading()
    both["extra_info"]["mcp_factory_kwargs"]["mcp_servers"] = '["LendingDesk", "Counter"]'
    return both

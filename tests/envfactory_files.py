"""A small checkout of EnvFactory of our own, with rows of RL data as it writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from environments.environment import Environment
from environments.spec import Task

SAMPLE = Path(__file__).parent / "samples" / "envfactory"
TIME = "2026-01-05T09:00:00"
REMARK = "lending-desk__books: 'b-7' -- overdue"
"""A text that looks like SQL in a world's names."""


def write_envfactory(folder: Path) -> Path:
    """Copy the sample into ``folder`` and write its rows beside it."""
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    rows = [lending(), reading(), elsewhere(), twice(), *together(), *nowhere()]
    (folder / "rl_train.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1))
    (folder / "rl_val.jsonl").write_text(json.dumps(waiting()) + "\n\n")
    (folder / "other.json").write_text("[1, 2]")
    return folder


def task_about(environment: Environment, words: str) -> Task:
    """The one that a row was made."""
    (task,) = [task for task in environment.pack.tasks.values() if words in task.instruction]
    return task


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
    """Played at the desk."""
    named = [(f"LendingDesk-{name}", given) for name, given in calls]
    documents = {"LendingDesk": initial}, {"LendingDesk": final}
    return row_on(["LendingDesk"], asked, named, documents, *before)


def row_on(
    servers: list[str],
    asked: str,
    calls: list[tuple[str, dict[str, Any]]],
    documents: tuple[dict[str, Any], dict[str, Any]],
    *before: tuple[str, str],
) -> dict[str, Any]:
    prompt = [{"role": role, "content": content} for role, content in (*before, ("user", asked))]
    named = [{"name": name, "arguments": given, "masked_arguments": []} for name, given in calls]
    given = {
        "mcp_servers": json.dumps(servers),
        "initial_config": json.dumps(documents[0]),
        "final_config": json.dumps(documents[1]),
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


def twice() -> dict[str, Any]:
    """Played on one server, which is named twice."""
    documents = {"LendingDesk": desk()}, {"LendingDesk": desk()}
    servers, calls = ["LendingDesk"] * 2, [("LendingDesk-search_books", {"text": "rum"})]
    return row_on(servers, "And any with a room?", calls, documents)


def together() -> list[dict[str, Any]]:
    """Played on two servers: a loan and its fee, a look at both, one whose end is another, one that
    tells no document of the accounts, one that calls a third."""
    both = ["MemberAccounts", "LendingDesk"]
    account = {"member": "Åsa", "cents": 30, "remark": REMARK}
    before = {
        "LendingDesk": desk(),
        "MemberAccounts": {"accounts": {"12": account}, "charges": []},
        "Counter": {"count": 1},
    }
    lent = lending()
    final = json.loads(lent["extra_info"]["mcp_factory_kwargs"]["final_config"])["LendingDesk"]
    charge = {"account": 12, "cents": 50, "what": "b-7"}
    after = {
        "LendingDesk": final,
        "MemberAccounts": {"accounts": {"12": {**account, "cents": 80}}, "charges": [charge]},
    }
    calls = [
        ("LendingDesk-sign_in", {"member": "Åsa"}),
        ("LendingDesk-lend_book", {"book": "b-7"}),
        ("MemberAccounts-find_account", {"member": "Åsa"}),
        ("MemberAccounts-charge_a_fee_for_something_lent", charge),
    ]
    looks = [("LendingDesk-search_books", {"text": "röda"}), calls[2]]
    return [
        row_on(both, "I am Åsa. Lend me Röda rummet; I pay 50 cents.", calls, (before, after)),
        row_on(both[::-1], "Have you it, and have I an account?", looks, (before, before)),
        row_on(both, "Lend it to Åsa and charge it.", calls[:2], (before, after)),
        row_on(both, "Lend it to Åsa.", calls[:2], ({"LendingDesk": desk()}, after)),
        row_on(both, "Count it.", [("Counter-count", {})], (before, before)),
    ]


def nowhere() -> list[dict[str, Any]]:
    """Played on a server that is not there, on one that is refused, and on none."""
    call = [("LendingDesk-search_books", {"text": "röda"})]
    documents = {"LendingDesk": desk(), "Nowhere": {}, "Counter": {}}
    return [
        row_on(servers, "Have you Röda rummet?", call, (documents, documents))
        for servers in (["LendingDesk", "Nowhere"], ["Nowhere"], ["LendingDesk", "Counter"], [])
    ]

"""The samples of ``tests/samples/awm`` as Agent World Model's files, with the traps these have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "samples" / "awm"

OPENED = """
def verify_task_completion(initial_db_path: str, final_db_path: str, final_answer=None) -> dict:
    def count(path):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            wanted = "SELECT count(*) FROM jobs WHERE bike_id = 1 AND what = 'Grease the hub'"
            return connection.execute(wanted).fetchone()[0]
    done = count(initial_db_path) == 0 and count(final_db_path) == 1
    return {"result": "complete" if done else "others"}
"""
PRICED = """
    def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
        return {"result": "complete" if "45.5" in final_answer else "others"}
"""
EASY = """
def verify_task_completion(initial_db_path, final_db_path):
    return {"result": "complete"}
"""
EVIDENCE = """
def verify_task(initial_db_path, final_db_path):
    with sqlite3.connect(final_db_path) as connection:
        return {"loans": connection.execute("SELECT count(*) FROM loans").fetchone()[0]}
"""
BROKEN = "def verify_task_completion(initial_db_path, final_db_path):\n    return {"

SHOP_TASKS = [
    'Open a job "Grease the hub" for bike 1, for 3.',
    "What does job 2 cost?",
    "Look at the board.",
    "Do something that nobody checks.",
]
LIBRARY_TASKS = ["Lend book 7 to Ben for a week.", "Find a book about clouds."]


def write_awm(folder: Path) -> Path:
    """``folder`` with files of two environments, which call them differently."""
    shop, library = SAMPLES / "repair_shop", SAMPLES / "lending_library"
    put(folder, "gen_envs", *(
        {"scenario": name, "full_code": (sample / "app.py").read_text()}
        for name, sample in (("repair_shop", shop), ("Lending Library (Books & Loans)", library))
    ))  # fmt: skip
    put(
        folder,
        "gen_scenario",
        {"name": "Lending Library (Books & Loans)", "description": "A library. It lends books."},
        {"name": "Repair Shop!", "description": "A shop that repairs bikes for its customers."},
    )
    put(
        folder,
        "gen_tasks",
        {"scenario": "Repair  Shop", "tasks": SHOP_TASKS},
        {"scenario": "Lending Library (Books & Loans)", "tasks": LIBRARY_TASKS},
    )
    put(folder, "gen_db", *(
        {"scenario": name, "db_schema": {"tables": list(tables_of(sample))}}
        for name, sample in (("lending_library_books_loans", library), ("REPAIR-SHOP", shop))
    ))  # fmt: skip
    put(folder, "gen_sample", *(
        {"scenario": name, "sample_data": {"tables": list(inserts_of(sample))}}
        for name, sample in (("Repair Shop", shop), ("Lending Library (Books & Loans)", library))
    ))  # fmt: skip
    put(
        folder,
        "gen_verifier.pure_code",
        verifier("repair_shop", 0, SHOP_TASKS[0], OPENED),
        verifier("repair_shop", 0, SHOP_TASKS[0], EASY),
        verifier("repair_shop", 7, SHOP_TASKS[1], PRICED),
        verifier("repair_shop", 2, SHOP_TASKS[2], EASY),
        verifier("repair_shop", 3, SHOP_TASKS[3], BROKEN),
    )
    put(
        folder,
        "gen_verifier",
        verifier("repair_shop", 0, SHOP_TASKS[0], EVIDENCE),
        verifier("lending_library_books_loans", 0, LIBRARY_TASKS[0], EVIDENCE),
    )
    return folder


def put(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def verifier(scenario: str, index: int, task: str, code: str) -> dict[str, Any]:
    verification = {"code": code, "raw_response": "..."}
    return {"scenario": scenario, "task_idx": index, "task": task, "verification": verification}


def tables_of(sample: Path) -> Iterator[dict[str, Any]]:
    """Its tables, each with its indexes; the last of the shop's is not whole."""
    table: dict[str, Any] = {}
    for text in (sample / "schema.sql").read_text().split(";\n"):
        if text.startswith("CREATE TABLE"):
            if table:
                yield table
            name = text.split()[2]
            ddl = text.rstrip(")") if name == "notes" else f"{text};"
            table = {"name": name, "ddl": ddl, "indexes": []}
        elif text:
            table["indexes"].append(text)
    yield table


def inserts_of(sample: Path) -> Iterator[dict[str, Any]]:
    for line in (sample / "data.sql").read_text().splitlines():
        name = line.split()[2]
        yield {"table_name": name, "reasoning": "needed", "insert_statements": [line]}

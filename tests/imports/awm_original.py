"""An AWM environment as its authors run it, on plain files: `python -m tests.imports.awm_original`.

Reads a job as JSON from standard input: the environment's code, tables, inserts, requests and
verifiers. Writes initial and final database into a folder, and answers and verdicts as JSON.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sqlite3
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any


def build(job: dict[str, Any], path: Path) -> None:
    """What its reset does: statement by statement, past those that fail."""
    connection = sqlite3.connect(path)
    for table in job["tables"]:
        try:
            for statement in (table["ddl"], *table.get("indexes", ())):
                connection.execute(statement)
        except Exception:
            continue
    connection.commit()
    connection.execute("PRAGMA foreign_keys = ON")
    for table in job["samples"]:
        for statement in table.get("insert_statements", ()):
            try:
                connection.execute(statement)
            except sqlite3.Error:
                continue
    connection.commit()
    connection.close()


def serve(job: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """Answers of its application to the requests, its engine on ``path``."""
    import sqlalchemy
    from starlette.testclient import TestClient

    create = sqlalchemy.create_engine
    sqlalchemy.create_engine = lambda *_, **__: create(  # type: ignore[assignment]
        f"sqlite:///{path}", connect_args={"check_same_thread": False}
    )
    module = sys.modules["server"] = ModuleType("server")
    exec(compile(job["code"], "server.py", "exec"), vars(module))
    answers = []
    with TestClient(module.app, raise_server_exceptions=False) as client:
        for asked in job["requests"]:
            response = client.request(
                asked["method"], asked["path"], params=asked["query"], json=asked["body"]
            )
            try:
                body = response.json()
            except ValueError:
                body = response.text
            answers.append({"status": response.status_code, "body": body})
    return answers


def verdict(code: str, initial: str, final: str) -> str:
    """What its verifier says, called as its own judge calls it."""
    named = re.search(r"^\s*def (verify_\w+)\(", code, re.MULTILINE)
    names: dict[str, Any] = {"sqlite3": sqlite3, "json": json, "os": os, "re": re}
    try:
        exec(code, names)
        function = names[named[1] if named else "verify_task_completion"]
        given = {"initial_db_path": initial, "final_db_path": final, "final_answer": ""}
        taken = {name: given[name] for name in inspect.signature(function).parameters}
        result = function(**taken)["result"]
    except Exception as error:
        return f"error: {type(error).__name__}"
    return result if result in ("complete", "others") else "others"


def main() -> None:
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    folder = Path(job["folder"])
    initial, final = folder / "initial.db", folder / "final.db"
    build(job, initial)
    shutil.copy(initial, final)
    answers = serve(job, final)
    pairs = {"own": (initial, final), "idle": (initial, initial), **job["pairs"]}
    verdicts = {
        name: [verdict(code, *map(str, pair)) for code in job["verifiers"]]
        for name, pair in pairs.items()
    }
    sys.__stdout__.write(json.dumps({"answers": answers, "verdicts": verdicts}))


if __name__ == "__main__":
    main()

"""The lint finds each way to be paid that is not the task, and nothing in honest tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from environments.check import CheckReport, lint_packs
from environments.scaffold import new_pack

pytestmark = pytest.mark.anyio

FIND = [{"tool": "find_members", "arguments": {"query": "Carvalho"}}]


def task(id: str, verifier: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": id, "instruction": f"Do {id}.", "verifier": verifier, "oracle": FIND, **fields}


def lends(book: str) -> list[dict[str, Any]]:
    arguments = {"member_id": "M-1042", "book_id": book}
    return [{"tool": "lend_book", "arguments": arguments}]


async def linted(folder: Path, *tasks: dict[str, Any]) -> CheckReport:
    """The library with these tasks beside its own."""
    pack = new_pack("library", folder)
    lines = (pack / "tasks.jsonl").read_text()
    (pack / "tasks.jsonl").write_text(lines + "\n".join(map(json.dumps, tasks)) + "\n")
    (report,) = await lint_packs([pack])
    return report


def problems(report: CheckReport, name: str) -> list[str]:
    (found,) = [finding for finding in report.findings if finding.name == name]
    return [] if found.passed else found.detail.split("\n")


async def test_honest_tasks_pass(tmp_path: Path) -> None:
    report = await linted(tmp_path)
    assert report.passed, report.failures
    assert not any(problems(report, finding.name) for finding in report.findings)


async def test_answers_that_anybody_could_give(tmp_path: Path) -> None:
    report = await linted(
        tmp_path,
        task("is-it-open", {"answer": {"norm": "yes"}}, answer="Yes"),
        task("who", {"answer": {"contains_all": ["Ines Carvalho"]}}, answer="Ines Carvalho"),
        task(
            "told",
            {"answer": {"contains_any": ["Solaris"]}},
            answer="Solaris",
            instruction="Has Ines borrowed Solaris or Kindred?",
        ),
        task("count", {"answer": {"contains_all": ["5", "7"]}}, answer="5 and 7"),
    )
    found = problems(report, "no constant answer passes")
    assert "task is-it-open is passed by the answer 'yes'" in found
    assert "task who is passed by an answer that lists all values of the database" in found
    assert "task told is passed by its own instruction" in found
    assert "task count is passed by an answer of all numbers up to 100" in found
    assert not any("who-has-solaris" in problem for problem in found)


async def test_an_answer_beside_changes_is_tried_too(tmp_path: Path) -> None:
    verifier = {
        "expect": [{"table": "loans", "change": "added", "where": {"book_id": "B-0602"}}],
        "answer": {"norm": "done"},
    }
    report = await linted(tmp_path, task("lend", verifier, oracle=lends("B-0602"), answer="done"))
    found = problems(report, "no constant answer passes")
    assert found == ["task lend is passed by the answer 'done'"]


async def test_the_work_of_another_task(tmp_path: Path) -> None:
    any_book = {"expect": [{"table": "loans", "change": "added", "where": {"member_id": "M-1042"}}]}
    report = await linted(tmp_path, task("lend-kallocain", any_book, oracle=lends("B-0583")))
    assert problems(report, "no task is passed by another's work") == [
        "task lend-kallocain is passed by the oracle of task lend-cyberiad"
    ]


async def test_reading_for_no_answer(tmp_path: Path) -> None:
    looked = {"trace": [{"tool": "find_members", "called": True}]}
    report = await linted(tmp_path, task("look", looked))
    assert problems(report, "reading tasks ask for an answer") == [
        "task look: its oracle only reads, and no answer is asked for"
    ]


async def test_a_pack_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (report,) = await lint_packs([tmp_path])
    assert not report.passed
    assert "is not a pack" in report.failures[0].detail

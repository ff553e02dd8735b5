"""The quality report: what was measured, what a judge thinks, and which is which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.check import QualityReport, assess_packs
from environments.llm import Llm
from environments.scaffold import new_pack
from environments.verifier.judge import Judge
from tests.environments.model_server import ModelServer, Reply, answering

pytestmark = pytest.mark.anyio

REVIEW = json.dumps(
    {
        "task_feasibility": {"reason": "All can be done.", "grade": 5},
        "data_alignment": {"reason": "Few rows.", "grade": 3},
        "toolset_completeness": {"reason": "Nothing reserves a book.", "grade": 4},
        "problems": ["tool return_book: says nothing of fines"],
    }
)


def library(folder: Path, *tasks: dict[str, Any]) -> Path:
    pack = new_pack("library", folder)
    lines = (pack / "tasks.jsonl").read_text()
    (pack / "tasks.jsonl").write_text(lines + "".join(f"{json.dumps(task)}\n" for task in tasks))
    return pack


async def assessed(pack: Path) -> QualityReport:
    (report,) = await assess_packs([pack])
    return report


async def reviewed(pack: Path, server: ModelServer, folder: Path | None = None) -> QualityReport:
    async with answering(server) as endpoint:
        patient = msgspec.structs.replace(endpoint, pause_seconds=0.0)
        async with Llm(patient) as llm:
            (report,) = await assess_packs([pack], Judge(llm, folder))
    return report


async def test_a_sound_pack_measures_full(tmp_path: Path) -> None:
    report = await assessed(library(tmp_path))
    shares = {name: measured.share for name, measured in report.measured.items()}
    assert shares == dict.fromkeys(
        ("task_feasibility", "data_alignment", "toolset_completeness"), 1.0
    )
    assert (report.review, report.unreviewed) == (None, "no judge is set")


async def test_what_is_measured_is_what_is_wrong(tmp_path: Path) -> None:
    pack = library(
        tmp_path,
        {
            "id": "lost",
            "instruction": "Where is loan L-9999? And M-1041?",
            "verifier": {"answer": {"norm": "lost"}},
            "oracle": [{"tool": "return_book", "arguments": {"loan_id": "L-8888"}}],
            "answer": "lost",
        },
    )
    tools = pack / "tools.py"
    tools.write_text(
        tools.read_text()
        + "\n\n@tool(read_only=True)\ndef shelf(db: Database, number: int) -> dict:\n"
        '    """What stands on a shelf."""\n    return {"books": [1 / 0]}\n'
    )
    measured = (await assessed(pack)).measured
    feasible = measured["task_feasibility"]
    assert (feasible.good, feasible.of) == (3, 4)
    assert any("LOAN_NOT_FOUND" in problem for problem in feasible.problems)
    assert measured["data_alignment"].problems == ("task lost: not in the data: L-8888, L-9999",)
    complete = measured["toolset_completeness"]
    assert (complete.good, complete.of, complete.problems) == (5, 6, ("shelf breaks",))


async def test_a_judge_grades_what_cannot_be_measured(tmp_path: Path) -> None:
    server = ModelServer("I like it.", REVIEW)
    report = await reviewed(library(tmp_path), server, tmp_path / "kept")
    assert report.review is not None
    assert report.review.toolset_completeness.grade == 4
    assert (report.model, report.unreviewed, report.usage.requests) == ("solomon", "", 2)
    assert report.measured["task_feasibility"].share == 1.0, "beside it, not instead"
    system, case = server.asked[0]["messages"]
    assert "1 (unusable) to 5" in system["content"]
    for part in ("lend_book", "The Cyberiad", "unblock-by-return", '"task_feasibility"'):
        assert part in case["content"]
    assert "M-1042" not in case["content"].partition("TASKS")[2], "no verifier is shown"
    again = await reviewed(tmp_path / "library", ModelServer(Reply(status=500)), tmp_path / "kept")
    assert again.review == report.review
    assert again.usage.requests == 0


async def test_a_judge_that_cannot_answer_leaves_what_was_measured(tmp_path: Path) -> None:
    report = await reviewed(library(tmp_path), ModelServer(Reply(status=503)))
    assert report.review is None
    assert "503" in report.unreviewed
    assert report.measured["data_alignment"].share == 1.0


async def test_a_pack_that_cannot_be_read_has_nothing_measured(tmp_path: Path) -> None:
    report = await assessed(tmp_path)
    assert not report.measured
    assert "is not a pack" in report.unreviewed

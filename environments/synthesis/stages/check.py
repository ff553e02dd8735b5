"""Stage ``check``: the gate every pack passes. What fails it is mended, or dropped.

A finding that names tasks costs those tasks; one that names none is the tools', and the model is
asked to mend them. What passes is moved into its place whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from environments.catalogue import pack_digest
from environments.check.report import CheckReport, Finding
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.makeup import at_fault, gate_report, makeup_of
from environments.synthesis.mending import Job, NotMade, difference, pretty, summarised
from environments.synthesis.prompts import prompt
from environments.synthesis.stages.shapes import Checked, Judged
from environments.synthesis.stages.stage import Bench, Product, Stage
from environments.synthesis.stages.tools import Code, tool_problems
from environments.synthesis.stages.verifier import with_judged
from environments.synthesis.stages.walks import Walks
from environments.synthesis.workshop import Draft

FILE: Final = "check.json"


async def make(bench: Bench) -> Product:
    judged = _judged(bench)
    into = len(judged.tasks)
    rejected: list[Rejection] = []
    repairs: list[Repair] = []
    draft, code = bench.draft, ""
    while True:
        full = with_judged(draft, judged)
        report = await _checked(bench, full)
        if not (failed := report.failures):
            break
        ids = {task.id for task in judged.tasks}
        lost = {task: reason for task, reason in at_fault(failed) if task in ids}
        if lost:
            rejected += [Rejection(what=task, reason=reason) for task, reason in lost.items()]
            judged = _without(judged, {*lost})
        elif code or bench.members:
            raise NotMade([_told(finding) for finding in failed], repairs)
        else:
            code, repairs = await _mended(bench, full, failed)
            draft = replace(draft, tools=code)
        if not judged.tasks:
            raise NotMade(["no task passes", *(one.reason for one in rejected)], repairs)
    digest = _publish(bench, full)
    environment = await bench.workshop.opened(full, bench.members)
    makeup = makeup_of(environment, judged.tasks, report)
    checked = Checked(digest=digest, makeup=makeup, code=code)
    return Product(pretty(checked).encode(), repairs, rejected, into, len(judged.tasks))


def _judged(bench: Bench) -> Judged:
    """The tasks that were thought of, and those that came of walks."""
    judged = bench.read("verifier.json", Judged)
    walked = bench.read("walks.json", Walks).tasks
    return msgspec.structs.replace(judged, tasks=(*judged.tasks, *walked))


def _without(judged: Judged, ids: set[str]) -> Judged:
    return Judged(
        tasks=tuple(task for task in judged.tasks if task.id not in ids),
        functions={name: text for name, text in judged.functions.items() if name not in ids},
        unsaid={name: text for name, text in judged.unsaid.items() if name not in ids},
    )


async def _checked(bench: Bench, draft: Draft) -> CheckReport:
    """What the gate says of a pack that lies beside those it mounts."""
    place = bench.workshop
    folder = place.lay(draft, bench.members)
    return await gate_report(folder, place.store, place.sandbox)


def _told(finding: Finding) -> str:
    return f"{finding.name}: {finding.detail}"


async def _mended(bench: Bench, full: Draft, failed: Sequence[Finding]) -> tuple[str, list[Repair]]:
    """The code of the tools, mended by what the gate found."""

    async def prove(made: Code) -> Sequence[str]:
        if problems := await tool_problems(bench, made.code):
            return problems
        report = await _checked(bench, replace(full, tools=made.code))
        return [_told(finding) for finding in report.failures]

    question = prompt(
        "mend",
        code=full.tools,
        schema=full.schema,
        specification=bench.made["specification.json"].decode(),
        problems="\n".join(f"- {_told(finding)}" for finding in failed),
    )
    job = Job(Code, question, prove, lambda made: made.code, "tools.py")
    made, repairs = await bench.make(job)
    first = Repair(
        problems=tuple(summarised([_told(finding) for finding in failed])),
        changed=difference(full.tools, made.code),
        of="tools.py",
    )
    return made.code, [first, *repairs]


def _publish(bench: Bench, draft: Draft) -> str:
    """Put the pack in its place, whole, and return its digest. Raises ``NotMade`` where a pack
    stands that this run has not made."""
    name = draft.spec.name
    part, place = bench.run / "finished" / name, bench.packs / name
    shutil.rmtree(part, ignore_errors=True)
    draft.write(part)
    digest = pack_digest(part)
    if place.exists():
        before = bench.run / "environments" / name / FILE
        if not before.exists() and pack_digest(place) != digest:
            raise NotMade([f"{place} is there already, and not of this run"])
        shutil.rmtree(place)
    part.rename(place)
    return digest


STAGE: Final = Stage("check", FILE, make)

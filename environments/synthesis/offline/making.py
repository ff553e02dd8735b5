"""One environment from a blueprint: written, given tasks in the real guest, tried at the gate."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

import msgspec

from environments.catalogue import Pack, load_pack, pack_digest
from environments.check.report import CheckReport
from environments.environment import Environment
from environments.errors import EnvhubError
from environments.sandbox.host import Sandbox
from environments.spec import Task
from environments.synthesis.blueprint import Blueprint
from environments.synthesis.journal import EnvironmentRecord, Rejection, StageOutcome
from environments.synthesis.makeup import Makeup, at_fault, gate_report, makeup_of
from environments.synthesis.offline.compose import compose
from environments.synthesis.offline.fabricate import fabricate
from environments.synthesis.offline.render import render_schema, write_pack, write_tasks
from environments.synthesis.offline.tasks import sample_tasks
from snapshots import SnapshotStore

_ROUNDS: Final = 3
FEWEST: Final = 6
"""With fewer tasks an environment is no use."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one number of a run; kept beside the packs as JSON."""

    number: int
    name: str
    domain: str
    features: tuple[str, ...]
    passed: bool
    digest: str = ""
    problems: tuple[str, ...] = ()
    """Why it was rejected."""
    dropped: tuple[Rejection, ...] = ()
    """Tasks that failed a gate and were left out."""
    makeup: Makeup = Makeup()
    seconds: float = 0.0

    @property
    def record(self) -> EnvironmentRecord:
        """What reports are made of."""
        tasks = self.makeup.tasks
        problems = (Rejection(what=self.name, reason=one) for one in self.problems)
        check = StageOutcome(
            stage="check",
            passed=self.passed,
            into=tasks + len(self.dropped),
            out_of=tasks if self.passed else 0,
            seconds=self.seconds,
            rejected=(*self.dropped, *problems),
        )
        return EnvironmentRecord(
            name=self.name,
            domain=self.domain,
            outcome="passed" if self.passed else "rejected",
            reason="; ".join(self.problems),
            digest=self.digest,
            stages=(check,),
            makeup=self.makeup,
        )


class Bench:
    """A place to make environments one after the other, with workers of its own."""

    def __init__(self, store: SnapshotStore, sandbox: Sandbox) -> None:
        self.store = store
        self.sandbox = sandbox

    async def make(self, blueprint: Blueprint, seed: int, number: int, folder: Path) -> Made:
        """Make environment ``number`` in ``folder``, which is removed if it does not pass.

        Raises ``InfrastructureFault``; what is wrong with a blueprint is a problem in the answer.
        """
        started = time.perf_counter()
        design = compose(blueprint, seed, number)
        made = Made(
            number=number,
            name=design.name,
            domain=blueprint.domain,
            features=design.features,
            passed=False,
        )
        shutil.rmtree(folder, ignore_errors=True)
        try:
            schema = render_schema(design)
            rows = fabricate(design, schema)
            write_pack(design, rows, schema, folder)
            write_tasks([], folder)
            environment = await self._opened(load_pack(folder))
            sampled = await sample_tasks(design, rows, environment)
            write_tasks(sampled, folder)
            report, tasks, dropped = await self._gates(folder, sampled)
        except EnvhubError as error:
            if error.kind == "infrastructure":
                raise
            shutil.rmtree(folder, ignore_errors=True)
            return msgspec.structs.replace(
                made,
                problems=(f"{error.code}: {error.message}",),
                seconds=round(time.perf_counter() - started, 3),
            )
        problems = [f"{found.name}: {found.detail[:500]}" for found in report.failures]
        if len(tasks) < FEWEST:
            problems.append(f"only {len(tasks)} tasks")
        if problems:
            shutil.rmtree(folder, ignore_errors=True)
        return msgspec.structs.replace(
            made,
            makeup=makeup_of(environment, tasks, report),
            passed=not problems,
            digest="" if problems else pack_digest(folder),
            problems=tuple(problems),
            dropped=tuple(dropped),
            seconds=round(time.perf_counter() - started, 3),
        )

    async def _opened(self, pack: Pack) -> Environment:
        file = self.store.root / f"{pack.name}.building"
        file.unlink(missing_ok=True)
        recipe = pack.recipe()
        await self.sandbox.build(pack, recipe, file)
        snapshot = self.store.admit(recipe.digest, file, foreign_keys=pack.spec.foreign_keys)
        description = await self.sandbox.describe(pack, snapshot)
        return Environment(pack, snapshot, description, self.sandbox)

    async def _gates(
        self, folder: Path, tasks: list[Task]
    ) -> tuple[CheckReport, list[Task], list[Rejection]]:
        """Try the gates; tasks that alone are at fault are left out and the rest is tried again."""
        report = await gate_report(folder, self.store, self.sandbox)
        dropped: list[Rejection] = []
        for _ in range(_ROUNDS - 1):
            faulty = dict(at_fault(report.failures))
            if not faulty:
                break
            dropped += [
                Rejection(what=task.id, reason=faulty[task.id])
                for task in tasks
                if task.id in faulty
            ]
            tasks = [task for task in tasks if task.id not in faulty]
            write_tasks(tasks, folder)
            report = await gate_report(folder, self.store, self.sandbox)
        return report, tasks, dropped

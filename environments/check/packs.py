"""Checking packs: one, or many side by side; what was found before is not looked for again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.catalogue import pack_digest
from environments.check.gate import try_gates
from environments.check.lint import lint
from environments.check.quality import QualityReport, assess
from environments.check.report import CheckReport, Finding
from environments.check.runs import Item, Result, side_by_side
from environments.errors import PackInvalid
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.verifier.judge import Judge
from environments.whole import write_whole
from snapshots import SnapshotStore

Told = Callable[[Path, Finding | None], None]
"""Hears of each finding of each pack, and of ``None`` when that pack is done."""

_SOURCES: Final = Path(__file__).parents[2]


async def check_pack(path: Path) -> CheckReport:
    """Try every gate on the pack in folder ``path``, with workers of its own.

    A pack at fault is a failed finding, never an exception. Raises ``InfrastructureFault``.
    """
    (report,) = await check_packs([path])
    return report


async def lint_packs(paths: Sequence[Path], judge: Judge | None = None) -> list[CheckReport]:
    """Look for reward hacks in each pack, side by side. Raises ``InfrastructureFault``."""
    async with _workshop() as (store, sandbox):
        return await _each(paths, lambda path: lint(path, store, sandbox, judge))


async def assess_packs(paths: Sequence[Path], judge: Judge | None = None) -> list[QualityReport]:
    """Say how good each pack is, side by side. Raises ``InfrastructureFault``."""
    async with _workshop() as (store, sandbox):
        return await _each(paths, lambda path: assess(path, store, sandbox, judge))


async def check_packs(
    paths: Sequence[Path],
    *,
    kept: Path | None = None,
    again: bool = False,
    judge: Judge | None = None,
    told: Told = lambda path, finding: None,
) -> list[CheckReport]:
    """Try every gate on each pack, as many side by side as there are processors.

    Reports are kept in folder ``kept`` by the pack's digest and the version of the gates, and
    taken from there unless asked to check ``again``. Raises ``InfrastructureFault``.
    """
    reports: dict[int, CheckReport] = {}
    waiting = []
    for number, path in enumerate(paths):
        known = None if kept is None or again else known_report(kept, path, judge)
        if known is None:
            waiting.append((number, path))
        else:
            reports[number] = known
            told(path, None)
    if not waiting:
        return [reports[number] for number in range(len(paths))]
    async with checking(kept, judge=judge, told=told) as check:

        async def one(item: tuple[int, Path]) -> None:
            number, path = item
            reports[number] = await check(path)

        await _each(waiting, one)
    return [reports[number] for number in range(len(paths))]


@asynccontextmanager
async def checking(
    kept: Path | None = None,
    *,
    judge: Judge | None = None,
    told: Told = lambda path, finding: None,
) -> AsyncIterator[Callable[[Path], Coroutine[Any, Any, CheckReport]]]:
    """Workers for checking packs as they come, and what to call with the folder of each.

    Its reports are kept in folder ``kept``, but not taken from there; see ``known_report``.
    """
    async with _workshop() as (store, sandbox):

        async def check(path: Path) -> CheckReport:
            report = await try_gates(path, store, sandbox, judge, partial(told, path))
            if kept is not None and report.digest:
                _keep(kept, report, judge)
            told(path, None)
            return report

        yield check


def known_report(kept: Path, path: Path, judge: Judge | None = None) -> CheckReport | None:
    """What was found in the pack in folder ``path`` by these gates, if that is in ``kept``."""
    try:
        file = _file(kept, pack_digest(path), judge)
    except (PackInvalid, OSError):
        return None
    if not file.is_file():
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=CheckReport, dec_hook=_path)
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(found, path=path, cached=True)


@asynccontextmanager
async def _workshop() -> AsyncIterator[tuple[SnapshotStore, Sandbox]]:
    """A place to build in, and workers."""
    with tempfile.TemporaryDirectory(prefix="envhub-check-") as scratch:
        async with Sandbox(SandboxLimits()) as sandbox:
            yield SnapshotStore(Path(scratch) / "snapshots"), sandbox


async def _each(items: Sequence[Item], do: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """As many packs side by side as there are processors."""
    return await side_by_side(items, do, at_once=os.cpu_count() or 1)


def _keep(kept: Path, report: CheckReport, judge: Judge | None) -> None:
    content = msgspec.json.encode(report, enc_hook=str)
    write_whole(_file(kept, report.digest, judge), content)


def _file(kept: Path, digest: str, judge: Judge | None) -> Path:
    judged = (
        f"-{hashlib.sha256(judge.llm.endpoint.model.encode()).hexdigest()[:8]}" if judge else ""
    )
    return kept / f"{digest}-{_gates()[:16]}{judged}.json"


@cache
def _gates() -> str:
    """What these gates are: a digest of the code that a verdict depends on."""
    total = hashlib.sha256()
    for package in ("snapshots", "environments"):
        for file in sorted((_SOURCES / package).rglob("*.py")):
            if "packs" not in file.relative_to(_SOURCES).parts[:-1]:
                total.update(file.read_bytes())
    return total.hexdigest()


def _path(kind: type, value: Any) -> Any:
    return kind(value)

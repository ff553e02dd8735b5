"""Checking packs: one, or many side by side; what was found before is not looked for again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from environments.catalogue import pack_digest
from environments.check.gate import try_gates
from environments.check.report import CheckReport, Finding
from environments.errors import PackInvalid
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.verifier.judge import Judge
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
        known = None if kept is None or again else _known(kept, path, judge)
        if known is None:
            waiting.append((number, path))
        else:
            reports[number] = known
            told(path, None)
    if waiting:
        limiter = anyio.Semaphore(os.cpu_count() or 1)
        with tempfile.TemporaryDirectory(prefix="envhub-check-") as scratch:
            store = SnapshotStore(Path(scratch) / "snapshots")
            async with Sandbox(SandboxLimits()) as sandbox:

                async def check(number: int, path: Path) -> None:
                    async with limiter:
                        report = await try_gates(
                            path, store, sandbox, judge, lambda finding: told(path, finding)
                        )
                    reports[number] = report
                    if kept is not None and report.digest:
                        _keep(kept, report, judge)
                    told(path, None)

                async with anyio.create_task_group() as tasks:
                    for number, path in waiting:
                        tasks.start_soon(check, number, path)
    return [reports[number] for number in range(len(paths))]


def _known(kept: Path, path: Path, judge: Judge | None) -> CheckReport | None:
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


def _keep(kept: Path, report: CheckReport, judge: Judge | None) -> None:
    file = _file(kept, report.digest, judge)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(report, enc_hook=str))
    part.replace(file)


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

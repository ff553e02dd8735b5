"""What is asked of the workers that judge a run, and the files some of them want."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from environments.errors import FrameRejected, VerifierFailed
from environments.sandbox import wire
from environments.sandbox.questions import read_components, read_findings
from environments.sandbox.worker import Question
from environments.spec import CodeVerifier
from environments.trajectory import Component, Step
from snapshots.branch import Branch
from snapshots.errors import SnapshotsError


class Trial(NamedTuple):
    """The two states of a run that is judged. ``clock_ms`` is what SQL takes for now."""

    what: str
    initial: Branch
    final: Branch
    clock_ms: int


class Judged(NamedTuple):
    """What the assertions say, and the final state as its rows alone make it, if asked for."""

    components: tuple[Component, ...]
    rebuilt: Branch | None


def scoring(
    trial: Trial,
    verifier: Mapping[str, Any] | None,
    case: wire.Case,
    seconds: float,
    *,
    rebuild: bool,
) -> Question:
    """The question for a scorer; its answer is ``Judged``."""
    rules = b"" if verifier is None else msgspec.json.encode(verifier)
    encoded = msgspec.json.encode(case)

    def request(id: int, initial: wire.View | None, final: wire.View) -> wire.Request:
        assert initial is not None
        return wire.Score(
            id=id,
            initial=initial,
            final=final,
            clock_ms=trial.clock_ms,
            verifier=rules,
            case=encoded,
            rebuild=rebuild,
        )

    read = partial(_read_judged, trial.initial if rebuild else None)
    return Question(trial.what, seconds, request, read, trial.initial, trial.final)


def _read_judged(initial: Branch | None, question: Question, reply: wire.Reply) -> Judged:
    components = read_components(question, reply)
    if initial is None:
        return Judged(components, None)
    rebuilt = initial.fork()
    try:
        if reply.delta is not None:
            rebuilt.commit(reply.delta, ())
    except SnapshotsError as error:
        raise FrameRejected(f"the answer to {question.what} is refused: {error}") from error
    return Judged(components, rebuilt)


def examining(
    trial: Trial,
    code: CodeVerifier,
    paths: tuple[str, str] | None,
    run: tuple[Sequence[Step], str | None],
    seconds: float,
) -> Question:
    """The question for an examiner about ``run`` (steps and answer); its answer is ``Findings``."""
    steps, answer = run
    trajectory = msgspec.json.encode([msgspec.structs.replace(step, output="") for step in steps])

    def request(id: int, initial: wire.View | None, final: wire.View) -> wire.Request:
        assert initial is not None
        return wire.Examine(
            id=id,
            initial=initial,
            final=final,
            clock_ms=trial.clock_ms,
            code=code,
            paths=paths,
            answer=answer,
            trajectory=trajectory,
        )

    return Question(trial.what, seconds, request, read_findings, trial.initial, trial.final)


@asynccontextmanager
async def database_files(trial: Trial, folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Both states as ordinary read-only SQLite files, in a folder of their own in ``folder``.

    Writes both whole. Raises ``VerifierFailed`` afterwards if one of them was changed.
    """
    own = Path(tempfile.mkdtemp(dir=folder))
    try:
        paths = own / "initial.sqlite", own / "final.sqlite"
        for path, branch in zip(paths, (trial.initial, trial.final), strict=True):
            await asyncio.to_thread(branch.flatten, path)
            path.chmod(0o444)
        before = [_stamp(path) for path in paths]
        yield str(paths[0]), str(paths[1])
        if [_stamp(path) for path in paths] != before:
            raise VerifierFailed("the verifier wrote to a state", hint="a verifier only reads")
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size

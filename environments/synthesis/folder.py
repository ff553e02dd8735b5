"""The folder of a run: for each stage a file, to be read, edited by hand, and gone on from.

::

    run.json                     what was asked for
    scenario.json                the environments that were thought of
    environments/<name>/         tasks.json schema.sql data.json specification.json tools.py
                                 oracle.json verifier.json walks.json check.json
    answers/  spending.jsonl     what the model said, and what that cost
    record.jsonl  report.md  report.html

A stage's file is written whole, and after it a note in ``made/`` of what it was made from. A stage
whose note names what stands there now is not gone through again; one whose earlier files were
edited since is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.errors import AgentError
from environments.spec import Spec
from environments.synthesis.journal import StageOutcome
from environments.trajectory import Record
from environments.whole import write_whole

RUN: Final = "run.json"
RUNS: Final = "runs"
"""Where runs are kept, in the folder that the packs go into."""


class RunUnknown(AgentError):
    code = "SYNTHESIS_RUN_UNKNOWN"


class RunInvalid(AgentError):
    """A file of the run was edited so that it cannot be read."""

    code = "SYNTHESIS_RUN_INVALID"


class Wanted(Spec, frozen=True, kw_only=True):
    """``run.json``: what a run was asked for. While it is gone on with only the model that is asked
    and ``takes`` change."""

    sentence: str = ""
    """What the environments are to be; empty: the model is given domains to choose from."""
    count: int = 1
    """How many sentences' worth: a composite sentence gives several environments each time."""
    seed: int = 0
    model: str
    base_url: str = ""
    embedder: str = ""
    """The model of the endpoint that embeds texts; empty: their words are compared."""
    repairs: int = 5
    """How often what fails is made again."""
    tasks: int = 10
    """Of each environment."""
    walks: int = 4
    """Further tasks of each environment, by walks through the graph of its tools."""
    walk_calls: int = 5
    """How many calls such a walk takes, at most."""
    least_tables: int = 5
    least_tools: int = 8
    takes: dict[str, int] = msgspec.field(default_factory=dict)
    """Stages that are gone through anew, and how often: their answers are asked for again."""


class _Note(Record, frozen=True, kw_only=True):
    made_from: str
    outcome: StageOutcome


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path = path
        self.wanted = wanted

    @classmethod
    def begin(cls, path: Path, wanted: Wanted) -> RunFolder:
        """A new run in ``path``, which must not be there. Raises ``AgentError``."""
        if path.exists():
            raise AgentError(f"{path} is already there", hint=f"--resume {path.name}")
        path.mkdir(parents=True)
        folder = cls(path, wanted)
        write_whole(path / RUN, _pretty(wanted))
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run that is in ``path``. Raises ``RunUnknown`` and ``RunInvalid``."""
        if not (path / RUN).is_file():
            known = sorted(one.parent.name for one in path.parent.glob(f"*/{RUN}"))
            raise RunUnknown(
                f"{path} is no folder of a run",
                hint=f"there are: {', '.join(known)}" if known else "",
            )
        try:
            return cls(path, msgspec.json.decode((path / RUN).read_bytes(), type=Wanted))
        except msgspec.DecodeError as error:
            raise RunInvalid(f"{path / RUN}: {error}") from None

    def again(self, stage: str) -> None:
        """From now on ``stage`` is gone through anew, and its answers are asked for again."""
        self._want(takes={**self.wanted.takes, stage: self.wanted.takes.get(stage, 0) + 1})

    def ask(self, model: str, base_url: str) -> None:
        """From now on another model is asked."""
        self._want(model=model, base_url=base_url)

    def _want(self, **changed: Any) -> None:
        self.wanted = msgspec.structs.replace(self.wanted, **changed)
        write_whole(self.path / RUN, _pretty(self.wanted))

    def kept(self, file: str, made_from: str, environment: str = "") -> tuple[bytes, StageOutcome]:
        """What is in a stage's file, and how it was made from this.

        Raises ``KeyError`` where the stage is still to be gone through.
        """
        folder = self._folder(environment)
        note = folder / "made" / f"{file}.json"
        if not note.is_file() or not (folder / file).is_file():
            raise KeyError(file)
        found = msgspec.json.decode(note.read_bytes(), type=_Note)
        if found.made_from != made_from:
            raise KeyError(file)
        return (folder / file).read_bytes(), found.outcome

    def keep(
        self, file: str, body: bytes, made_from: str, outcome: StageOutcome, environment: str = ""
    ) -> None:
        """Write a stage's file, and then the note that it is there."""
        folder = self._folder(environment)
        note = folder / "made" / f"{file}.json"
        note.unlink(missing_ok=True)
        write_whole(folder / file, body)
        write_whole(note, _pretty(_Note(made_from=made_from, outcome=outcome)))

    def digest(self, stage: str, parts: Iterable[bytes]) -> str:
        """What a stage is made from: everything before it, and how often it was made anew."""
        total = hashlib.sha256(str(self.wanted.takes.get(stage, 0)).encode())
        for part in parts:
            total.update(len(part).to_bytes(8, "big"))
            total.update(part)
        return total.hexdigest()

    def _folder(self, environment: str) -> Path:
        return self.path / "environments" / environment if environment else self.path


def _pretty(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"

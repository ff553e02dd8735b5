"""What all stages share: what they are given, what they give, and the one repair loop.

A stage asks for something, executes it, and tells the model what came of it until it is right or
has been repaired as often as the run allows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import anyio
import msgspec

from environments.catalogue import load_pack
from environments.errors import EnvhubError
from environments.llm import LlmUnreadable
from environments.synthesis.author import Author
from environments.synthesis.folder import RunInvalid, Wanted
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.prompts import prompt
from environments.synthesis.spending import Spent
from environments.synthesis.stages.shapes import Rows, Scenario, Specification
from environments.synthesis.workshop import NO_TOOLS, Draft, Workshop

MOST_PROBLEMS: Final = 8
MOST_CHARACTERS: Final = 400
_DIFF_LINES: Final = 60
T = TypeVar("T", bound=msgspec.Struct)
S = TypeVar("S")
Item = TypeVar("Item")
Made = TypeVar("Made")


class NotMade(EnvhubError):
    """What a stage was to make is still wrong after all repairs."""

    code = "SYNTHESIS_FAILED"
    kind = "environment"

    def __init__(self, problems: Sequence[str], repairs: Sequence[Repair] = ()) -> None:
        super().__init__("; ".join(problems))
        self.repairs = tuple(repairs)


class Product(NamedTuple):
    """What a stage gives: its file, and what it took to make it."""

    body: bytes
    repairs: Sequence[Repair] = ()
    rejected: Sequence[Rejection] = ()
    into: int = 1
    out_of: int = 1


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """Something to be made: ``prove`` executes it and says what is wrong."""

    kind: type[T]
    question: str
    prove: Callable[[T], Awaitable[Sequence[str]]]
    shown: Callable[[T], str]
    """As the model and the reader of a report are shown it."""
    of: str = ""
    """Which part of the stage it is."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a stage works with. ``made`` has the files of the stages before it."""

    stage: str
    scenario: Scenario
    wanted: Wanted
    author: Author
    workshop: Workshop
    run: Path
    """The folder of the run."""
    packs: Path
    """Where packs go that passed; a world finds those it mounts there."""
    made: Mapping[str, bytes]

    @property
    def members(self) -> list[Path]:
        return [self.packs / name for name in self.scenario.environments]

    def read(self, file: str, kind: type[S]) -> S:
        """What an earlier stage made. Raises ``RunInvalid``."""
        return read_json(self.made[file], kind, f"{self.scenario.name}/{file}")

    @property
    def draft(self) -> Draft:
        """The pack as far as it is made, without tasks."""
        made = {name: body.decode() for name, body in self.made.items()}
        draft = Draft(
            self.scenario.spec,
            schema=made.get("schema.sql", ""),
            tools=made.get("tools.py", NO_TOOLS),
            policy=self._members_policy() if self.members else "",
        )
        if "data.json" in made:
            draft = replace(draft, rows=self.read("data.json", Rows))
        if "specification.json" in made:
            draft = replace(draft, policy=self.read("specification.json", Specification).policy)
        return draft

    def _members_policy(self) -> str:
        packs = [load_pack(path) for path in self.members]
        parts = [f"# {pack.spec.title}\n\n{pack.policy.strip()}\n" for pack in packs if pack.policy]
        return "\n".join(parts)

    async def make(self, job: Job[T]) -> tuple[T, list[Repair]]:
        """Have it made, and repaired until it is right.

        Raises ``NotMade``, and what ends a run: ``LlmUnavailable``, ``BudgetSpent``,
        ``InfrastructureFault``.
        """
        repairs: list[Repair] = []
        heading = prompt("heading", stage=self.stage, environment=self.scenario.name)
        question = f"{heading}{job.question}"
        answer = await self._ask(job, question, repairs)
        while problems := summarised(await job.prove(answer)):
            if len(repairs) == self.wanted.repairs:
                raise NotMade(problems, repairs)
            before = job.shown(answer)
            mend = prompt(
                "repair",
                attempt=len(repairs) + 2,
                previous=before,
                problems="\n".join(f"- {problem}" for problem in problems),
            )
            answer = await self._ask(job, f"{question}\n{mend}", repairs)
            changed = difference(before, job.shown(answer))
            repairs.append(Repair(problems=tuple(problems), changed=changed, of=job.of))
        return answer, repairs

    async def _ask(self, job: Job[T], question: str, repairs: Sequence[Repair]) -> T:
        about = Spent(stage=self.stage, environment=self.scenario.name)
        take = self.wanted.takes.get(self.stage, 0)
        try:
            return await self.author.ask(job.kind, question, about, take)
        except LlmUnreadable as error:
            raise NotMade([error.message], repairs) from error


class Stage(NamedTuple):
    """One stage: what it is called, the file it makes, and how."""

    name: str
    file: str
    make: Callable[[Bench], Awaitable[Product]]


async def each(items: Iterable[Item], do: Callable[[Item], Awaitable[Made]]) -> list[Made]:
    """``do`` for all items at once; the results in the items' order.

    Where one raises an ``EnvhubError`` the others are cancelled, and it is raised.
    """
    found: dict[int, Made] = {}
    raised: list[EnvhubError] = []

    async def one(number: int, item: Item) -> None:
        try:
            found[number] = await do(item)
        except EnvhubError as error:
            raised.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number, item in enumerate(items):
            group.start_soon(one, number, item)
    if raised:
        raise raised[0]
    return [found[number] for number in sorted(found)]


def summarised(problems: Sequence[str]) -> list[str]:
    """The first problems, each at a length that a prompt can bear."""
    shown = [_cut(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        shown.append(f"... and {len(problems) - MOST_PROBLEMS} more like these")
    return shown


def pretty(value: Any) -> str:
    """As JSON that a person reads and edits."""
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def read_json(body: bytes, kind: type[S], place: str) -> S:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise RunInvalid(f"{place}: {error}", hint="put the file right, or delete it") from None


def _cut(problem: str) -> str:
    if len(problem) <= MOST_CHARACTERS:
        return problem
    return f"{problem[: MOST_CHARACTERS // 2]} ... {problem[-MOST_CHARACTERS // 2 :]}"


def difference(before: str, after: str) -> str:
    """What changed, as a unified diff of bounded length."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]
    if len(lines) > _DIFF_LINES:
        lines = [*lines[:_DIFF_LINES], f"... and {len(lines) - _DIFF_LINES} more lines"]
    return "\n".join(lines) or "nothing"

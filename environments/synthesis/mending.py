"""The one repair loop: something is asked for and executed, and what came of it is told the model,
until it is right or has been repaired as often as it may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Final, Generic, TypeVar

import msgspec

from environments.errors import EnvhubError
from environments.llm import LlmUnreadable
from environments.synthesis.author import Author
from environments.synthesis.journal import Repair
from environments.synthesis.prompts import prompt
from environments.synthesis.spending import Spent

MOST_PROBLEMS: Final = 8
MOST_CHARACTERS: Final = 400
_DIFF_LINES: Final = 60
T = TypeVar("T", bound=msgspec.Struct)


class NotMade(EnvhubError):
    """What a stage was to make is still wrong after all repairs."""

    code = "SYNTHESIS_FAILED"
    kind = "environment"

    def __init__(self, problems: Sequence[str], repairs: Sequence[Repair] = ()) -> None:
        super().__init__("; ".join(problems))
        self.repairs = tuple(repairs)


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
class Desk:
    """Who is asked, in which stage of which environment."""

    stage: str
    environment: str
    author: Author
    repairs: int
    """How often what fails is made again."""
    take: int = 0
    """Another one is another answer to the same question."""

    async def make(self, job: Job[T]) -> tuple[T, list[Repair]]:
        """Have it made, and repaired until it is right.

        Raises ``NotMade``, and what ends a run: ``LlmUnavailable``, ``BudgetSpent``,
        ``InfrastructureFault``.
        """
        repairs: list[Repair] = []
        heading = prompt("heading", stage=self.stage, environment=self.environment)
        question = f"{heading}{job.question}"
        answer = await self._ask(job, question, repairs)
        while problems := summarised(await job.prove(answer)):
            if len(repairs) == self.repairs:
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
        about = Spent(stage=self.stage, environment=self.environment)
        try:
            return await self.author.ask(job.kind, question, about, self.take)
        except LlmUnreadable as error:
            raise NotMade([error.message], repairs) from error


def summarised(problems: Sequence[str]) -> list[str]:
    """The first problems, each at a length that a prompt can bear."""
    shown = [_cut(problem) for problem in problems[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        shown.append(f"... and {len(problems) - MOST_PROBLEMS} more like these")
    return shown


def pretty(value: Any) -> str:
    """As JSON that a person reads and edits."""
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


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

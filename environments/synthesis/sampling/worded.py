"""Instructions for walks by a language model. It is told what was done and what has to be said, and
whether that was said is looked at, so that the instruction still asks for just this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from environments.environment import Environment
from environments.spec import Spec, Task
from environments.synthesis.drafts import INTENTS
from environments.synthesis.journal import Repair
from environments.synthesis.mending import Desk, Job, pretty
from environments.synthesis.prompts import prompt
from environments.synthesis.sampling.sampler import TELLING, SampledTask
from environments.synthesis.sampling.wording import has_word

STAGE: Final = "walks"
_LONGEST: Final = 1200
_HINTS: Final = (
    "Things are named by their ids.",
    "Nobody knows ids: things are said by what people call them.",
    "Nobody knows ids: things are said by what tells them apart, by comparison, or through others.",
)
"""For each of ``INTENTS``."""


class Worded(Spec, frozen=True, kw_only=True):
    """What somebody says who wants it done."""

    instruction: str


async def worded(
    desk: Desk, environment: Environment, sampled: SampledTask
) -> tuple[Task, list[Repair]]:
    """The task with an instruction by the model at the desk, and what had to be repaired.

    Raises ``NotMade`` where it never says what it has to, and what ``Desk.make`` raises.
    """
    task = sampled.task
    hint = next(hint for intent, hint in zip(INTENTS, _HINTS, strict=True) if intent in task.tags)
    question = prompt(
        "wording",
        title=environment.pack.spec.title,
        calls="\n".join(_calls(environment, sampled)),
        plain=task.instruction,
        hint=hint,
        figures="\n".join(f"  - {figure}" for figure in sampled.figures) or "  - (nothing)",
        hidden=", ".join(sampled.hidden) or "(there are none)",
        kind="It only asks, and the answer is judged" if task.answer else "It changes something",
    )

    async def prove(made: Worded) -> Sequence[str]:
        return list(_problems(environment, sampled, made.instruction))

    job = Job(Worded, question, prove, pretty, task.id)
    made, repairs = await desk.make(job)
    return msgspec.structs.replace(task, instruction=made.instruction.strip()), repairs


def _calls(environment: Environment, sampled: SampledTask) -> Iterator[str]:
    for number, call in enumerate(sampled.task.oracle):
        tool = environment.tools[call.tool]
        yield f"{number}. {call.tool} {msgspec.json.encode(call.arguments).decode()}"
        yield f"   ({tool.description.split(chr(10))[0]})"
    if sampled.task.answer:
        yield f"and answers: {sampled.task.answer}"


def _problems(environment: Environment, sampled: SampledTask, text: str) -> Iterator[str]:
    """What an instruction leaves out, or gives away."""
    if not text.strip():
        yield "it says nothing"
        return
    if len(text) > _LONGEST:
        yield f"it has {len(text)} characters; at most {_LONGEST}"
    said = _plain(text)
    for figure in sampled.figures:
        if _plain(figure) not in said:
            yield f"it does not say {figure!r}, which nobody can know who is not told"
    for name in sampled.hidden:
        if len(name) >= TELLING and has_word(text, name):
            yield f"it says {name!r}, which the agent is to find"
    for name in environment.tools:
        if "_" in name and name in text:
            yield f"it names the tool {name}"
    answer = sampled.task.answer
    if answer and len(answer) > 1 and has_word(text, answer):
        yield f"it gives the answer away: {answer}"


def _plain(text: str) -> str:
    """Without case, and without what separates words or groups digits."""
    return re.sub(r"[\W_]+", "", text.casefold())

"""The user by rule: facts are told when they are asked for, and always in the same words.

What has been told follows from what was said before, so a fork, a rewind or a replay of an episode
finds the same user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

import jsonschema_rs

from environments.errors import InvalidArguments, PackInvalid
from environments.spec import Task, ToolSpec, UserFact, UserSpec
from environments.trajectory import Step

ASK_USER: Final = "ask_user"
GONE: Final = "(The user has gone.)"
SCRIPT: Final = "script"
_WORD: Final = re.compile(r"\w+")

TOOL: Final = ToolSpec(
    name=ASK_USER,
    title="Ask the user",
    description=(
        "Say something to the person you are helping and read what they answer: ask for what you "
        "need to know, or for their agreement. They know nothing of your tools."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "message": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "Text."}
        },
        "required": ["message"],
        "additionalProperties": False,
    },
    read_only=True,
)
_validator = jsonschema_rs.validator_for(TOOL.input_schema)


class Said(NamedTuple):
    """One exchange."""

    message: str
    reply: str


class User(Protocol):
    """Whoever answers. Raises ``InfrastructureFault`` where nobody can."""

    @property
    def name(self) -> str: ...

    async def reply(self, task: Task, talk: Sequence[Said], message: str, seed: int) -> str:
        """The answer to ``message``, after ``talk``."""
        ...


def talk_of(steps: Sequence[Step]) -> list[Said]:
    """What agent and user have said so far."""
    return [
        Said(step.arguments["message"], str(step.result))
        for step in steps
        if step.tool == ASK_USER and step.error is None
    ]


def message_in(arguments: dict[str, Any]) -> str:
    """What the agent says. Raises ``InvalidArguments``."""
    if not _validator.is_valid(arguments):
        problems = [problem.message for problem in _validator.iter_errors(arguments)]
        raise InvalidArguments(
            f"invalid arguments for {ASK_USER}: {'; '.join(problems)}", problems=problems
        )
    return str(arguments["message"])


class Script:
    """Answers by the task's facts, and by the seed where none fits."""

    name = SCRIPT

    async def reply(self, task: Task, talk: Sequence[Said], message: str, seed: int) -> str:
        user = task.user or UserSpec()
        if len(talk) >= user.patience:
            return GONE
        told: set[str] = set()
        for said in talk:
            told.update(fact.id for fact in _revealed(user, said.message, told))
        answers = [fact.says for fact in _revealed(user, message, told)]
        if answers:
            return " ".join(answers)
        digest = blake2b(f"{seed}/{task.id}/{len(talk)}".encode(), digest_size=8).digest()
        return user.otherwise[int.from_bytes(digest, "big") % len(user.otherwise)]


class Recorded:
    """Says again what was said in a run, whoever had said it."""

    name = "recorded"

    def __init__(self, steps: Sequence[Step]) -> None:
        self._talk = talk_of(steps)

    async def reply(self, task: Task, talk: Sequence[Said], message: str, seed: int) -> str:
        return self._talk[len(talk)].reply if len(talk) < len(self._talk) else GONE


def _revealed(user: UserSpec, message: str, told: set[str]) -> list[UserFact]:
    """The facts that a message asks for, in their order; one may be what another waited for."""
    words = set(_WORD.findall(message.casefold()))
    known, found = set(told), []
    for fact in user.facts:
        if known.issuperset(fact.after) and any(_asks(phrase, words) for phrase in fact.asked):
            known.add(fact.id)
            found.append(fact)
    return found


def _asks(phrase: str, words: set[str]) -> bool:
    """Whether all words of the phrase are there; ``birth*`` is any that begins with it."""
    return all(
        any(word.startswith(part[:-1]) for word in words) if part.endswith("*") else part in words
        for part in phrase.casefold().split()
    )


def check_user(user: UserSpec) -> None:
    """Raise ``PackInvalid`` for facts that nobody can ask for."""
    earlier: set[str] = set()
    for fact in user.facts:
        if fact.id in earlier:
            raise PackInvalid(f"user.facts: {fact.id!r} is there twice")
        for other in fact.after:
            if other not in earlier:
                raise PackInvalid(
                    f"user.facts: {fact.id!r} comes after {other!r}, which is not before it",
                    hint=f"facts before it: {', '.join(sorted(earlier)) or 'none'}",
                )
        if not any(phrase.strip(" *") for phrase in fact.asked):
            raise PackInvalid(f"user.facts: nothing asks for {fact.id!r}", hint="give it `asked`")
        earlier.add(fact.id)

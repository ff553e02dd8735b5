"""The user as a language model plays them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Annotated, Final

import msgspec

from environments.llm import ChatMessage, Llm
from environments.spec import Task
from environments.users.script import Said, Script

_PROMPT: Final = Template((Path(__file__).parent / "persona.txt").read_text(encoding="utf-8"))


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model must answer."""

    reply: Annotated[str, msgspec.Meta(min_length=1)]


class Persona:
    """Plays the persona of tasks that have one, with a model; other tasks have their script."""

    def __init__(self, llm: Llm) -> None:
        self.name = llm.endpoint.model
        self._llm = llm
        self._script = Script()

    async def reply(self, task: Task, talk: Sequence[Said], message: str, seed: int) -> str:
        """Raises ``LlmUnavailable`` and ``LlmUnreadable``: that is nothing the agent did."""
        user = task.user
        if user is None or not user.persona:
            return await self._script.reply(task, talk, message, seed)
        facts = "\n".join(f"- {fact.says}" for fact in user.facts) or "- nothing beyond that"
        role = _PROMPT.substitute(persona=user.persona, instruction=task.instruction, facts=facts)
        messages = [ChatMessage("system", role)]
        for said in talk:
            messages.append(ChatMessage("user", said.message))
            messages.append(ChatMessage("assistant", _json(said.reply)))
        messages.append(ChatMessage("user", message))
        answer, _ = await self._llm.ask(messages, Reply)
        return answer.reply


def _json(reply: str) -> str:
    return msgspec.json.encode(Reply(reply)).decode()

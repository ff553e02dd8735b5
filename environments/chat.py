"""A run as a chat: what the agent reads, and how much of it a policy is shown each turn.

What a policy saw when it acted is what it has to be trained on: the same window, message for
message. A ``Transcript`` keeps both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from environments.spec import ToolSpec
from environments.trajectory import ModelCall, Step, Trajectory, Window

Message = dict[str, Any]
"""A chat message as OpenAI has it. Fields of your own (token ids, log probabilities) pass
through."""
CountTokens = Callable[[Sequence[Message]], int]
"""How many tokens a prompt of these messages has."""


def openai_tool(tool: ToolSpec) -> dict[str, Any]:
    """A tool as a chat completion request offers it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    }


def conversation(
    policy: str,
    instruction: str,
    steps: Sequence[Step],
    answer: str | None,
    horizon: int | None = None,
) -> Iterator[Message]:
    """The run as a chat in which every step is a message that calls one tool.

    With a ``horizon`` every observation says how many steps remain.
    """
    yield from opening(policy, instruction)
    for step in steps:
        call = f"call_{step.index}"
        arguments = msgspec.json.encode(step.arguments).decode()
        function = {"name": step.tool, "arguments": arguments}
        yield {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        }
        remaining = None if horizon is None else horizon - step.index - 1
        yield {"role": "tool", "tool_call_id": call, "content": observation(step, remaining)}
    if answer is not None:
        yield {"role": "assistant", "content": answer}


def opening(policy: str, instruction: str) -> Iterator[Message]:
    """How a run begins: the rules of the place, then the task."""
    if policy:
        yield {"role": "system", "content": policy}
    if instruction:
        yield {"role": "user", "content": instruction}


def observation(step: Step, remaining: int | None = None) -> str:
    """What the agent reads of a step, word for word as the MCP endpoint puts it.

    ``remaining`` steps are told where the task wants it.
    """
    told = _told(step)
    return told if remaining is None else f"{told}\n{remaining_text(remaining)}"


def remaining_text(remaining: int) -> str:
    return f"[{remaining} {'step remains' if remaining == 1 else 'steps remain'}]"


def _told(step: Step) -> str:
    if step.error is None:
        return step.result if isinstance(step.result, str) else _json(step.result)
    error = step.error
    told: dict[str, Any] = {"kind": error.kind, "code": error.code, "message": error.message}
    if error.kind != "agent":
        told["message"] = f"The environment failed, not your call: {error.message}"
    if error.hint:
        told["hint"] = error.hint
    if error.kind == "agent" and error.details:
        told["details"] = error.details
    return _json({"error": told})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# --- windows -----------------------------------------------------------------------------------


def shown(
    messages: Sequence[Message], window: Window | None, count: CountTokens | None = None
) -> tuple[int, ...]:
    """Indexes of the messages that a policy with this window is shown, to answer the last one.

    What comes before the policy's first message (system and task) is always shown, then the last
    turns: each a message of the policy and what it was answered. The last turn is shown whatever
    it costs. Raises ``ValueError`` for a window of tokens without ``count``.
    """
    starts = [place for place, each in enumerate(messages) if each.get("role") == "assistant"]
    opening_length = starts[0] if starts else len(messages)
    first = 0 if window is None or window.turns is None else max(0, len(starts) - window.turns)
    if window is not None and window.tokens is not None:
        if count is None:
            raise ValueError(f"who counts tokens of {window.tokenizer}?")
        while first < len(starts) - 1 and count(
            _within(messages, opening_length, starts[first])
        ) > (window.tokens):
            first += 1
    rest = range(starts[first], len(messages)) if first < len(starts) else range(0)
    return (*range(opening_length), *rest)


def _within(messages: Sequence[Message], opening_length: int, start: int) -> list[Message]:
    return [*messages[:opening_length], *messages[start:]]


def calls_of(messages: Sequence[Message], window: Window | None) -> tuple[ModelCall, ...]:
    """One record for each message of the policy, with what it saw under a window of turns.

    Nobody here can count another's tokens: under a window of tokens there are none.
    """
    if window is not None and window.tokens is not None:
        return ()
    return tuple(
        ModelCall(prompt=shown(messages[:place], window), completion=place)
        for place, each in enumerate(messages)
        if each.get("role") == "assistant"
    )


def model_calls(trajectory: Trajectory) -> Iterator[tuple[list[Message], Message, ModelCall]]:
    """Each call of the policy's model: the exact messages it saw, its answer, and the record."""
    for call in trajectory.calls:
        prompt = [trajectory.messages[place] for place in call.prompt]
        yield prompt, trajectory.messages[call.completion], call


class Transcript:
    """What a policy sees and says as a run goes on.

    ``prompt()`` is what to send to the model now, ``reply()`` what it said; both are kept, so that
    the trajectory tells the exact messages of every call.
    """

    def __init__(
        self,
        opening: Iterable[Message] = (),
        window: Window | None = None,
        count: CountTokens | None = None,
    ) -> None:
        self.messages: list[Message] = list(opening)
        self.calls: list[ModelCall] = []
        self.window = window
        self._count = count

    def prompt(self) -> list[Message]:
        """The messages the model is shown now."""
        return [self.messages[place] for place in shown(self.messages, self.window, self._count)]

    def reply(self, message: Message, **tokens: Any) -> None:
        """What the model answered to ``prompt()``; ``tokens`` is kept untouched with the call."""
        prompt = shown(self.messages, self.window, self._count)
        self.calls.append(
            ModelCall(prompt=prompt, completion=len(self.messages), tokens=dict(tokens))
        )
        self.messages.append(message)

    def add(self, message: Message) -> None:
        """What somebody else said: a tool's answer, a user."""
        self.messages.append(message)

    def answered(self, tool_call_id: str, content: str) -> None:
        """What a tool call of the model was answered."""
        self.add({"role": "tool", "tool_call_id": tool_call_id, "content": content})

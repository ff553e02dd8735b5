"""Who plays: a model behind an endpoint, or a script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec

from environments.chat import Transcript, observation, openai_tool, opening
from environments.check.randomly import Pools, known_values, wander
from environments.environment import WAIT, Environment
from environments.episode import Episode
from environments.errors import AgentError, EpisodeEnded, HorizonReached
from environments.llm import Llm, Usage
from environments.oracle import play_oracle
from environments.record import Provenance
from environments.trajectory import Window

PATIENCE: Final = 20
"""How often the patient oracle repeats a call that a fault spoiled."""
SILENCE: Final = 3
"""How many empty replies a model may give before its run is taken to be over."""


class UnknownPolicy(AgentError):
    code = "UNKNOWN_POLICY"


class Played(msgspec.Struct, frozen=True):
    """What a policy leaves behind beside the episode's steps."""

    answer: str | None = None
    provenance: Provenance = Provenance()
    usage: Usage = Usage()


class Policy(Protocol):
    """Plays an episode to its end. Raises ``InfrastructureFault`` where the run is to be made
    again."""

    @property
    def name(self) -> str: ...

    async def play(self, episode: Episode) -> Played: ...


class Scripted:
    """A policy that is a function; what it returns is its answer."""

    def __init__(self, name: str, script: Callable[[Episode], Awaitable[str | None]]) -> None:
        self.name = name
        self._script = script

    async def play(self, episode: Episode) -> Played:
        try:
            answer = await self._script(episode)
        except (HorizonReached, EpisodeEnded):
            answer = None
        return Played(answer, Provenance(policy=self.name))


async def _oracle(episode: Episode) -> str | None:
    return (await play_oracle(episode)).answer


async def _patient(episode: Episode) -> str | None:
    return (await play_oracle(episode, PATIENCE)).answer


async def _nothing(episode: Episode) -> str | None:
    return None


@lru_cache(64)
def _pools(environment: Environment) -> Pools:
    return known_values(environment)


async def _at_random(episode: Episode) -> str | None:
    tools = [tool for tool in episode.tools.values() if tool.name != WAIT]
    return await wander(episode, tools, _pools(episode.environment))


SCRIPTS: Final[Mapping[str, Callable[[Episode], Awaitable[str | None]]]] = {
    "oracle": _oracle,
    "patient-oracle": _patient,
    "nothing": _nothing,
    "random": _at_random,
}
"""``oracle`` gives up at a fault, ``patient-oracle`` puts it right."""


def script_named(name: str) -> Scripted:
    """One of ``SCRIPTS``. Raises ``UnknownPolicy``."""
    if name not in SCRIPTS:
        raise UnknownPolicy(f"there is no policy {name!r}", hint=f"there are: {', '.join(SCRIPTS)}")
    return Scripted(name, SCRIPTS[name])


class Agent:
    """A model that calls tools until it answers without calling one.

    It is told the environment's policy and the task, sees what ``window`` leaves it of the run so
    far, and may answer once more after its last step. A call whose arguments are no JSON object is
    a step like any other malformed call.
    """

    def __init__(self, llm: Llm, window: Window | None = None) -> None:
        self.name = llm.endpoint.model
        self._llm = llm
        self._window = window

    async def play(self, episode: Episode) -> Played:
        """Raises ``LlmUnavailable`` and ``InfrastructureFault``."""
        task, pack = episode.task, episode.environment.pack
        transcript = Transcript(
            opening(pack.policy, task.instruction if task else ""), self._window
        )
        tools = [openai_tool(tool) for tool in episode.tools.values()]
        usage, answer, silent = Usage(), None, 0
        while answer is None and silent < SILENCE:
            said, cost = await self._llm.chat(transcript.prompt(), tools)
            usage += cost
            reply = _reply(said)
            transcript.reply(reply)
            if calls := reply.get("tool_calls"):
                if not await _made(episode, transcript, calls):
                    break
            elif reply["content"]:
                answer = reply["content"]
            else:
                silent += 1
                transcript.add({"role": "user", "content": "Call a tool, or give your answer."})
        given = Provenance(
            policy=self.name,
            messages=tuple(transcript.messages),
            calls=tuple(transcript.calls),
            window=self._window,
        )
        return Played(answer, given, usage)


async def _made(episode: Episode, transcript: Transcript, calls: list[dict[str, Any]]) -> bool:
    """Make a reply's calls in order; False once the episode takes no more."""
    tells = episode.task is not None and episode.task.tells_remaining
    for call in calls:
        function = call["function"]
        try:
            step = await episode.call(function["name"], _arguments(function["arguments"]))
        except (HorizonReached, EpisodeEnded):
            return False
        remaining = episode.horizon - len(episode.steps) if tells else None
        transcript.answered(call["id"], observation(step, remaining))
    return True


def _reply(said: Mapping[str, Any]) -> dict[str, Any]:
    """A model's message as it may be sent back: what endpoints add of their own is left out."""
    content = said.get("content")
    reply: dict[str, Any] = {
        "role": "assistant",
        "content": content if isinstance(content, str) else None,
    }
    calls = said.get("tool_calls")
    made = [_call(number, call) for number, call in enumerate(calls)] if calls else []
    if made:
        reply["tool_calls"] = made
    return reply


def _call(number: int, call: Any) -> dict[str, Any]:
    call = call if isinstance(call, Mapping) else {}
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments = function.get("arguments", "")
    return {
        "id": str(call.get("id") or f"call_{number}"),
        "type": "function",
        "function": {
            "name": str(function.get("name", "")),
            "arguments": arguments
            if isinstance(arguments, str)
            else msgspec.json.encode(arguments).decode(),
        },
    }


def _arguments(text: str) -> dict[str, Any]:
    """What a call's arguments say; those that say nothing are kept, under a name no tool takes."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return {"$malformed": text}

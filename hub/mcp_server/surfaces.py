"""What the hub's own URLs serve: one episode, or an environment to a person."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import AgentError, UnknownTool
from environments.spec import Task, ToolSpec
from environments.trajectory import Step, StepError
from hub.errors import body_of
from hub.mcp_server.surface import (
    CallContext,
    Contents,
    Feature,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceTemplate,
    Surface,
    ToolAnswer,
    ToolList,
)
from hub.wire import ErrorBody

CallStep = Callable[[Episode, str, dict[str, Any], str | None], Coroutine[Any, Any, Step]]
"""How a step is taken: ``call_plainly``, or around it whoever counts and logs."""

PROGRESS_SECONDS: Final = 1.0
"""How often a client that asked is told that its call still runs."""
FRESH_MS: Final = 60 * 60 * 1000
MAX_LISTED_TASKS: Final = 200
"""Tasks listed one by one as resources; the template reaches all."""
REMEMBERED_LISTS: Final = 4096

RESET: Final = ToolSpec(
    name="reset_environment",
    title="Reset environment",
    description=(
        "Put everything back to how it was at the beginning, and start the given task if one is "
        "named (without one: free play). What was done since the last reset is lost."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "Id of the task to start."},
            "seed": {"type": "integer", "minimum": 0, "description": "Default: 0."},
        },
        "additionalProperties": False,
    },
    read_only=False,
)


async def call_plainly(
    episode: Episode, tool: str, arguments: dict[str, Any], call_key: str | None
) -> Step:
    """A step with nobody around it."""
    return await episode.call(tool, arguments, call_key=call_key)


_lists: OrderedDict[tuple[int, bool], tuple[Mapping[str, ToolSpec], ToolList]] = OrderedDict()


class EpisodeSurface(Surface):
    """One episode's tools. State is in the URL, so both eras and all clients see the same."""

    fresh_ms = FRESH_MS

    def __init__(self, episode: Episode, call: CallStep = call_plainly) -> None:
        self._episode = episode
        self._call = call
        spec = episode.environment.pack.spec
        self.name, self.version, self.title = spec.name, spec.version, spec.title

    def instructions(self) -> str:
        task = self._episode.task
        policy = self._episode.environment.pack.policy
        return policy if task is None else f"{policy}\n\n# Task\n\n{task.instruction}"

    async def list_tools(self) -> ToolList:
        return listed(self._episode.tools)

    def call_tool(
        self, name: str, arguments: dict[str, Any], context: CallContext
    ) -> Coroutine[Any, Any, ToolAnswer]:
        return take_step(self._episode, name, arguments, context, self._call)


class EnvironmentSurface(Surface):
    """An environment for people with Claude or an IDE: a place of one's own, its policy and tasks.

    ``seated`` answers the episode of whoever sends a request, or ``None`` where nothing in it
    tells one client from another; then reading works and writing is answered with an URL to use.
    """

    offers: frozenset[Feature] = frozenset(("tools", "resources", "prompts", "completions"))
    fresh_ms = FRESH_MS

    def __init__(
        self,
        environment: Environment,
        seated: Callable[[CallContext], Awaitable[Episode | None]],
        *,
        url: str = "",
        reset: bool = True,
        call: CallStep = call_plainly,
    ) -> None:
        self._environment = environment
        self._seated = seated
        self._url = url
        self._reset = reset
        self._call = call
        spec = environment.pack.spec
        self.name, self.version, self.title = spec.name, spec.version, spec.title

    def instructions(self) -> str:
        return self._environment.pack.policy

    # Tools -----------------------------------------------------------------------------------

    async def list_tools(self) -> ToolList:
        return listed(self._environment.tools, reset=self._reset)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: CallContext
    ) -> ToolAnswer:
        episode = await self._seated(context)
        resets = self._reset and name == RESET.name
        if episode is not None:
            if resets:
                return await self._start_over(episode, arguments)
            return await take_step(episode, name, arguments, context, self._call)
        tool = self._environment.tools.get(name)
        if resets or (tool is not None and not tool.read_only):
            return ToolAnswer(error=self._seat_required(name))
        pristine = await Episode.start(self._environment)
        return await take_step(pristine, name, arguments, context, self._call)

    async def _start_over(self, episode: Episode, arguments: dict[str, Any]) -> ToolAnswer:
        try:
            asked = msgspec.convert(arguments, Reset)
            await episode.reset(asked.task, asked.seed)
        except msgspec.ValidationError as error:
            return ToolAnswer(
                error=ErrorBody(kind="agent", code="INVALID_ARGUMENTS", message=str(error))
            )
        except AgentError as error:
            return ToolAnswer(error=body_of(error))
        task = episode.task
        return ToolAnswer(
            result={
                "environment": self.name,
                "task": task.id if task else None,
                "instruction": task.instruction if task else None,
                "seed": episode.seed,
            }
        )

    def _seat_required(self, tool: str) -> ErrorBody:
        parts = urlsplit(self._url)
        query = urlencode([*parse_qsl(parts.query), ("seat", secrets.token_urlsafe(9))])
        url = urlunsplit(parts._replace(query=query))
        return ErrorBody(
            kind="agent",
            code="SEAT_REQUIRED",
            message=(
                f"{tool} changes state, and this address cannot tell its users apart. Use {url} "
                "instead: the state behind it is yours alone."
            ),
            hint="any name after seat= will do; state is kept under it between connections",
            details={"url": url},
        )

    # Resources -------------------------------------------------------------------------------

    async def list_resources(self) -> Sequence[Resource]:
        tasks = list(self._environment.pack.tasks.values())
        return [
            Resource(
                uri=self._address("policy"),
                name="policy",
                title=f"{self.title}: policy",
                description="The rules of this place.",
                mime_type="text/markdown",
            ),
            Resource(
                uri=self._address("tasks"),
                name="tasks",
                title=f"{self.title}: tasks",
                description=f"The {len(tasks)} tasks there are, with their difficulty.",
                mime_type="application/json",
            ),
            *(
                Resource(
                    uri=self._address("tasks", task.id),
                    name=f"task {task.id}",
                    description=f"{task.difficulty} task",
                    mime_type="text/markdown",
                )
                for task in tasks[:MAX_LISTED_TASKS]
            ),
        ]

    async def list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return [
            ResourceTemplate(
                uri_template=f"{self._address('tasks')}/{{task}}",
                name="task",
                description="One task's instruction.",
                mime_type="text/markdown",
            )
        ]

    async def read_resource(self, uri: str, context: CallContext) -> Sequence[Contents] | None:
        pack = self._environment.pack
        if uri == self._address("policy"):
            return [Contents(uri=uri, mime_type="text/markdown", text=pack.policy)]
        if uri == self._address("tasks"):
            index = [
                {"id": task.id, "difficulty": task.difficulty, "tags": list(task.tags)}
                for task in pack.tasks.values()
            ]
            return [Contents(uri=uri, mime_type="application/json", text=json.dumps(index))]
        task = pack.tasks.get(unquote(uri.removeprefix(self._address("tasks") + "/")))
        if task is None:
            return None
        return [Contents(uri=uri, mime_type="text/markdown", text=_instruction(task))]

    def _address(self, *parts: str) -> str:
        return "/".join((f"envhub://{self.name}", *(quote(part, safe="") for part in parts)))

    # Prompts ---------------------------------------------------------------------------------

    async def list_prompts(self) -> Sequence[Prompt]:
        return [
            Prompt(name="policy", title="Policy", description="The rules of this place."),
            Prompt(
                name="task",
                title="Task",
                description="Work on one of the tasks of this environment.",
                arguments=(PromptArgument(name="id", description="The task.", required=True),),
            ),
        ]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], context: CallContext
    ) -> Sequence[PromptMessage]:
        pack = self._environment.pack
        if name == "policy":
            return [PromptMessage.of(pack.policy)]
        task = pack.task(arguments["id"])
        text = f"{pack.policy}\n\n{_instruction(task)}"
        if self._reset:
            start = json.dumps({"task": task.id}, ensure_ascii=False)
            text += f"\n\nBegin by calling the tool {RESET.name} with {start}."
        return [PromptMessage.of(text)]

    async def complete(self, ref: Mapping[str, Any], argument: str, value: str) -> Sequence[str]:
        named = ref.get("name") or ref.get("uri")
        if (named, argument) not in (
            ("task", "id"),
            (f"{self._address('tasks')}/{{task}}", "task"),
        ):
            return ()
        return [task for task in self._environment.pack.tasks if task.startswith(value)]


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``reset_environment``."""

    task: str | None = None
    seed: int = 0


async def take_step(
    episode: Episode,
    name: str,
    arguments: dict[str, Any],
    context: CallContext,
    call: CallStep = call_plainly,
) -> ToolAnswer:
    """Call a tool of an episode; what the agent or the pack did wrong is the answer.

    A step that has begun ends, whatever becomes of its client: only the waiting is cancelled.
    Raises ``UnknownTool``, ``InvalidRequest`` and ``InfrastructureFault``.
    """
    step = call(episode, name, arguments, context.call_key)
    try:
        taken = await (_reported(step, context) if context.wants_progress else step)
    except AgentError as error:
        return ToolAnswer(error=body_of(error))
    task = episode.task
    told = task is not None and task.tells_remaining
    remaining = max(0, episode.horizon - taken.index - 1) if told else None
    if taken.error is None:
        return ToolAnswer(result=taken.result, step=taken, remaining=remaining)
    if taken.error.code == UnknownTool.code:
        raise UnknownTool(taken.error.message, hint=taken.error.hint)
    return ToolAnswer(error=_told(taken.error), step=taken, remaining=remaining)


async def _reported(step: Coroutine[Any, Any, Step], context: CallContext) -> Step:
    """Await ``step``, telling the client now and then that it is still running."""
    started = time.monotonic()
    running = asyncio.ensure_future(step)
    try:
        while not (await asyncio.wait({running}, timeout=PROGRESS_SECONDS))[0]:
            await context.progress(time.monotonic() - started, message="still running")
        return running.result()
    finally:
        running.cancel()


def _told(error: StepError) -> ErrorBody:
    """A step's error as the agent sees it. Where the pack is at fault, its innards stay out."""
    if error.kind == "agent":
        return ErrorBody(
            kind=error.kind,
            code=error.code,
            message=error.message,
            hint=error.hint,
            details=error.details,
        )
    return ErrorBody(
        kind=error.kind,
        code=error.code,
        message=f"The environment failed, not your call: {error.message}",
        hint=error.hint,
    )


def _instruction(task: Task) -> str:
    """A task as whoever works on it may see it: no verifier, no oracle, no answer."""
    return f"# Task {task.id}\n\n{task.instruction}"


def listed(tools: Mapping[str, ToolSpec], *, reset: bool = False) -> ToolList:
    """The list of these tools, encoded once for all who share them."""
    key = (id(tools), reset)
    known = _lists.get(key)
    if known is not None and known[0] is tools:
        return known[1]
    made = ToolList((*tools.values(), RESET) if reset else tools.values())
    _lists[key] = (tools, made)
    if len(_lists) > REMEMBERED_LISTS:
        _lists.popitem(last=False)
    return made

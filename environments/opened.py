"""One environment ready to play: a pack with its snapshot built and its tools known."""

from __future__ import annotations

import copy
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any

import anyio
import jsonschema_rs
import msgspec

from environments.assertions import Assertions, TableInfo
from environments.catalogue import Pack
from environments.errors import InvalidArguments, PackInvalid, UnknownTool
from environments.faults import NONE, plan_named
from environments.sandbox.host import Description, Moment, Sandbox, Transition
from environments.spec import FaultPlan, Task, ToolSpec
from environments.trajectory import Reward
from environments.users.script import ASK_USER, Script, User, check_user
from environments.users.script import TOOL as ASK_USER_TOOL
from environments.verifier import Attempt, RewardMode, read_plan, score_episode
from environments.verifier.judge import Judge
from snapshots import Branch, Mark, PageDelta, Snapshot, decode_delta, encode_delta

WAIT = "wait"

_MAX_PROBLEMS = 20
_MAX_PROBLEM_CHARACTERS = 400


class Environment:
    """One environment of the catalogue, opened. Holds no episode; every episode may share it."""

    def __init__(
        self,
        pack: Pack,
        snapshot: Snapshot,
        description: Description,
        sandbox: Sandbox,
        judge: Judge | None = None,
        user: User | None = None,
    ) -> None:
        self.pack = pack
        self.snapshot = snapshot
        self.sandbox = sandbox
        self.judge = judge
        """Judges the runs of those tasks that want one."""
        self.user: User = user or Script()
        """Answers where a task has a user."""
        self.faults: FaultPlan = NONE
        self.origin: Environment | None = None
        """What this is a copy of, which is there for others as long as this is."""
        self.tables: Mapping[str, TableInfo] = description.tables
        self.tools: dict[str, ToolSpec] = {tool.name: tool for tool in description.tools}
        if pack.events:
            if WAIT in self.tools:
                raise PackInvalid(
                    f"{pack.spec.name} has events and declares a tool of its own called {WAIT!r}",
                    hint="rename it: the name belongs to the tool that moves the virtual clock",
                )
            self.tools[WAIT] = _wait_tool(pack.spec.clock.max_wait_seconds)
        self._tools_with_user = {**self.tools, ASK_USER: ASK_USER_TOOL}
        self._validators = {
            tool.name: jsonschema_rs.validator_for(tool.input_schema)
            for tool in self.tools.values()
        }
        self._assertions: dict[str, Assertions] = {}
        for task in pack.tasks.values():
            try:
                self.check_task(task)
            except PackInvalid as error:
                raise PackInvalid(f"task {task.id}: {error.message}", hint=error.hint) from error
        self._prepared: dict[str, tuple[Mark, Moment]] = {}
        self._preparing = anyio.Lock()

    @property
    def name(self) -> str:
        return self.pack.spec.name

    @property
    def digest(self) -> str:
        return self.pack.digest

    def tools_for(self, task: Task | None) -> Mapping[str, ToolSpec]:
        """What an agent has in a task: the tools, and ``ask_user`` where there is somebody."""
        return self.tools if task is None or task.user is None else self._tools_with_user

    def validate(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Raise ``UnknownTool``, or ``InvalidArguments`` that names each field at fault."""
        validator = self._validators.get(tool)
        if validator is None:
            raise UnknownTool(
                f"{self.name} has no tool {tool!r}", hint=f"tools: {', '.join(sorted(self.tools))}"
            )
        try:
            if validator.is_valid(arguments):
                return
            problems = [
                f"{'.'.join(map(str, problem.instance_path)) or 'arguments'}: "
                f"{_abridged(problem.message)}"
                for problem in islice(validator.iter_errors(arguments), _MAX_PROBLEMS)
            ]
        except ValueError as error:  # deeper than the validator goes
            problems = [f"arguments: nested too deeply ({error})"]
        raise InvalidArguments(
            f"invalid arguments for {tool}: {'; '.join(problems)}", problems=problems
        )

    def check_task(self, task: Task) -> None:
        """Raise ``PackInvalid`` for a verifier that cannot judge here, or a user nobody can ask."""
        if task.user is not None:
            check_user(task.user)
            if ASK_USER in self.tools:
                raise PackInvalid(f"a task has a user, and the pack a tool called {ASK_USER!r}")
        self.assertions(task)
        read_plan(task, self.pack)

    def assertions(self, task: Task) -> Assertions:
        """What ``task`` says of changes, states, calls and answers. Raises ``PackInvalid``."""
        known = self._assertions.get(task.id)
        if known is None or known.verifier is not task.verifier:
            known = Assertions.parse(task.verifier, self.tables, self.tools_for(task))
            self._assertions[task.id] = known
        return known

    def under(self, faults: str | FaultPlan | None) -> Environment:
        """This environment, failing as a plan says; by name the pack's own plan or a preset.

        Costs a copy of a reference. Raises ``UnknownFaultPlan``.
        """
        plan = plan_named(faults, self.pack.faults)
        if plan == self.faults:
            return self
        other = copy.copy(self)
        other.faults = plan
        other.origin = self
        return other

    def heard_by(self, user: User) -> Environment:
        """This environment with another user."""
        other = copy.copy(self)
        other.user = user
        return other

    def with_tasks(self, tasks: Iterable[Task]) -> Environment:
        """This environment with other tasks, for packs in the making.

        Raises ``PackInvalid`` for a verifier that cannot judge here.
        """
        other = copy.copy(self)
        other.pack = replace(self.pack, tasks=MappingProxyType({task.id: task for task in tasks}))
        other._assertions, other._prepared = {}, {}
        for task in other.pack.tasks.values():
            other.check_task(task)
        return other

    def later(self, seconds: float) -> Environment:
        """This environment with a clock that starts so much later."""
        other = copy.copy(self)
        start = self.pack.spec.clock.start + timedelta(seconds=seconds)
        clock = msgspec.structs.replace(self.pack.spec.clock, start=start)
        other.pack = replace(self.pack, spec=msgspec.structs.replace(self.pack.spec, clock=clock))
        return other

    def isolated(self) -> Environment:
        """This environment with workers that serve one episode and no other."""
        other = copy.copy(self)
        spec = msgspec.structs.replace(self.pack.spec, isolation="episode")
        other.pack = replace(self.pack, spec=spec)
        return other

    # What moves a branch; nothing of a transition is in it until the caller commits it ----------

    def perform(
        self, branch: Branch, moment: Moment, tool: str, arguments: dict[str, Any]
    ) -> Coroutine[Any, Any, Transition]:
        """Run a tool with valid arguments. Raises what ``Sandbox.call`` raises."""
        if tool == WAIT and self.pack.events:
            return self.pass_time(branch, moment, arguments["seconds"])
        return self.sandbox.call(self.pack, branch, moment, tool, arguments)

    async def pass_time(self, branch: Branch, moment: Moment, seconds: float) -> Transition:
        """Move the clock, and with it what is scheduled. Raises what ``Sandbox.wait`` raises."""
        return await self.sandbox.wait(self.pack, branch, moment, seconds)

    async def act(self, branch: Branch, moment: Moment, statements: Sequence[str]) -> Transition:
        """Run SQL as the world does. Raises what ``Sandbox.prepare`` raises."""
        return await self.sandbox.prepare(self.pack, branch, moment, statements)

    # How states are kept -------------------------------------------------------------------------

    def encode_delta(self, delta: PageDelta, branch: Branch) -> bytes:
        """What a call wrote, as the difference from ``branch``, which does not have it yet."""
        return encode_delta(delta, branch)

    def decode_delta(self, data: bytes, branch: Branch) -> PageDelta:
        """The delta that ``encode_delta`` was given, for a branch that stands where it stood."""
        return decode_delta(data, branch)

    def decode_branch(self, data: bytes) -> Branch:
        """The branch that ``Branch.encode`` gave."""
        return Branch.decode(data, self.snapshot)

    # What a run is worth -------------------------------------------------------------------------

    async def score(self, task: Task, attempt: Attempt, mode: RewardMode | None = None) -> Reward:
        """Judge a run by the verifier of ``task``; see ``score_episode``."""
        return await score_episode(self.sandbox, self.pack, task, attempt, mode, self.judge)

    # Where a run begins --------------------------------------------------------------------------

    async def start(self, task: Task | None, seed: int) -> tuple[Branch, Moment]:
        """A fresh branch and clock where ``task`` begins (its ``initial`` statements applied).

        The statements run once per task and not once per episode: a reset is a pointer copy.
        Raises ``PackInvalid`` if they fail.
        """
        branch = self._fresh()
        moment = Moment(clock_ms=self.pack.spec.clock.start_ms, seed=seed, counters={})
        if task is None or not task.initial:
            return branch, moment
        if task.id not in self._prepared:
            async with self._preparing:
                if task.id not in self._prepared:
                    self._prepared[task.id] = await self._prepare(task)
        mark, prepared = self._prepared[task.id]
        branch.rewind(mark)
        return branch, msgspec.structs.replace(prepared, seed=seed)

    def _fresh(self) -> Branch:
        return Branch(self.snapshot)

    async def _prepare(self, task: Task) -> tuple[Mark, Moment]:
        branch = self._fresh()
        moment = Moment(clock_ms=self.pack.spec.clock.start_ms, seed=0, counters={})
        transition = await self.act(branch, moment, task.initial)
        if transition.error is not None:
            raise PackInvalid(
                f"task {task.id} of {self.name}: its initial statements fail: "
                f"{transition.error.message}"
            )
        if transition.delta is not None:
            branch.commit(transition.delta, ())
        return branch.mark(), transition.moment


def _wait_tool(max_seconds: float) -> ToolSpec:
    return ToolSpec(
        name=WAIT,
        title="Wait",
        description=(
            "Let time pass. Things may change meanwhile: a delivery arrives, a price moves, a "
            "system that was down comes back. Answers the time afterwards."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "seconds": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": max_seconds,
                    "description": "How long to wait, in seconds (3600 is an hour).",
                }
            },
            "required": ["seconds"],
            "additionalProperties": False,
        },
        read_only=False,
    )


def _abridged(problem: str) -> str:
    """``problem`` without the middle of a value it quotes at length."""
    if len(problem) <= _MAX_PROBLEM_CHARACTERS:
        return problem
    half = _MAX_PROBLEM_CHARACTERS // 2
    return f"{problem[:half]} ... {problem[-half:]}"

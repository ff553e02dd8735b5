"""Episode: one agent's run in one environment, on zero or one task. Needs no server.

    async with Episode.open("procurement", task="replace-laptop", seed=1) as episode:
        step = await episode.call("search_products", {"query": "laptop"})
        reward = await episode.score()

An episode at rest is its branch (dirty pages), its steps and its clock. One call runs at a time;
a step becomes part of the episode only when its journal has it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import anyio
import msgspec

from environments.catalogue import SHIPPED
from environments.environment import Environment, open_environments
from environments.errors import (
    AgentError,
    EnvhubError,
    EnvironmentChanged,
    EpisodeClosed,
    EpisodeEnded,
    HorizonReached,
    InfrastructureFault,
)
from environments.injection import Standing, perform
from environments.journal import (
    Closed,
    Journal,
    JournalRecord,
    Marked,
    NoJournal,
    Opened,
    Rewound,
    Scored,
    Stepped,
)
from environments.sandbox.host import Transition
from environments.spec import FaultPlan, Task, ToolSpec
from environments.timeline import Timeline, recordable
from environments.trajectory import Actor, Reward, Step, StepError, observable
from environments.unhurried import unhurried
from environments.verifier import (
    FORMAT_REWARD,
    Attempt,
    MalformedPolicy,
    RewardMode,
    changes_of,
    is_malformed,
)
from snapshots import Branch, Changeset

Status = Literal["live", "truncated", "ended", "closed"]
KEEP: Any = object()
"""``reset(task=KEEP)``: the task the episode already has."""


class Rules(TypedDict, total=False):
    """What an episode may be strict about."""

    malformed: MalformedPolicy
    """What a call of an unknown tool, or one whose arguments break its schema, comes to."""


class Episode:
    """One run. Make it with ``start``, ``open``, ``fork`` or ``replay``, never directly.

    Agent mistakes and the pack's own faults are steps with an ``error``; what raises is a misuse
    of the episode (``AgentError``) or an ``InfrastructureFault``, and then nothing has changed.
    """

    def __init__(self, environment: Environment, id: str, journal: Journal) -> None:
        self.environment = environment
        self.id = id
        self.task: Task | None = None
        self.seed = 0
        self.horizon = environment.pack.spec.limits.max_steps
        self.reward: Reward | None = None
        self.answer: str | None = None
        self.malformed: MalformedPolicy = "observe"
        self.closed = False
        self._journal = journal
        self._lock = asyncio.Lock()
        self._asked_horizon: int | None = None

    # Life ------------------------------------------------------------------------------------

    @classmethod
    async def start(
        cls,
        environment: Environment,
        *,
        task: str | None = None,
        seed: int = 0,
        horizon: int | None = None,
        id: str | None = None,
        journal: Journal | None = None,
        **rules: Unpack[Rules],
    ) -> Episode:
        """Begin an episode. ``horizon`` overrides the most steps that task and pack allow.

        Raises ``UnknownTask``, ``PackInvalid`` and ``InfrastructureFault``.
        """
        if horizon is not None and horizon < 1:
            raise AgentError(f"horizon is {horizon}", hint="an episode takes at least one step")
        episode = cls(environment, id or f"ep-{secrets.token_hex(8)}", journal or NoJournal())
        episode._asked_horizon = horizon
        episode.malformed = rules.get("malformed", "observe")
        async with episode._lock:
            await episode._begin(None if task is None else environment.pack.task(task), seed)
        return episode

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        environment: str,
        *,
        task: str | None = None,
        seed: int = 0,
        horizon: int | None = None,
        faults: str | FaultPlan | None = None,
        packs: Sequence[Path] = (SHIPPED,),
    ) -> AsyncIterator[Episode]:
        """An episode with workers of its own: ``async with Episode.open("banking") as episode``."""
        async with open_environments(packs) as environments:
            opened = (await environments.get(environment)).under(faults)
            episode = await cls.start(opened, task=task, seed=seed, horizon=horizon)
            try:
                yield episode
            finally:
                await episode.close()

    @classmethod
    async def replay(
        cls,
        environment: Environment,
        id: str,
        records: Iterable[JournalRecord],
        journal: Journal | None = None,
    ) -> Episode:
        """The episode as its journal left it; ``EnvironmentChanged`` if the pack moved on."""
        episode = cls(environment, id, journal or NoJournal())
        for record in records:
            await episode._replay(record)
        return episode

    async def _begin(self, task: Task | None, seed: int) -> None:
        line = Timeline(*await self.environment.start(task, seed))
        limit = self.environment.pack.spec.limits.max_steps
        horizon = self._asked_horizon or (task.max_steps if task else None) or limit
        opened = self._opened(task, seed, horizon, line)
        await self._journal.append(self.id, opened)
        self._place(task, seed, horizon, line)

    def _opened(self, task: Task | None, seed: int, horizon: int, line: Timeline) -> Opened:
        return Opened(
            environment=self.environment.name,
            digest=self.environment.digest,
            task=task.id if task else None,
            seed=seed,
            horizon=horizon,
            asked_horizon=self._asked_horizon,
            moment=line.moment,
            steps=tuple(line.steps),
            malformed=self.malformed,
            faults=self.environment.faults,
        )

    def _place(self, task: Task | None, seed: int, horizon: int, line: Timeline) -> None:
        self.task, self.seed, self.horizon = task, seed, horizon
        self._line = line
        self.reward = self.answer = None

    async def _replay(self, record: JournalRecord) -> None:
        match record:
            case Opened():
                if record.digest != self.environment.digest:
                    raise EnvironmentChanged(
                        f"episode {self.id} was played in another version of {record.environment}",
                        hint="put the pack back as it was, or start a new episode",
                    )
                self.environment = self.environment.under(record.faults)
                task = self.environment.pack.task(record.task) if record.task else None
                branch, _ = await self.environment.start(task, record.seed)
                line = Timeline(branch, record.moment, record.steps)
                self._place(task, record.seed, record.horizon, line)
                self._asked_horizon = record.asked_horizon
                self.malformed = record.malformed
                if record.pages is not None:
                    branch.rewind(self.environment.decode_branch(record.pages).mark())
            case Stepped():
                if record.delta is not None:
                    delta = self.environment.decode_delta(record.delta, self.branch)
                    self.branch.commit(delta, ())
                self._line.accept(record.step, record.moment)
            case Marked():
                self._line.mark(record.mark)
            case Rewound():
                self._go_back(record.mark)
            case Scored():
                self.reward, self.answer = record.reward, record.answer
            case Closed():
                self.closed = True

    async def reset(self, task: str | None = KEEP, seed: int | None = None) -> None:
        """Begin anew, on the same task and seed unless told otherwise. Costs microseconds."""
        async with self._lock:
            self._require_open()
            chosen = self.task
            if task is not KEEP:
                chosen = None if task is None else self.environment.pack.task(task)
            with anyio.CancelScope(shield=True):
                await self._begin(chosen, self.seed if seed is None else seed)

    async def close(self) -> None:
        """End the episode; its steps and reward stay readable. Closing twice is fine."""
        async with self._lock:
            if not self.closed:
                with anyio.CancelScope(shield=True):
                    await self._journal.append(self.id, Closed())
                self.closed = True

    # What it is ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """``truncated`` once the horizon is reached, which is not the same as ``ended``: by a
        malformed call, where the episode is strict about those."""
        if self.closed:
            return "closed"
        if self.malformed == "end" and any(map(is_malformed, self.steps[-1:])):
            return "ended"
        return "truncated" if len(self.steps) >= self.horizon else "live"

    @property
    def busy(self) -> bool:
        """Whether a call, a verdict or another operation is under way."""
        return self._lock.locked()

    @property
    def branch(self) -> Branch:
        """Its pages."""
        return self._line.branch

    @property
    def steps(self) -> Sequence[Step]:
        return self._line.steps

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        return self.environment.tools_for(self.task)

    @property
    def clock_ms(self) -> int:
        """The virtual clock, milliseconds since the epoch."""
        return self._line.moment.clock_ms

    @property
    def marks(self) -> Sequence[str]:
        return self._line.marks

    # Steps -----------------------------------------------------------------------------------

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, call_key: str | None = None
    ) -> Step:
        """Take one step. Whatever the tool, the agent or the pack did comes back as the step.

        A ``call_key`` seen before answers the recorded step and does nothing. Raises
        ``HorizonReached``, ``EpisodeClosed``, ``EpisodeEnded``, ``CallKeyReused``,
        ``InvalidArguments`` (only for what no record can hold) and ``InfrastructureFault``. A
        caller that is cancelled goes at once; a step that has begun ends all the same.
        """
        return await unhurried(self._call(tool, arguments, call_key))

    async def _call(self, tool: str, arguments: Mapping[str, Any], call_key: str | None) -> Step:
        async with self._lock:
            recorded = self._line.recorded(call_key, tool, arguments)
            if recorded is not None:
                return recorded
            self._require_open()
            if self.status == "ended":
                raise EpisodeEnded(
                    f"episode {self.id} ended with a malformed call", hint="score it, or reset it"
                )
            if len(self.steps) >= self.horizon:
                raise HorizonReached(
                    f"episode {self.id} has taken its {self.horizon} steps",
                    hint="score it, reset it, or start one with a longer horizon",
                )
            return await self._step(tool, arguments, call_key)

    async def _step(self, tool: str, given: Mapping[str, Any], call_key: str | None) -> Step:
        started = time.perf_counter()
        arguments: dict[str, Any] = {}  # of a call whose own no record can hold
        try:
            arguments = recordable(tool, given)
            line = self._line
            standing = Standing(line.branch, line.moment, line.start, line.steps, self.task)
            transition = await perform(self.environment, standing, tool, arguments)
        except InfrastructureFault:
            raise
        except EnvhubError as error:
            transition = Transition(error=StepError.of(error), moment=self._line.moment)
        limit_bytes = self.environment.pack.spec.limits.result_bytes
        result, truncated = observable(transition.result, limit_bytes)
        step = Step(
            index=len(self.steps),
            tool=tool,
            arguments=arguments,
            result=result,
            error=transition.error,
            changes=transition.commits,
            clock_ms=transition.moment.clock_ms,
            latency_ms=round((time.perf_counter() - started) * 1000, 3),
            truncated=truncated,
            call_key=call_key,
            output=transition.output,
            fault=transition.fault,
        )
        if self.malformed != "observe" and is_malformed(step):
            step = msgspec.structs.replace(step, reward=FORMAT_REWARD[self.malformed])
        before = self.branch.mark()
        delta = transition.delta
        try:
            encoded = None
            if delta is not None and self._journal.keeps_pages:
                encoded = self.environment.encode_delta(delta, self.branch)
            if delta is not None:
                self.branch.take(delta, ())
            await self._journal.append(self.id, Stepped(step, transition.moment, encoded))
        except BaseException:
            self.branch.rewind(before)
            raise
        self._line.accept(step, transition.moment)
        return step

    # Time travel -----------------------------------------------------------------------------

    async def mark(self) -> str:
        """Name this point, to ``rewind`` to it later."""
        async with self._lock:
            self._require_open()
            name = self._line.next_mark
            with anyio.CancelScope(shield=True):
                await self._journal.append(self.id, Marked(name))
            self._line.mark(name)
            return name

    async def rewind(self, mark: str) -> None:
        """Go back to a mark: state, clock and steps are what they were. Marks stay usable."""
        async with self._lock:
            self._require_open()
            steps = self._line.steps_at(mark)
            with anyio.CancelScope(shield=True):
                await self._journal.append(self.id, Rewound(mark, steps))
            self._go_back(mark)

    async def fork(self, id: str | None = None) -> Episode:
        """Another episode that stands where this one stands; neither sees the other again."""
        async with self._lock:
            self._require_open()
            child = Episode(self.environment, id or f"ep-{secrets.token_hex(8)}", self._journal)
            child._place(self.task, self.seed, self.horizon, self._line.fork())
            child._asked_horizon, child.malformed = self._asked_horizon, self.malformed
            opened = child._opened(self.task, self.seed, self.horizon, child._line)
            if self._journal.keeps_pages:
                opened = msgspec.structs.replace(opened, pages=child.branch.encode())
            with anyio.CancelScope(shield=True):
                await self._journal.append(child.id, opened)
            return child

    def _go_back(self, mark: str) -> None:
        self._line.go_back(mark)
        self.reward = self.answer = None

    # What changed, and what it is worth ------------------------------------------------------

    def changes(self, since: str | int | None = None, actor: Actor | None = None) -> Changeset:
        """Net row changes since the start, a mark, or a number of steps; of one actor or of all.

        Raises ``UnknownMark`` for a mark this episode has since been rewound past.
        """
        return changes_of(self._line.steps_since(since), actor)

    async def score(self, answer: str | None = None, mode: RewardMode | None = None) -> Reward:
        """Judge the run so far, as the task declares its reward unless ``mode`` says otherwise.

        Never raises for a verifier that fails: the reward is *unset*. Raises ``AgentError`` if the
        episode has no task.
        """
        async with self._lock:
            if self.task is None:
                raise AgentError(
                    f"episode {self.id} has no task to score", hint="reset it with a task"
                )
            with anyio.CancelScope(shield=True):
                attempt = self.attempt(self.task, answer)
                reward = await self.environment.score(self.task, attempt, mode)
                await self._journal.append(self.id, Scored(reward, answer))
            self.reward, self.answer = reward, answer
            return reward

    def attempt(self, task: Task, answer: str | None = None) -> Attempt:
        """The run so far as ``score`` judges it by the verifier of ``task``."""
        start = self.branch.fork()
        start.rewind(self._line.start)
        return Attempt(
            start=start,
            end=self.branch.fork(),
            moment=self._line.moment,
            steps=tuple(self.steps),
            answer=answer,
            malformed=self.malformed,
            probes=self.environment.assertions(task).probes,
        )

    def _require_open(self) -> None:
        if self.closed:
            raise EpisodeClosed(f"episode {self.id} is closed", hint="start a new one")

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
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import anyio
import msgspec

from environments.catalogue import SHIPPED
from environments.environment import Environment, open_environments
from environments.errors import (
    AgentError,
    CallKeyReused,
    EnvhubError,
    EnvironmentChanged,
    EpisodeClosed,
    EpisodeEnded,
    HorizonReached,
    InfrastructureFault,
    UnknownMark,
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
from environments.sandbox.host import Moment, Transition
from environments.spec import FaultPlan, Task, ToolSpec
from environments.trajectory import Actor, Reward, Step, StepError
from environments.verifier import (
    FORMAT_REWARD,
    Attempt,
    MalformedPolicy,
    RewardMode,
    changes_of,
    is_malformed,
)
from snapshots import Branch, Changeset, Mark

Status = Literal["live", "truncated", "ended", "closed"]
KEEP: Any = object()
"""``reset(task=KEEP)``: the task the episode already has."""

T = TypeVar("T")
_running: set[asyncio.Task[Any]] = set()


class Rules(TypedDict, total=False):
    """What an episode may be strict about."""

    malformed: MalformedPolicy
    """What a call of an unknown tool, or one whose arguments break its schema, comes to."""


class _Bookmark(msgspec.Struct, frozen=True):
    """A place to rewind to: the pages, the clock, and the steps that led there."""

    state: Mark
    moment: Moment
    steps: tuple[Step, ...]


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
        branch, moment = await self.environment.start(task, seed)
        limit = self.environment.pack.spec.limits.max_steps
        horizon = self._asked_horizon or (task.max_steps if task else None) or limit
        await self._journal.append(
            self.id,
            Opened(
                environment=self.environment.name,
                digest=self.environment.digest,
                task=task.id if task else None,
                seed=seed,
                horizon=horizon,
                moment=moment,
                malformed=self.malformed,
                faults=self.environment.faults,
            ),
        )
        self._place(task, seed, horizon, branch, moment)

    def _place(
        self, task: Task | None, seed: int, horizon: int, branch: Branch, moment: Moment
    ) -> None:
        self.task, self.seed, self.horizon = task, seed, horizon
        self.branch, self._start, self._moment = branch, branch.mark(), moment
        self._steps: list[Step] = []
        self._by_key: dict[str, Step] = {}
        self._marks: dict[str, _Bookmark] = {}
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
                self._place(task, record.seed, record.horizon, branch, record.moment)
                self._asked_horizon = record.horizon
                self.malformed = record.malformed
                if record.pages is not None:
                    self.branch.rewind(self.environment.decode_branch(record.pages).mark())
                self._steps = list(record.steps)
            case Stepped():
                if record.delta is not None:
                    delta = self.environment.decode_delta(record.delta, self.branch)
                    self.branch.commit(delta, ())
                self._accept(record.step, record.moment)
            case Marked():
                self._marks[record.mark] = self._bookmark()
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
        if self.malformed == "end" and any(map(is_malformed, self._steps[-1:])):
            return "ended"
        return "truncated" if len(self._steps) >= self.horizon else "live"

    @property
    def busy(self) -> bool:
        """Whether a call, a verdict or another operation is under way."""
        return self._lock.locked()

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        return self.environment.tools

    @property
    def clock_ms(self) -> int:
        """The virtual clock, milliseconds since the epoch."""
        return self._moment.clock_ms

    @property
    def marks(self) -> Sequence[str]:
        return list(self._marks)

    # Steps -----------------------------------------------------------------------------------

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, call_key: str | None = None
    ) -> Step:
        """Take one step. Whatever the tool, the agent or the pack did comes back as the step.

        A ``call_key`` seen before answers the recorded step and does nothing. Raises
        ``HorizonReached``, ``EpisodeClosed``, ``EpisodeEnded``, ``CallKeyReused`` and
        ``InfrastructureFault``. A caller that is cancelled goes at once; a step that has begun ends
        all the same.
        """
        return await _unhurried(self._call(tool, arguments, call_key))

    async def _call(self, tool: str, arguments: Mapping[str, Any], call_key: str | None) -> Step:
        async with self._lock:
            if call_key is not None and (known := self._by_key.get(call_key)) is not None:
                return _repeat(known, tool, arguments)
            self._require_open()
            if self.status == "ended":
                raise EpisodeEnded(
                    f"episode {self.id} ended with a malformed call", hint="score it, or reset it"
                )
            if len(self._steps) >= self.horizon:
                raise HorizonReached(
                    f"episode {self.id} has taken its {self.horizon} steps",
                    hint="score it, reset it, or start one with a longer horizon",
                )
            return await self._step(tool, dict(arguments), call_key)

    async def _step(self, tool: str, arguments: dict[str, Any], call_key: str | None) -> Step:
        started = time.perf_counter()
        try:
            transition = await self._run(tool, arguments)
        except InfrastructureFault:
            raise
        except EnvhubError as error:
            transition = Transition(error=_step_error(error), moment=self._moment)
        result, truncated = self._observable(transition.result)
        step = Step(
            index=len(self._steps),
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
                self.branch.commit(delta, ())
            await self._journal.append(self.id, Stepped(step, transition.moment, encoded))
        except BaseException:
            self.branch.rewind(before)
            raise
        self._accept(step, transition.moment)
        return step

    async def _run(self, tool: str, arguments: dict[str, Any]) -> Transition:
        standing = Standing(self.branch, self._moment, self._start, self._steps)
        return await perform(self.environment, standing, tool, arguments)

    def _accept(self, step: Step, moment: Moment) -> None:
        self._moment = moment
        self._steps.append(step)
        if step.call_key is not None:
            self._by_key[step.call_key] = step

    def _observable(self, result: Any) -> tuple[Any, bool]:
        """The result within the observation limit, and whether it had to be cut."""
        limit = self.environment.pack.spec.limits.result_bytes
        encoded = result.encode() if isinstance(result, str) else msgspec.json.encode(result)
        if len(encoded) <= limit:
            return result, False
        text = encoded[:limit].decode(errors="ignore")
        return f"{text}\n[truncated: {len(encoded)} bytes, limit {limit}]", True

    # Time travel -----------------------------------------------------------------------------

    async def mark(self) -> str:
        """Name this point, to ``rewind`` to it later."""
        async with self._lock:
            self._require_open()
            name = f"m{len(self._marks) + 1}"
            with anyio.CancelScope(shield=True):
                await self._journal.append(self.id, Marked(name))
            self._marks[name] = self._bookmark()
            return name

    async def rewind(self, mark: str) -> None:
        """Go back to a mark: state, clock and steps are what they were. Marks stay usable."""
        async with self._lock:
            self._require_open()
            if mark not in self._marks:
                raise UnknownMark(
                    f"episode {self.id} has no mark {mark!r}",
                    hint=f"marks: {', '.join(self._marks) or 'none'}",
                )
            with anyio.CancelScope(shield=True):
                await self._journal.append(self.id, Rewound(mark, len(self._marks[mark].steps)))
            self._go_back(mark)

    async def fork(self, id: str | None = None) -> Episode:
        """Another episode that stands where this one stands; neither sees the other again."""
        async with self._lock:
            self._require_open()
            child = Episode(self.environment, id or f"ep-{secrets.token_hex(8)}", self._journal)
            child._place(self.task, self.seed, self.horizon, self.branch.fork(), self._moment)
            child._start, child._steps = self._start, list(self._steps)
            child._asked_horizon, child.malformed = self._asked_horizon, self.malformed
            pages = child.branch.encode() if self._journal.keeps_pages else None
            with anyio.CancelScope(shield=True):
                await self._journal.append(
                    child.id,
                    Opened(
                        environment=self.environment.name,
                        digest=self.environment.digest,
                        task=self.task.id if self.task else None,
                        seed=self.seed,
                        horizon=self.horizon,
                        moment=self._moment,
                        pages=pages,
                        steps=tuple(self._steps),
                        malformed=self.malformed,
                        faults=self.environment.faults,
                    ),
                )
            return child

    def _bookmark(self) -> _Bookmark:
        return _Bookmark(self.branch.mark(), self._moment, tuple(self._steps))

    def _go_back(self, mark: str) -> None:
        bookmark = self._marks[mark]
        self.branch.rewind(bookmark.state)
        self._moment = bookmark.moment
        self._steps = list(bookmark.steps)
        self._by_key = {step.call_key: step for step in self._steps if step.call_key is not None}
        self.reward = self.answer = None

    # What changed, and what it is worth ------------------------------------------------------

    def changes(self, since: str | int | None = None, actor: Actor | None = None) -> Changeset:
        """Net row changes since the start, a mark, or a number of steps; of one actor or of all.

        Raises ``UnknownMark`` for a mark this episode has since been rewound past.
        """
        return changes_of(self._steps[self._first_step(since) :], actor)

    def _first_step(self, since: str | int | None) -> int:
        if since is None:
            return 0
        if isinstance(since, int):
            if not 0 <= since <= len(self._steps):
                raise UnknownMark(f"episode {self.id} has {len(self._steps)} steps, not {since}")
            return since
        bookmark = self._marks.get(since)
        count = len(bookmark.steps) if bookmark else 0
        if bookmark is None or tuple(self._steps[:count]) != bookmark.steps:
            raise UnknownMark(
                f"mark {since!r} is not a point this episode has passed",
                hint=f"marks: {', '.join(self._marks) or 'none'}",
            )
        return count

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
        start.rewind(self._start)
        return Attempt(
            start=start,
            end=self.branch.fork(),
            moment=self._moment,
            steps=tuple(self._steps),
            answer=answer,
            malformed=self.malformed,
            probes=self.environment.assertions(task).probes,
        )

    def _require_open(self) -> None:
        if self.closed:
            raise EpisodeClosed(f"episode {self.id} is closed", hint="start a new one")


async def _unhurried(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` in a task that ends whatever becomes of who waits for it."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_done)
    return await asyncio.shield(task)


def _done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # whoever waited may be gone: then nobody else takes it


def _repeat(known: Step, tool: str, arguments: Mapping[str, Any]) -> Step:
    if known.tool != tool or known.arguments != arguments:
        raise CallKeyReused(
            f"call key {known.call_key!r} was used for {known.tool}",
            hint="a key names one call; retries repeat the same tool and arguments",
        )
    return known


def _step_error(error: EnvhubError) -> StepError:
    return StepError(
        kind=error.kind,
        code=error.code,
        message=error.message,
        details=msgspec.to_builtins(error.details),
        hint=error.hint,
    )

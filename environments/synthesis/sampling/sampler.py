"""Tasks by walks through the graph of a pack's tools, with what they changed as the ground truth.

Works with any pack. A walk is played on an episode's branch and undone; its calls are the oracle,
what they changed makes the verifier; where they change nothing it is a question, and the answer is
judged. The instruction is put together of templates, or written by a language model. What is kept
passes what ``envhub check`` demands of a task.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import EnvironmentFault, PackInvalid
from environments.spec import OracleCall, Task
from environments.synthesis.alike import Embed
from environments.synthesis.construct import UNJUDGED, Construction, construct
from environments.synthesis.drafts import INTENTS, Draft, difficulty_of, slug_of, tags_of
from environments.synthesis.holding import held
from environments.synthesis.sampling.asking import Asker
from environments.synthesis.sampling.describing import COMPARED, EXPLICIT, Describer
from environments.synthesis.sampling.graph import ToolGraph, only_asks, tool_graph
from environments.synthesis.sampling.tables import Tables
from environments.synthesis.sampling.walker import Given, Move, Walker, assembled
from environments.synthesis.sampling.wording import Clause, clause_of, hinted, says, sentences
from environments.synthesis.walk import DeadEnd, Walk, needed, needed_places, shape_of

_ATTEMPTS: Final = 30
"""Walks for each task that is wanted, at most."""
TELLING: Final = 3
"""Shorter ids are in a text by chance."""
_FAILURES: Final = 8
"""Proofs that fail take seconds: so many of one tool are enough."""
_QUESTIONS: Final = 0.3
"""The share of tasks that only ask."""


class SampledTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a walk made, and what somebody needs who words it otherwise."""

    task: Task
    """Its instruction is the templates'."""
    figures: tuple[str, ...]
    """What an instruction has to say, in whatever words."""
    hidden: tuple[str, ...]
    """Ids that it must not say: the agent is to find them."""
    about: str = ""
    """What a question asks for."""


@dataclass(slots=True)
class Sampling:
    """Tasks that were made, and why others were not."""

    tasks: list[SampledTask] = field(default_factory=list)
    walks: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why a walk made no task, and how often."""

    @property
    def questions(self) -> int:
        """How many of the tasks change nothing."""
        return sum(one.task.answer is not None for one in self.tasks)


class _Aim(NamedTuple):
    """What a walk is to become; ``strict``: or nothing at all."""

    asks: bool
    level: int
    calls: int
    strict: bool


class Sampler:
    """Makes tasks in one environment. Make it with ``open``."""

    def __init__(
        self, environment: Environment, graph: ToolGraph, tables: Tables, seed: int
    ) -> None:
        self.graph = graph
        self._environment = environment
        self._dice = random.Random(f"{environment.name} {seed} walks")
        self._walker = Walker(environment, graph, tables, self._dice)
        seen = graph.seen.values()
        answered = (call for one in seen for call in zip(one.arguments, one.results, strict=True))
        self._describer = Describer(tables, self._dice, answered)
        self._asker = Asker(tables, self._describer, self._dice)
        self._ids: list[str] = []
        self._unfit: Counter[str] = Counter()
        """How often in a row what ended with a tool did not pass."""
        self._said = {task.instruction for task in environment.pack.tasks.values()}
        self._shapes = {shape_of(task.oracle) for task in environment.pack.tasks.values()}

    @classmethod
    async def open(
        cls, environment: Environment, seed: int = 0, embed: Embed | None = None
    ) -> Sampler:
        """Look at an environment's tools and tables. Raises what ``Episode.start`` does."""
        tables = Tables(environment)
        graph = await tool_graph(environment, tables, seed, embed)
        return cls(environment, graph, tables, seed)

    async def sample(
        self,
        count: int,
        calls: int = 5,
        told: Callable[[Task], None] = lambda task: None,
    ) -> Sampling:
        """``count`` tasks, or as many as can be had, whose oracles take 1 to about ``calls`` calls;
        no two oracles have one shape, and none has that of a task the pack has; where a pack is so
        small that too few come of it, two questions may, that ask for different things.

        ``told`` hears of each. Raises ``InfrastructureFault``.
        """
        made = Sampling()
        episode = await Episode.start(self._environment, horizon=1_000_000)
        try:
            mark = await episode.mark()
            while len(made.tasks) < count and made.walks < count * _ATTEMPTS:
                made.walks += 1
                aim = self._aim(made, count, calls)
                try:
                    sampled = await self._judged(await self._walked(episode, mark, aim))
                except (DeadEnd, PackInvalid, EnvironmentFault) as error:
                    made.reasons[_reason(error)] += 1
                    continue
                shape = shape_of(sampled.task.oracle)
                self._shapes |= {shape, f"{shape} {sampled.about}"}
                self._ids.append(sampled.task.id)
                self._said.add(sampled.task.instruction)
                made.tasks.append(sampled)
                told(sampled.task)
        finally:
            await episode.close()
        return made

    def _aim(self, made: Sampling, count: int, calls: int) -> _Aim:
        """What the next walk is to become: whatever can be had once half of the walks are gone."""
        strict = made.walks < count * _ATTEMPTS // 2
        few = made.questions < _QUESTIONS * (len(made.tasks) + 1)
        writers = not all(map(only_asks, self.graph.tools.values()))
        return _Aim(
            asks=not writers or (self._dice.random() < 0.5 and (few or not strict)),
            level=made.walks % (COMPARED + 1),
            calls=self._dice.randint(1, calls),
            strict=strict,
        )

    async def _walked(self, episode: Episode, mark: str, aim: _Aim) -> SampledTask:
        walk = Walk(episode, mark)
        try:
            if aim.asks:
                sampled = self._asked(walk, await self._walker.asking(walk, aim.calls), aim.level)
            else:
                moves = await self._walker.changing(walk, aim.calls)
                sampled = self._changed(walk, moves, aim.level)
        finally:
            await walk.undo()
        shape = shape_of(sampled.task.oracle)
        twin = f"{shape} {sampled.about}" if sampled.about and not aim.strict else shape
        if twin in self._shapes:
            raise DeadEnd("there is one like it")
        if aim.strict and len(sampled.task.oracle) < aim.calls - 1:
            raise DeadEnd("it takes fewer calls than were wanted")
        if aim.strict and aim.level and INTENTS[EXPLICIT] in sampled.task.tags:
            raise DeadEnd("nothing but its id tells it apart")
        return sampled

    def _asked(self, walk: Walk, move: Move, level: int) -> SampledTask:
        question = self._asker.question(move, walk, level)
        calls, moves = self._hinted(walk, [(move, question.clause)])
        text, hint = moves[0][1].text, moves[0][1].hint
        draft = Draft(
            f"{text[0].upper()}{text[1:]}. {hint}".strip(),
            question.clause.implicit,
            gate=question.gate,
            answer=question.answer,
        )
        if says(draft.instruction, question.answer):
            raise DeadEnd("the question tells its answer")
        return self._drafted(walk, calls, moves, draft, question.about)

    def _changed(self, walk: Walk, moves: Sequence[Move], level: int) -> SampledTask:
        shown = walk.changes()
        for move in moves:
            touched = [change for change in walk.steps[move.number].changes if change.changes]
            if not touched:
                raise DeadEnd(f"{move.tool.name} changed nothing")
        if not shown:
            raise DeadEnd("what was changed was changed back")
        said = [(move, clause_of(move, walk, self._describer, level)) for move in moves]
        calls, said = self._hinted(walk, said)
        clauses = [clause for _, clause in said]
        draft = Draft(sentences(clauses), max(clause.implicit for clause in clauses))
        return self._drafted(walk, calls, said, draft)

    def _hinted(
        self, walk: Walk, moves: Sequence[tuple[Move, Clause]]
    ) -> tuple[list[OracleCall], list[tuple[Move, Clause]]]:
        """The calls, given by value what is told by value, and the clauses with their hints."""
        calls = list(walk.calls)
        for move, clause in moves:
            given = [_told(each, clause.plain) for each in move.given]
            plain = msgspec.structs.replace(calls[move.number], arguments=assembled(given))
            calls[move.number] = plain
        feeding = [needed_places(calls, [move.number]) for move, _ in moves]
        return calls, hinted(moves, feeding, walk, self.graph, self._describer)

    def _drafted(
        self,
        walk: Walk,
        calls: Sequence[OracleCall],
        moves: Sequence[tuple[Move, Clause]],
        draft: Draft,
        about: str = "",
    ) -> SampledTask:
        oracle = tuple(needed(calls, [move.number for move, _ in moves]))
        if draft.instruction in self._said:
            raise DeadEnd("there is one like it")
        hidden = tuple(_hidden(moves))
        if any(len(name) >= TELLING and says(draft.instruction, name) for name in hidden):
            raise DeadEnd("what is to be found is told by its id, too")
        if len(oracle) > self._environment.pack.spec.limits.max_steps - 1:
            raise DeadEnd("it takes too many steps")
        task = Task(
            id=self._id(slug_of(oracle, walk)),
            instruction=draft.instruction,
            verifier=UNJUDGED if draft.gate is None else {"answer": draft.gate},
            oracle=oracle,
            answer=draft.answer,
            difficulty=difficulty_of(oracle, walk, draft),
            tags=tuple(sorted({*tags_of(draft), "walk"})),
        )
        return SampledTask(
            task=task,
            figures=tuple(dict.fromkeys(figure for _, c in moves for figure in c.figures)),
            hidden=hidden,
            about=about,
        )

    def _id(self, slug: str) -> str:
        """A name that no task has yet."""
        taken = {*self._environment.pack.tasks, *self._ids}
        names = (f"walk-{number:02d}-{slug}" for number in itertools.count(len(self._ids) + 1))
        return next(name for name in names if name not in taken)

    async def _judged(self, sampled: SampledTask) -> SampledTask:
        """The task with its verifier, once that has been held against its oracle."""
        task = sampled.task
        tool = task.oracle[-1].tool
        if self._unfit[tool] >= _FAILURES:
            raise DeadEnd(f"what {tool} does is no task")
        if task.answer is None:
            built = await construct(self._environment.with_tasks([task]), task)
            task = msgspec.structs.replace(task, verifier=_verifier(built, task.oracle))
        if problems := await held(self._environment.with_tasks([task]), task):
            self._unfit[tool] += 1
            raise DeadEnd(problems[0])
        self._unfit[tool] = 0
        return msgspec.structs.replace(sampled, task=task)


def _reason(error: Exception) -> str:
    """What is common to reasons of a kind."""
    return re.sub(r"\b(task )?[\w-]*\d[\w.-]*|'[^']*'", "…", str(error).split(": ")[0])[:80]


def _told(each: Given, plain: Sequence[Given]) -> Given:
    """What a call is given, by its value where the instruction says that."""
    return each._replace(thing=None) if each in plain else each


def _hidden(moves: Sequence[tuple[Move, Clause]]) -> Iterator[str]:
    for move, clause in moves:
        for each in move.given:
            if each.thing is not None and each not in clause.plain:
                yield str(each.thing.leaf.value)


def _verifier(built: Construction, oracle: Sequence[OracleCall]) -> dict[str, Any]:
    """All that the walk changed; of what somebody worded, case and white space do not count."""
    worded = {text for call in oracle for text in _texts(call.arguments)}
    chosen = {
        cell.name: {"norm": cell.value}
        for cell in built.cells
        if isinstance(cell.value, str) and cell.value in worded and not cell.made_up
    }
    return {"expect": built.expect(chosen, ())}


def _texts(value: Any) -> Iterator[str]:
    """The texts in arguments that are more than a word."""
    if isinstance(value, str) and " " in value:
        yield value
    for inner in value.values() if isinstance(value, Mapping) else ():
        yield from _texts(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _texts(inner)

"""Tasks by sampling: walks of moves in the real guest, whose changes are the ground truth."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import PackInvalid
from environments.spec import Difficulty, OracleCall, Task
from environments.synthesis.blueprint import Action
from environments.synthesis.construct import UNJUDGED, construct
from environments.synthesis.drafts import LEVELS, Draft, difficulty_of, slug_of, tags_of
from environments.synthesis.offline.compose import Design
from environments.synthesis.offline.describe import Scene
from environments.synthesis.offline.fabricate import BlueprintWrong, violations
from environments.synthesis.offline.moves import (
    Move,
    act,
    act_on_all,
    create,
    delete,
    instead,
    refused,
    update,
)
from environments.synthesis.offline.phrase import asked, asked_if, asked_with_fallback
from environments.synthesis.offline.questions import ask, counted
from environments.synthesis.walk import DeadEnd, Walk, needed, shape_of

WANTED: Final = 11
_ATTEMPTS: Final = 110
_EACH: Final = 3
_LONGEST: Final = 26


Family = Callable[[Scene], Awaitable[Draft]]


@dataclass
class _Kept:
    tasks: list[Task] = field(default_factory=list)
    shapes: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    used: Counter[str] = field(default_factory=Counter)

    def number(self, difficulty: Difficulty) -> int:
        return sum(task.difficulty == difficulty for task in self.tasks)


async def sample_tasks(
    design: Design, rows: sqlite3.Connection, environment: Environment, wanted: int = WANTED
) -> list[Task]:
    """Tasks of all difficulties, no two with an oracle of the same shape.

    Raises ``BlueprintWrong`` where an invariant breaks under what the tools do.
    """
    episode = await Episode.start(environment, horizon=1_000_000)
    sampler = _Sampler(design, rows, environment, episode, await episode.mark())
    try:
        return await sampler.all(wanted)
    finally:
        await episode.close()


class _Sampler:
    def __init__(
        self,
        design: Design,
        rows: sqlite3.Connection,
        environment: Environment,
        episode: Episode,
        mark: str,
    ) -> None:
        self.design = design
        self.before = rows
        self.now = sqlite3.connect(":memory:", isolation_level=None)
        rows.backup(self.now)
        self.environment = environment
        self.episode = episode
        self.mark = mark
        self.dice = random.Random(f"{design.seed}/tasks")
        self.kept = _Kept()
        self.tended = [tool for tool in design.tools if tool.job in ("create", "update", "delete")]
        self.families: dict[Difficulty, tuple[Family, ...]] = {
            "easy": (self._single, self._single, self._tended, self._question),
            "medium": (self._implied, self._tended, self._pair, self._question, self._implied),
            "hard": (self._all, self._pair, self._trap, self._chain, self._whether, self._triple),
            "expert": (
                self._triple,
                self._trap_and_more,
                self._whether_and_more,
                self._all_and_more,
            ),
        }

    async def all(self, wanted: int) -> list[Task]:
        for attempt in range(_ATTEMPTS):
            if len(self.kept.tasks) >= wanted:
                break
            aim = min(LEVELS, key=lambda level: (self.kept.number(level), LEVELS.index(level)))
            if attempt > _ATTEMPTS // 2:
                aim = self.dice.choice(LEVELS)
            await self._try(self.dice.choice(self.families[aim]), strict=attempt < _ATTEMPTS // 2)
        order = {level: place for place, level in enumerate(LEVELS)}
        return sorted(self.kept.tasks, key=lambda task: order[task.difficulty])

    async def _try(self, family: Family, strict: bool) -> None:
        self.now.execute("SAVEPOINT walk")
        walk = Walk(self.episode, self.mark)
        scene = Scene(self.design, self.before, self.now, walk, self.dice)
        try:
            draft = await family(scene)
            await self._keep(scene, draft, strict)
        except DeadEnd:
            pass
        finally:
            self.now.execute("ROLLBACK TO walk")
            self.now.execute("RELEASE walk")
            await walk.undo()

    async def _keep(self, scene: Scene, draft: Draft, strict: bool) -> None:
        walk = scene.walk
        if draft.gate is None:
            oracle = self._proved(walk, draft)
            broken = violations(self.design, self.now)
            if broken:
                calls = ", ".join(call.tool for call in walk.calls)
                raise BlueprintWrong(f"{self.design.name}: {calls} break {broken[0]!r}")
        else:
            oracle = list(walk.calls)
        difficulty = difficulty_of(oracle, walk, draft)
        shape = shape_of(oracle)
        if shape in self.kept.shapes or draft.instruction in self.kept.said:
            raise DeadEnd("there is one like it")
        if len(oracle) > _LONGEST or (strict and self.kept.number(difficulty) > _EACH):
            raise DeadEnd("not wanted")
        task = Task(
            id=f"t{len(self.kept.tasks) + 1:02d}-{slug_of(oracle, walk)}",
            instruction=draft.instruction,
            verifier=UNJUDGED if draft.gate is None else {"answer": draft.gate},
            oracle=tuple(oracle),
            answer=draft.answer,
            difficulty=difficulty,
            tags=tuple(sorted(tags_of(draft))),
            split=self.dice.choices(("train", "validation", "test"), (8, 1, 1))[0],
        )
        if draft.gate is None:
            task = await self._judged(task, draft.texts)
        self.kept.shapes.add(shape)
        self.kept.said.add(draft.instruction)
        self.kept.used.update(call.tool for call in oracle)
        self.kept.tasks.append(task)

    async def _judged(self, task: Task, texts: Collection[str]) -> Task:
        """The task, with what its oracle changes as its verifier: ``texts`` count but for case and
        white space, and the numbers that rows are given in turn not at all."""
        try:
            built = await construct(self.environment.with_tasks([task]), task)
        except PackInvalid as error:
            raise DeadEnd("what it refers to is elsewhere under another seed") from error
        chosen: dict[str, Any] = {}
        for cell in built.cells:
            if cell.value in texts:
                chosen[cell.name] = {"norm": cell.value}
            elif cell.place == "where" and cell.column == "id" and isinstance(cell.value, int):
                chosen[cell.name] = None
        return msgspec.structs.replace(task, verifier={"expect": built.expect(chosen, ())})

    def _proved(self, walk: Walk, draft: Draft) -> list[OracleCall]:
        """The calls of the walk that its changes need, each write of which must show."""
        changes = walk.changes()
        shown = {
            (table, tuple(change.key.values()))
            for table in changes.tables
            for change in changes.rows(table)
        }
        writes = []
        for number, step in enumerate(walk.steps):
            touched = {
                (table, key)
                for change in step.changes
                for table, kinds in change.changes.items()
                for key in _keys(kinds, self._key(table))
            }
            if touched:
                writes.append(number)
                if not touched & shown:
                    raise DeadEnd("a write that leaves no trace")
            elif walk.calls[number].expect_error is not None:
                writes.append(number)
        if not shown:
            raise DeadEnd("nothing changed")
        return needed(walk.calls, [*writes, *draft.decided])

    def _key(self, table: str) -> tuple[str, ...]:
        entity = next(e for e in self.design.entities.values() if e.table == table)
        return tuple(f"{name}_id" for name in entity.key) or ("id",)

    # --- what there is to do -----------------------------------------------------------------

    def _action(self, actions: Sequence[Action] | None = None) -> Action:
        """An action, rather one that few tasks have yet."""
        able = list(actions if actions is not None else self.design.actions)
        if not able:
            raise DeadEnd("no such action")
        self.dice.shuffle(able)
        return min(able, key=lambda action: self.kept.used[action.name] + self.dice.random())

    async def _move(self, scene: Scene, level: int, about: Sequence[str] = ()) -> Move:
        """Any one thing to do."""
        if self.tended and self.dice.random() < 0.2:
            return await self._tend(scene, level)
        return await act(scene, self._action(), level, about)

    async def _tend(self, scene: Scene, level: int) -> Move:
        if not self.tended:
            raise DeadEnd("nothing to tend")
        tended = list(self.tended)
        self.dice.shuffle(tended)
        tool = min(tended, key=lambda tool: self.kept.used[tool.name])
        match tool.job:
            case "create":
                return await create(scene, tool)
            case "update":
                return await update(scene, tool, level)
        return await delete(scene, tool, level)

    async def _single(self, scene: Scene) -> Draft:
        return self._of([await act(scene, self._action(), 0)])

    async def _implied(self, scene: Scene) -> Draft:
        return self._of([await act(scene, self._action(), 2)])

    async def _tended(self, scene: Scene) -> Draft:
        return self._of([await self._tend(scene, 1)])

    async def _pair(self, scene: Scene) -> Draft:
        return self._of(await self._several(scene, 2, self.dice.choice((0, 1, 2))))

    async def _triple(self, scene: Scene) -> Draft:
        return self._of(
            await self._several(scene, self.dice.choice((3, 3, 4)), self.dice.choice((0, 1, 2)))
        )

    async def _several(self, scene: Scene, number: int, level: int) -> list[Move]:
        """Moves of different kinds, rather about the same rows."""
        moves: list[Move] = []
        for _ in range(number * 3):
            if len(moves) == number:
                break
            about = [key for _, key in scene.known]
            try:
                move = await self._move(scene, level, about)
            except DeadEnd:
                if not moves:
                    raise
                continue
            if any(move.tool == other.tool for other in moves):
                raise DeadEnd("the same thing twice")
            moves.append(move)
        if len(moves) < number:
            raise DeadEnd("too few moves")
        return moves

    async def _chain(self, scene: Scene) -> Draft:
        """Make a row, then do something to it."""
        first = await self._move(scene, 1)
        new = {one: found.phrase for one, found in scene.known.items() if scene.is_new(*one)}
        if not new:
            raise DeadEnd("nothing new")
        entities = {entity for entity, _ in new}
        makers = [
            action for action in self.design.actions
            if any(take.entity in entities and not take.via for take in action.takes)
        ]  # fmt: skip
        second = await act(scene, self._action(makers), 1, [key for _, key in new])
        if not any(phrase in second.clause for phrase in new.values()):
            raise DeadEnd("not about what is new")
        return self._of([first, second])

    async def _all(self, scene: Scene) -> Draft:
        return self._of([await act_on_all(scene, self._action(self._for_one()))])

    async def _all_and_more(self, scene: Scene) -> Draft:
        every = await act_on_all(scene, self._action(self._for_one()))
        return self._of([every, await self._move(scene, 1)])

    def _for_one(self) -> list[Action]:
        named = {
            action.name: [take for take in action.takes if take.entity and not take.via]
            for action in self.design.actions
        }
        return [action for action in self.design.actions if len(named[action.name]) == 1]

    async def _trapped(self, scene: Scene) -> tuple[Draft, Move]:
        action = self._action()
        first, tried = await refused(scene, action, self.dice.choice((0, 1)))
        second = await instead(scene, action, self.dice.choice((0, 1)), tried)
        if first.clause == second.clause:
            raise DeadEnd("the same again")
        text = asked_with_fallback(first.clause, second.clause, self.dice)
        implicit = max(first.implicit, second.implicit)
        return Draft(text, implicit, traps=1, texts=(*first.texts, *second.texts)), second

    async def _trap(self, scene: Scene) -> Draft:
        return (await self._trapped(scene))[0]

    async def _trap_and_more(self, scene: Scene) -> Draft:
        draft, _ = await self._trapped(scene)
        move = await self._move(scene, 2)
        text = f"{draft.instruction} {asked([move.clause], self.dice)}"
        implicit = max(draft.implicit, move.implicit)
        return Draft(text, implicit, traps=1, texts=(*draft.texts, *move.texts))

    async def _whether(self, scene: Scene) -> Draft:
        """Two things of which one is to be done, as the rows have it."""
        condition, holds = await counted(scene)
        decided = tuple(range(len(scene.walk.calls)))
        done = await self._move(scene, self.dice.choice((0, 1)))
        clause = await self._undone(scene, done)
        first, second = (done.clause, clause) if holds else (clause, done.clause)
        text = asked_if(condition, first, second, self.dice)
        return Draft(text, done.implicit, decided=decided, texts=done.texts)

    async def _undone(self, scene: Scene, done: Move) -> str:
        """The words for something that is not to be done after all."""
        spare = Scene(self.design, self.before, self.now, Walk(self.episode, self.mark), self.dice)
        mark = await self.episode.mark()
        self.now.execute("SAVEPOINT spare")
        try:
            other = await self._move(spare, 0)
        finally:
            self.now.execute("ROLLBACK TO spare")
            self.now.execute("RELEASE spare")
            await self.episode.rewind(mark)
        if other.clause == done.clause:
            raise DeadEnd("nothing else to do")
        return other.clause

    async def _whether_and_more(self, scene: Scene) -> Draft:
        draft = await self._whether(scene)
        move = await self._move(scene, 2)
        if move.clause.lower() in draft.instruction.lower():
            raise DeadEnd("the same again")
        text = f"{draft.instruction} {asked([move.clause], self.dice)}"
        implicit = max(draft.implicit, move.implicit)
        texts = (*draft.texts, *move.texts)
        return Draft(text, implicit, decided=draft.decided, texts=texts)

    async def _question(self, scene: Scene) -> Draft:
        question = await ask(scene)
        return Draft(
            question.instruction, question.implicit, gate=question.gate, answer=question.answer
        )

    def _of(self, moves: Sequence[Move]) -> Draft:
        return Draft(
            asked([move.clause for move in moves], self.dice),
            max(move.implicit for move in moves),
            texts=tuple(text for move in moves for text in move.texts),
        )


def _keys(kinds: dict[str, Any], key: Sequence[str]) -> list[tuple[Any, ...]]:
    rows = [*kinds.get("added", ()), *kinds.get("removed", ())]
    rows += [change["key"] for change in kinds.get("changed", ())]
    return [tuple(row[name] for name in key) for row in rows]

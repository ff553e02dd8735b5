"""Making the runs of an evaluation, each once, in a folder that can be gone on with.

``runs.jsonl`` holds a trajectory for each run, written when it ends; ``evaluation.json`` says how
they were made. A run that could not be made or judged is not written, and made again the next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Final

import anyio
import msgspec

from environments.environment import Environment
from environments.episode import Episode
from environments.errors import AgentError, EnvhubError, InfrastructureFault, UnknownTask
from environments.evaluation.policies import Policy
from environments.llm import LlmUnavailable, Usage
from environments.record import read_lines, trajectory_of
from environments.spec import FaultPlan, Split, Task
from environments.trajectory import Record, Trajectory, Window
from environments.verifier import MalformedPolicy, RewardMode

RUNS: Final = "runs.jsonl"
TERMS: Final = "evaluation.json"
Key = tuple[str, str, str, int]


class EvaluationDiffers(AgentError):
    """The folder holds runs that were made under other terms."""

    code = "EVALUATION_DIFFERS"


class NotScored(InfrastructureFault):
    """Nobody could judge a run."""

    code = "NOT_SCORED"


class Terms(Record, frozen=True, kw_only=True):
    """What the runs of one evaluation have in common."""

    policy: str
    seed: int = 0
    """Of the first try; each further try has the next one."""
    horizon: int | None = None
    faults: str | FaultPlan | None = None
    malformed: MalformedPolicy = "observe"
    mode: RewardMode | None = None
    window: Window | None = None
    temperature: float | None = None


class Cost(Record, frozen=True, kw_only=True):
    """What one run took; kept in its trajectory's ``tokens`` under ``evaluation``."""

    usage: Usage = Usage()
    seconds: float = 0.0


class Try(msgspec.Struct, frozen=True):
    """One run to be made."""

    environment: Environment
    task: Task
    number: int

    @property
    def key(self) -> Key:
        return (self.environment.name, self.environment.digest, self.task.id, self.number)


class Evaluation:
    """The runs in a folder. ``made`` has those that count, by what they are a run of."""

    def __init__(self, folder: Path, terms: Terms) -> None:
        """Raises ``EvaluationDiffers``, and ``TrajectoryInvalid`` for a file that is no such."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.terms = terms
        self._agree()
        self.made: dict[Key, Trajectory] = {}
        _mend(folder / RUNS)
        if (folder / RUNS).exists():
            for run in read_lines(folder / RUNS):
                self._count(run)

    def _agree(self) -> None:
        file = self.folder / TERMS
        if not file.exists():
            file.write_bytes(msgspec.json.format(msgspec.json.encode(self.terms)) + b"\n")
            return
        known = msgspec.json.decode(file.read_bytes(), type=Terms)
        differ = [
            name
            for name in Terms.__struct_fields__
            if getattr(known, name) != getattr(self.terms, name)
        ]
        if differ:
            raise EvaluationDiffers(
                f"{self.folder} holds runs made under other terms: {', '.join(differ)}",
                hint="give another folder, or the same options",
            )

    def _count(self, run: Trajectory) -> None:
        if run.task is not None and not run.failed:
            self.made[(run.environment, run.digest, run.task, run.repetition)] = run

    async def make(
        self,
        policy: Policy,
        tries: Sequence[Try],
        at_once: int,
        told: Callable[[], None] = lambda: None,
    ) -> dict[Key, EnvhubError]:
        """Make those runs that are not there yet; returns what kept others from being made.

        ``told`` hears of each, made or not. Once a model's endpoint is out of reach no more are
        begun.
        """
        failed: dict[Key, EnvhubError] = {}
        limiter = anyio.Semaphore(at_once)
        with (self.folder / RUNS).open("ab") as file:

            async def one(item: Try) -> None:
                async with limiter:
                    gone = [each for each in failed.values() if isinstance(each, LlmUnavailable)]
                    try:
                        if gone:
                            raise gone[0]
                        _write(file, await self._made(policy, item))
                    except EnvhubError as error:
                        failed[item.key] = error
                    told()

            async with anyio.create_task_group() as group:
                for item in tries:
                    if item.key in self.made:
                        told()
                    else:
                        group.start_soon(one, item)
        return failed

    async def _made(self, policy: Policy, item: Try) -> Trajectory:
        started, terms = time.perf_counter(), self.terms
        episode = await Episode.start(
            item.environment.under(terms.faults),
            task=item.task.id,
            seed=terms.seed + item.number,
            horizon=terms.horizon,
            id=f"ep-{item.environment.name}-{item.task.id}-{item.number}",
            malformed=terms.malformed,
        )
        played = await policy.play(episode)
        reward = await episode.score(played.answer, terms.mode)
        await episode.close()
        if reward.value is None:
            raise NotScored(f"{item.task.id}: {reward.reason}")
        seconds = round(time.perf_counter() - started, 3)
        cost = Cost(usage=played.usage, seconds=seconds)
        given = msgspec.structs.replace(
            played.provenance,
            repetition=item.number,
            policy=policy.name,
            tokens={"evaluation": msgspec.to_builtins(cost)},
        )
        run = trajectory_of(episode, given)
        self._count(run)
        return run


def tries_of(
    environments: Sequence[Environment],
    count: int,
    *,
    tasks: Sequence[str] = (),
    split: Split | None = None,
) -> list[Try]:
    """``count`` tries at every task, or at those named (``task`` or ``environment/task``) or of a
    split. Raises ``UnknownTask``."""
    every = [(each, task) for each in environments for task in each.pack.tasks.values()]
    names = {word for each, task in every for word in (task.id, f"{each.name}/{task.id}")}
    for name in tasks:
        if name not in names:
            raise UnknownTask(
                f"there is no task {name!r} in {', '.join(each.name for each in environments)}",
                hint=f"did you mean {near[0]}?" if (near := get_close_matches(name, names)) else "",
            )
    return [
        Try(each, task, number)
        for each, task in every
        if (not tasks or task.id in tasks or f"{each.name}/{task.id}" in tasks)
        and (split is None or task.split == split)
        for number in range(count)
    ]


def cost_of(run: Trajectory) -> Cost:
    """What the run took, as far as it is known."""
    return msgspec.convert(run.tokens.get("evaluation", {}), Cost)


def _write(file: BinaryIO, run: Trajectory) -> None:
    file.write(msgspec.json.encode(run) + b"\n")
    file.flush()


def _mend(path: Path) -> None:
    """Take off a last line that was cut in the middle when somebody ended us."""
    if not path.exists():
        return
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        path.write_bytes(content[: content.rfind(b"\n") + 1])

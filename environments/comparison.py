"""The same runs scored in several ways: how often the ways agree, where not, and at what cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, Final, Literal

import anyio
import msgspec

from environments.environment import Environments
from environments.episode import Episode
from environments.errors import EnvhubError, PackInvalid
from environments.llm import Usage
from environments.replay import AT_ONCE, played_again
from environments.trajectory import Component, Outcome, Record, Reward, Trajectory
from environments.verifier import score_episode
from environments.verifier.judge import Case, Judge

Strategy = Literal["code", "judge", "code+judge"]
WAYS: Final[tuple[Strategy, ...]] = ("code", "judge", "code+judge")


class Score(Record, frozen=True, kw_only=True):
    """One way's view of one run."""

    outcome: Outcome
    reason: str = ""
    confidence: float | None = None
    seconds: float = 0.0
    usage: Usage = Usage()
    cached: bool = False


class Compared(Record, frozen=True, kw_only=True):
    """One run, scored each way. ``problem`` is why it could not be: it has no scores then."""

    id: str
    environment: str
    task: str | None
    scores: dict[str, Score] = msgspec.field(default_factory=dict)
    problem: str = ""

    @property
    def agree(self) -> bool:
        """Who could not score it does not disagree."""
        return len({score.outcome for score in self.scores.values()} - {"unset"}) <= 1


class Agreement(Record, frozen=True, kw_only=True):
    """How two ways compare on the runs that both of them scored."""

    one: str
    other: str
    runs: int
    agreed: int
    kappa: float | None
    """Cohen's: 1 is full agreement, 0 what chance alone would give; ``None`` if undefined."""
    passed: tuple[int, int]
    """How many runs each of the two calls complete."""


class Cost(Record, frozen=True, kw_only=True):
    """What one way took over all runs."""

    strategy: str
    scored: int
    unset: int
    seconds: float
    usage: Usage
    cached: int


class Comparison(Record, frozen=True, kw_only=True):
    """All runs, scored each way."""

    runs: tuple[Compared, ...]
    agreements: tuple[Agreement, ...]
    costs: tuple[Cost, ...]

    @property
    def disagreements(self) -> list[Compared]:
        return [run for run in self.runs if not run.agree]


async def compare(
    environments: Environments,
    trajectories: Iterable[Trajectory],
    strategies: Sequence[Strategy],
    judge: Judge | None = None,
    done: Callable[[], None] = lambda: None,
) -> Comparison:
    """Play each run again and score it each way; ``judge`` is needed for all but ``code``.

    A run that does not replay as recorded is in the comparison with its problem.
    """
    found: dict[int, Compared] = {}
    limiter = anyio.Semaphore(AT_ONCE)

    async def score(number: int, trajectory: Trajectory) -> None:
        async with limiter:
            found[number] = await _compared(environments, trajectory, strategies, judge)
        done()

    async with anyio.create_task_group() as tasks:
        for number, trajectory in enumerate(trajectories):
            tasks.start_soon(score, number, trajectory)
    runs = tuple(found[number] for number in sorted(found))
    pairs = combinations(strategies, 2)
    return Comparison(
        runs=runs,
        agreements=tuple(_agreement(runs, one, other) for one, other in pairs),
        costs=tuple(_cost(runs, strategy) for strategy in strategies),
    )


async def _compared(
    environments: Environments,
    trajectory: Trajectory,
    strategies: Sequence[Strategy],
    judge: Judge | None,
) -> Compared:
    run = Compared(id=trajectory.id, environment=trajectory.environment, task=trajectory.task)
    if trajectory.task is None:
        return msgspec.structs.replace(run, problem="it has no task")
    try:
        environment = await environments.get(trajectory.environment)
        async with played_again(environment, trajectory) as episode:
            scores = await _scores(episode, trajectory.answer, strategies, judge)
    except EnvhubError as error:
        return msgspec.structs.replace(run, problem=str(error))
    return msgspec.structs.replace(run, scores=scores)


async def _scores(
    episode: Episode, answer: str | None, strategies: Sequence[Strategy], judge: Judge | None
) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    code: Reward | None = None
    started = time.perf_counter()
    if "judge" not in strategies or len(strategies) > 1:
        code = await score_by_code(episode, answer)
    seconds = round(time.perf_counter() - started, 3)
    for strategy in strategies:
        if strategy == "code":
            assert code is not None
            scores[strategy] = Score(outcome=code.outcome, reason=code.reason, seconds=seconds)
            continue
        assert judge is not None
        signals = None if strategy == "judge" or code is None else _signals(code)
        scores[strategy] = await _by_judge(judge, case_of(episode, answer, signals))
    return scores


async def score_by_code(episode: Episode, answer: str | None) -> Reward:
    """The reward by all of the task's verifier but its ``judge``; the episode's own stays."""
    task, environment = episode.task, episode.environment
    assert task is not None
    code = {name: part for name, part in task.verifier.items() if name != "judge"}
    if not code:
        return Reward(value=None, outcome="unset", reason="the task has no code verifier")
    bare = msgspec.structs.replace(task, verifier=code)
    try:
        attempt = episode.attempt(bare, answer)
    except PackInvalid as error:  # what is left demands nothing
        return Reward(value=None, outcome="unset", reason=str(error))
    return await score_episode(environment.sandbox, environment.pack, bare, attempt)


def case_of(
    episode: Episode, answer: str | None, signals: tuple[Component, ...] | None = None
) -> Case:
    """What a judge is shown of an episode."""
    task, pack = episode.task, episode.environment.pack
    assert task is not None
    ignored = pack.spec.changes

    def changes(actor: Any) -> dict[str, Any]:
        net = episode.changes(actor=actor)
        return net.filter(tables=ignored.ignore_tables, columns=ignored.ignore_columns).to_json()

    return Case(
        instruction=task.instruction,
        policy=pack.policy,
        rubric=(task.verifier.get("judge") or {}).get("rubric", ""),
        steps=tuple(episode.steps),
        changes=changes("agent"),
        others=changes("environment"),
        answer=answer,
        signals=signals,
    )


def _signals(code: Reward) -> tuple[Component, ...]:
    if code.value is not None:
        return code.components
    return (Component(name="verifier", passed=False, weight=0.0, reason=code.reason),)


async def _by_judge(judge: Judge, case: Case) -> Score:
    started = time.perf_counter()
    try:
        verdict = await judge.verdict(case)
    except EnvhubError as error:
        seconds = round(time.perf_counter() - started, 3)
        return Score(outcome="unset", reason=str(error), seconds=seconds)
    return Score(
        outcome=verdict.outcome,
        reason=verdict.reason,
        confidence=verdict.confidence,
        seconds=round(time.perf_counter() - started, 3),
        usage=Usage() if verdict.cached else verdict.usage,
        cached=verdict.cached,
    )


def _agreement(runs: Sequence[Compared], one: str, other: str) -> Agreement:
    """On ``complete`` or not, over the runs that both scored."""
    pairs = [
        (run.scores[one].outcome == "complete", run.scores[other].outcome == "complete")
        for run in runs
        if run.scores and "unset" not in (run.scores[one].outcome, run.scores[other].outcome)
    ]
    agreed = sum(left == right for left, right in pairs)
    passed = sum(left for left, _ in pairs), sum(right for _, right in pairs)
    return Agreement(
        one=one,
        other=other,
        runs=len(pairs),
        agreed=agreed,
        kappa=_kappa(len(pairs), agreed, passed),
        passed=passed,
    )


def _kappa(runs: int, agreed: int, passed: tuple[int, int]) -> float | None:
    if not runs:
        return None
    left, right = passed[0] / runs, passed[1] / runs
    by_chance = left * right + (1 - left) * (1 - right)
    return None if by_chance == 1 else round((agreed / runs - by_chance) / (1 - by_chance), 4)


def _cost(runs: Sequence[Compared], strategy: str) -> Cost:
    scores = [run.scores[strategy] for run in runs if run.scores]
    usage = Usage()
    for score in scores:
        usage += score.usage
    unset = sum(score.outcome == "unset" for score in scores)
    return Cost(
        strategy=strategy,
        scored=len(scores) - unset,
        unset=unset,
        seconds=round(sum(score.seconds for score in scores), 3),
        usage=usage,
        cached=sum(score.cached for score in scores),
    )

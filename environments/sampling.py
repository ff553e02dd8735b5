"""Which task comes next: all alike, weighted, or those a policy neither always nor never solves.

Splits are honoured by default: a sampler draws from ``train`` unless told otherwise, and what an
environment as a whole is held out for wins over its tasks. The same seed gives the same order.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from environments.errors import AgentError
from environments.spec import Difficulty, Split

if TYPE_CHECKING:  # a client names samplers and reads no pack
    from environments.catalogue import Pack

WEIGHED = ("environment", "domain", "difficulty", "tag", "task")

Weight = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class NothingToSample(AgentError):
    """No task is in the splits and has the tags, domains and difficulties asked for."""

    code = "NOTHING_TO_SAMPLE"


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One task as a sampler sees it."""

    environment: str
    task: str
    split: Split
    difficulty: Difficulty
    domain: str
    tags: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.environment}/{self.task}"


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks are meant. What is left empty asks nothing; of several entries one must fit."""

    environments: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ("train",)
    difficulties: tuple[Difficulty, ...] = ()
    domains: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Of the task or of its environment."""

    def fits(self, candidate: Candidate) -> bool:
        return (
            (not self.environments or candidate.environment in self.environments)
            and (not self.splits or candidate.split in self.splits)
            and (not self.difficulties or candidate.difficulty in self.difficulties)
            and (not self.domains or candidate.domain in self.domains)
            and (not self.tags or not candidate.tags.isdisjoint(self.tags))
        )


class SamplerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tasks are drawn.

    ``uniform``: every task once in a shuffled order, then again in another. ``weighted``: each draw
    by weight. ``adaptive``: tasks whose recent pass rate lies in the band, those never tried, and
    now and then another, since a policy moves on.
    """

    kind: Literal["uniform", "weighted", "adaptive"] = "uniform"
    seed: int = 0
    where: TaskFilter = TaskFilter()
    weights: dict[str, Weight] = {}
    """By ``environment:…``, ``domain:…``, ``difficulty:…``, ``tag:…`` or ``task:environment/task``;
    a task's weight is the product of those that name it, 1 without any."""
    low: Share = 0.1
    high: Share = 0.9
    """The band of an adaptive sampler; both ends belong to it."""
    recent: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 32
    """Over how many of a task's last outcomes its pass rate is taken."""
    revisit: Share = 0.1
    """The share of draws an adaptive sampler takes from all tasks."""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"the band from {self.low} to {self.high} is empty")
        for key in self.weights:
            if key.partition(":")[0] not in WEIGHED:
                raise ValueError(f"a weight is for one of {': '.join(WEIGHED)}:, not {key!r}")


class SamplerState(msgspec.Struct, frozen=True, kw_only=True):
    """All that a sampler remembers; with its spec and the tasks it goes on where it was."""

    drawn: int = 0
    outcomes: dict[str, tuple[bool, ...]] = {}
    """By ``environment/task``, the last ones, oldest first."""


class Sampler:
    """Draws tasks. Raises ``NothingToSample`` if none fits."""

    def __init__(
        self,
        spec: SamplerSpec,
        candidates: Iterable[Candidate],
        state: SamplerState | None = None,
    ) -> None:
        self.spec = spec
        # the order of files and folders must not change what a seed means
        fitting = sorted(filter(spec.where.fits, candidates), key=lambda each: each.name)
        weighed = [(each, _weight(each, spec.weights)) for each in fitting]
        self.candidates = [each for each, weight in weighed if weight]
        self._weights = [weight for _, weight in weighed if weight]
        if not self.candidates:
            raise NothingToSample(
                "no task fits the sampler",
                hint="look at its splits (train by default), tags, domains, difficulties, weights",
            )
        state = state or SamplerState()
        self._drawn = state.drawn
        self._outcomes = {
            name: deque(outcomes, spec.recent) for name, outcomes in state.outcomes.items()
        }
        self._shuffled: tuple[int, list[Candidate]] = (-1, [])

    @property
    def state(self) -> SamplerState:
        outcomes = {name: tuple(outcomes) for name, outcomes in self._outcomes.items()}
        return SamplerState(drawn=self._drawn, outcomes=outcomes)

    def draw(self) -> Candidate:
        """The next task."""
        position, self._drawn = self._drawn, self._drawn + 1
        match self.spec.kind:
            case "uniform":
                return self._in_turn(position)
            case "weighted":
                return self._by_weight(position, self._weights)
            case "adaptive":
                return self._by_weight(position, self._in_band(position))

    def record(self, environment: str, task: str, passed: bool) -> None:
        """Tell how a try at a task ended; outcomes of tasks it does not draw count too."""
        name = f"{environment}/{task}"
        self._outcomes.setdefault(name, deque(maxlen=self.spec.recent)).append(passed)

    def pass_rate(self, candidate: Candidate) -> float | None:
        """Of a task's last tries the share that passed; ``None`` if there were none."""
        outcomes = self._outcomes.get(candidate.name)
        return sum(outcomes) / len(outcomes) if outcomes else None

    def _in_turn(self, position: int) -> Candidate:
        known = [
            each for each, weight in zip(self.candidates, self._weights, strict=True) if weight
        ]
        turn, place = divmod(position, len(known))
        if self._shuffled[0] != turn:
            random.Random(f"{self.spec.seed}/{turn}").shuffle(known)
            self._shuffled = (turn, known)
        return self._shuffled[1][place]

    def _by_weight(self, position: int, weights: Sequence[float]) -> Candidate:
        dice = random.Random(f"{self.spec.seed}/{position}")
        return dice.choices(self.candidates, weights)[0]

    def _in_band(self, position: int) -> list[float]:
        dice = random.Random(f"{self.spec.seed}/{position}/revisit")
        if dice.random() < self.spec.revisit:
            return self._weights
        banded = [
            weight if self._teaches(candidate) else 0.0
            for candidate, weight in zip(self.candidates, self._weights, strict=True)
        ]
        return banded if any(banded) else self._weights

    def _teaches(self, candidate: Candidate) -> bool:
        rate = self.pass_rate(candidate)
        return rate is None or self.spec.low <= rate <= self.spec.high


def candidates_of(packs: Iterable[Pack]) -> list[Candidate]:
    """The tasks of these packs."""
    return [
        Candidate(
            environment=pack.name,
            task=task.id,
            split=pack.spec.split or task.split,
            difficulty=task.difficulty,
            domain=pack.spec.domain,
            tags=frozenset((*pack.spec.tags, *task.tags)),
        )
        for pack in packs
        for task in pack.tasks.values()
    ]


def _weight(candidate: Candidate, weights: Mapping[str, float]) -> float:
    keys = [
        f"environment:{candidate.environment}",
        f"domain:{candidate.domain}",
        f"difficulty:{candidate.difficulty}",
        f"task:{candidate.name}",
        *(f"tag:{tag}" for tag in candidate.tags),
    ]
    product = 1.0
    for key in keys:
        product *= weights.get(key, 1.0)
    return product

"""The bodies of the REST API about training, as ``hub.wire`` declares those about episodes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from environments.advantages import Lesson
from environments.horizons import HorizonSchedule, Phase
from environments.sampling import SamplerSpec, TaskFilter
from environments.spec import Difficulty, Split
from environments.trajectory import Outcome, Window
from hub.wire import (
    MAX_BATCH,
    Cursor,
    EpisodeSummary,
    Request,
    Response,
    Status,
    Steps,
    Terms,
    TrainingStep,
)

# --- groups, schedules, samplers ---------------------------------------------------------------


class CreateGroup(Terms, frozen=True, kw_only=True):
    """A task by name, or one that a sampler draws. Every member begins exactly alike."""

    size: Annotated[int, msgspec.Meta(ge=1, le=256)]
    environment: str | None = None
    task: str | None = None
    sampler: str | None = None
    """A sampler by name: its next task. It hears how the members end."""
    sample: TaskFilter | None = None
    """Any task that fits, chosen by the seed."""

    def __post_init__(self) -> None:
        named = self.environment is not None and self.task is not None
        loose = named or self.environment is not None or self.task is not None
        ways = [named, self.sampler is not None, self.sample is not None]
        if sum(ways) != 1 or (loose and not named):
            raise ValueError("a group needs environment and task, or a sampler, or a sample")


class GroupInfo(Response, frozen=True, kw_only=True):
    """One group: what its members have in common, and who they are."""

    id: str
    environment: str
    task: str
    seed: int
    instruction: str
    policy: str
    """The rules of the place, as the agent is told them."""
    horizon: int
    episodes: tuple[str, ...]
    """In the order of their repetition."""
    policy_version: str | None
    training_step: int | None
    schedule: str | None
    sampler: str | None
    window: Window | None
    lease_seconds: float
    tells_remaining: bool
    """Whether the agent is told after each step how many remain."""


class Member(Response, frozen=True, kw_only=True):
    """How one episode of a group stands."""

    episode: str
    repetition: int
    status: Status
    steps: int
    reward: float | None
    outcome: Outcome | None
    """``null`` until it is scored."""
    advantage: float | None
    masked: bool
    """Whether nobody could score it, or it was closed without a verdict: it counts nowhere."""


class GroupDetail(GroupInfo, frozen=True, kw_only=True):
    members: tuple[Member, ...]
    complete: bool
    """Whether every member is scored or closed."""
    lesson: Lesson


class GroupQuery(Request, frozen=True, kw_only=True):
    after: str = ""
    """The ``next`` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class GroupList(Response, frozen=True, kw_only=True):
    groups: tuple[GroupInfo, ...]
    """In the order of their ids."""
    next: str | None


class Schedule(Request, frozen=True, kw_only=True):
    """A horizon schedule in one of three ways."""

    phases: tuple[Phase, ...] | None = None
    fixed: Steps | None = None
    """The same horizon for the whole training."""
    rounds_ctrl: dict[str, Any] | None = None
    """AgentGym-RL's ``algorithm.rounds_ctrl`` as it stands: ``type``, ``rounds`` and
    ``steps_scaling_inter``."""

    def __post_init__(self) -> None:
        if [self.phases, self.fixed, self.rounds_ctrl].count(None) != 2:
            raise ValueError("a schedule is given by phases, or fixed, or rounds_ctrl")
        self.schedule()

    def schedule(self) -> HorizonSchedule:
        """Raises ``ValueError`` saying what is wrong."""
        if self.fixed is not None:
            return HorizonSchedule.fixed(self.fixed)
        if self.rounds_ctrl is not None:
            return HorizonSchedule.from_rounds_ctrl(self.rounds_ctrl)
        return HorizonSchedule(self.phases or ())


class ScheduleInfo(Response, frozen=True, kw_only=True):
    name: str
    phases: tuple[Phase, ...]
    training_step: int
    """How far training has come: the last step the hub was told of."""
    horizon: int
    """The horizon of that step."""


class ScheduleList(Response, frozen=True, kw_only=True):
    schedules: tuple[ScheduleInfo, ...]


class Advance(Request, frozen=True, kw_only=True):
    training_step: TrainingStep


class SampledTask(Response, frozen=True, kw_only=True):
    environment: str
    task: str
    split: Split
    difficulty: Difficulty
    pass_rate: float | None = None
    """Of its last tries the share that passed; ``null`` if there were none."""


class SamplerInfo(Response, frozen=True, kw_only=True):
    name: str
    sampler: SamplerSpec
    drawn: int
    """How many tasks it has drawn."""
    tasks: tuple[SampledTask, ...]
    """Those it draws from."""


class SamplerList(Response, frozen=True, kw_only=True):
    samplers: tuple[str, ...]


class Draw(Request, frozen=True, kw_only=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = 1


class DrawnTasks(Response, frozen=True, kw_only=True):
    tasks: tuple[SampledTask, ...]


class Outcomes(Request, frozen=True, kw_only=True):
    """How tries at a task ended that were not episodes of a group of this sampler."""

    environment: str
    task: str
    passed: Annotated[tuple[bool, ...], msgspec.Meta(max_length=MAX_BATCH)]


class Forgotten(Response, frozen=True, kw_only=True):
    name: str


# --- leases, trajectories, events --------------------------------------------------------------


class RenewLeases(Request, frozen=True, kw_only=True):
    episodes: Annotated[tuple[str, ...], msgspec.Meta(max_length=4096)]


class LeaseInfo(Response, frozen=True, kw_only=True):
    episode: str
    seconds: float | None
    """From now; ``null`` if it has none (it is parked, closed or unknown)."""


class Leased(Response, frozen=True, kw_only=True):
    leases: tuple[LeaseInfo, ...]


class TrajectoryQuery(Request, frozen=True, kw_only=True):
    cursor: Cursor = 0
    """The ``Envhub-Cursor`` of the answer before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    environment: str = ""
    group: str = ""


class EventQuery(Request, frozen=True, kw_only=True):
    cursor: Cursor | None = None
    """Events after this one; by default only those to come. ``Last-Event-ID`` does the same."""
    environment: str = ""
    group: str = ""


class EpisodeFinished(EpisodeSummary, frozen=True, kw_only=True):
    """The data of the event ``finished``: an episode was closed."""

    cursor: int
    outcome: Outcome | None
    repetition: int
    policy_version: str | None
    training_step: int | None

"""The bodies of the REST API, declared once: the server decodes, validates and documents from them.

Requests refuse unknown fields, so a typo is an error and not a default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from environments.faults import FaultCurriculum
from environments.spec import Difficulty, FaultPlan, Split, ToolSpec
from environments.trajectory import Actor, ModelCall, Reward, Step, Window

Status = Literal["live", "truncated", "ended", "closed", "parked"]
"""``parked``: its lease ran out; the next request that names it takes it up again."""
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Cursor = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
MAX_BATCH = 1024
"""The most entries of one batch request."""
Steps = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
TrainingStep = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
MAX_KEY = 128
"""Characters of an idempotency key."""
LeaseSeconds = Annotated[float, msgspec.Meta(gt=0, le=7 * 86_400)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every body and query a client sends."""


class Response(msgspec.Struct, frozen=True):
    """Base of every body the hub answers with."""


class ErrorBody(Response, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, whose fault it was and what can be done about it."""

    kind: Literal["agent", "environment", "infrastructure"]
    code: str
    message: str
    hint: str = ""
    details: dict[str, Any] = {}


class ErrorResponse(Response, frozen=True, kw_only=True):
    """The body of every answer that is not 2xx."""

    error: ErrorBody


# --- environments ----------------------------------------------------------------------------


class EnvironmentQuery(Request, frozen=True, kw_only=True):
    """Which environments to list; without any, all, a page at a time."""

    q: str = ""
    """Words that name, title, summary, domain or tags must hold."""
    domain: str = ""
    tag: str = ""
    after: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """The ``next`` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class EnvironmentSummary(Response, frozen=True, kw_only=True):
    name: str
    version: str
    title: str
    summary: str
    domain: str
    tags: tuple[str, ...]
    tasks: int
    digest: str


class InvalidPack(Response, frozen=True, kw_only=True):
    """A pack that is there and cannot be served."""

    path: str
    message: str


class EnvironmentList(Response, frozen=True, kw_only=True):
    environments: tuple[EnvironmentSummary, ...]
    """By name."""
    invalid: tuple[InvalidPack, ...]
    """What is known to be broken, whatever was asked for; on the first page only."""
    total: int
    """How many fit, on all pages."""
    next: str | None
    """Pass it as ``after`` for the next page; ``null`` on the last."""


class EnvironmentDetail(EnvironmentSummary, frozen=True, kw_only=True):
    licence: str
    provenance: str
    policy: str
    tools: tuple[ToolSpec, ...]
    tables: dict[str, tuple[str, ...]]
    """Each table's columns."""
    max_steps: int
    mcp: str
    """Path of the environment's MCP endpoint for people."""


class TaskQuery(Request, frozen=True, kw_only=True):
    difficulty: Difficulty | None = None
    split: Split | None = None
    tag: str = ""


class TaskSummary(Response, frozen=True, kw_only=True):
    """A task as a policy may see it: neither verifier nor oracle."""

    id: str
    instruction: str
    difficulty: Difficulty
    split: Split
    tags: tuple[str, ...]
    max_steps: int | None


class TaskList(Response, frozen=True, kw_only=True):
    environment: str
    tasks: tuple[TaskSummary, ...]


# --- episodes --------------------------------------------------------------------------------


class Terms(Request, frozen=True, kw_only=True):
    """On what terms an episode, or every episode of a group, is begun."""

    seed: Seed = 0
    horizon: Steps | None = None
    """The most steps it may take; by default the schedule's, the task's, the environment's."""
    schedule: str | None = None
    """A horizon schedule by name: the horizon is that of ``training_step``."""
    training_step: TrainingStep | None = None
    """By default the last one the schedule was told of."""
    faults: str | FaultPlan | None = None
    """A plan of the pack, or ``none``, ``flaky`` or ``hostile``, or a plan of your own."""
    fault_curriculum: FaultCurriculum | None = None
    """Where no ``faults`` are given: the plan of ``training_step``."""
    malformed: Literal["observe", "penalise", "end"] = "observe"
    """What a call of an unknown tool, or one whose arguments break its schema, comes to."""
    policy_version: str | None = None
    """Which policy plays it, for its trajectory."""
    window: Window | None = None
    """How much of its history the policy is shown each turn, for its trajectory."""
    lease_seconds: LeaseSeconds | None = None
    """Without any contact for so long it is parked; by default as the hub is set."""
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0
    """How long to queue for room where the hub is full, before the answer is 429."""
    key: Annotated[str, msgspec.Meta(min_length=8, max_length=MAX_KEY)] | None = None
    """Idempotency: whoever asks again with the same key is given what was begun the first time."""


class Enrolment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept beside an episode of the terms it was begun on."""

    repetition: int = 0
    """Its place in its group, from 0."""
    policy_version: str | None = None
    training_step: int | None = None
    window: Window | None = None
    lease_seconds: float | None = None


class CreateEpisode(Terms, frozen=True, kw_only=True):
    environment: str
    task: str | None = None


class CreateEpisodes(Request, frozen=True, kw_only=True):
    episodes: Annotated[tuple[CreateEpisode, ...], msgspec.Meta(max_length=MAX_BATCH)]


class EpisodeQuery(Request, frozen=True, kw_only=True):
    environment: str = ""
    status: Status | None = None
    group: str = ""
    after: Annotated[str, msgspec.Meta(pattern="^[0-9]{0,18}$")] = ""
    """The ``next`` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class EpisodeSummary(Response, frozen=True, kw_only=True):
    id: str
    environment: str
    task: str | None
    seed: int
    status: Status
    steps: int
    horizon: int
    reward: float | None
    """``null`` until it is scored, and where nobody could score it."""
    group: str | None = None


class EpisodeInfo(EpisodeSummary, frozen=True, kw_only=True):
    instruction: str | None
    policy: str
    clock_ms: int
    marks: tuple[str, ...]
    dirty_bytes: int
    mcp: str
    sse: str
    lease_seconds: float | None = None
    """Without any contact for so long it is parked."""
    tells_remaining: bool = False
    """Whether the agent is told after each step how many remain."""


class EpisodeList(Response, frozen=True, kw_only=True):
    episodes: tuple[EpisodeSummary, ...]
    next: str | None
    """Pass it as ``after`` for the next page; ``null`` on the last."""


class EpisodeResult(Response, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a batch: ``episode`` or ``error``."""

    episode: EpisodeInfo | None = None
    error: ErrorBody | None = None


class EpisodeResults(Response, frozen=True, kw_only=True):
    results: tuple[EpisodeResult, ...]


class CallTool(Request, frozen=True, kw_only=True):
    tool: str
    arguments: dict[str, Any] = {}
    call_key: Annotated[str, msgspec.Meta(max_length=MAX_KEY)] | None = None
    """Idempotency: a call with a key that was seen before answers with the recorded step."""


class EpisodeCall(CallTool, frozen=True, kw_only=True):
    episode: str


class CallTools(Request, frozen=True, kw_only=True):
    calls: Annotated[tuple[EpisodeCall, ...], msgspec.Meta(max_length=MAX_BATCH)]


class CallAnswer(Response, frozen=True, kw_only=True):
    """A step as a policy's side sees it, without what the tool printed and what was injected."""

    step: Step
    status: Status
    remaining: int
    """Steps left before the horizon."""


class CallResult(Response, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a batch: ``answer`` or ``error``."""

    episode: str
    answer: CallAnswer | None = None
    error: ErrorBody | None = None


class CallResults(Response, frozen=True, kw_only=True):
    results: tuple[CallResult, ...]


class Transcript(Request, frozen=True, kw_only=True):
    """What the policy saw and said, for the episode's trajectory; nothing in it is judged."""

    messages: tuple[dict[str, Any], ...]
    """Chat messages as OpenAI has them; fields of your own pass through."""
    calls: tuple[ModelCall, ...] = ()
    """Each call of the model: which of the messages it saw, and which one it answered."""
    tokens: dict[str, Any] = {}
    """Whatever the inference side says of the whole run, untouched."""
    window: Window | None = None

    def __post_init__(self) -> None:
        for call in self.calls:
            for index in (*call.prompt, call.completion):
                if not 0 <= index < len(self.messages):
                    raise ValueError(f"there is no message {index} of {len(self.messages)}")


class StepQuery(Request, frozen=True, kw_only=True):
    since: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The index of the first step wanted."""


class StepList(Response, frozen=True, kw_only=True):
    episode: str
    steps: tuple[Step, ...]


class ChangesQuery(Request, frozen=True, kw_only=True):
    since: str | None = None
    """A mark, or a number of steps: only what changed after them."""
    actor: Actor | None = None


class Changes(Response, frozen=True, kw_only=True):
    """Net row changes: per table ``added`` and ``removed`` rows, ``changed`` with before, after."""

    episode: str
    changes: dict[str, Any]


class ScoreEpisode(Request, frozen=True, kw_only=True):
    answer: str | None = None
    """The agent's final words, where the task's verifier judges them."""
    mode: Literal["binary", "fraction", "awm", "envfactory"] | None = None
    """How the parts make a reward; by default as the task declares it."""


class Score(Response, frozen=True, kw_only=True):
    episode: str
    reward: Reward


class ForkEpisode(Request, frozen=True, kw_only=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = 1


class MarkAnswer(Response, frozen=True, kw_only=True):
    episode: str
    mark: str


class RewindEpisode(Request, frozen=True, kw_only=True):
    mark: str


class ResetEpisode(Request, frozen=True, kw_only=True):
    task: str | msgspec.UnsetType | None = msgspec.UNSET
    """Left out: the task it has. ``null``: none."""
    seed: Seed | None = None


class CloseEpisodes(Request, frozen=True, kw_only=True):
    episodes: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_BATCH)]


class CloseResult(Response, frozen=True, kw_only=True, omit_defaults=True):
    """It is closed, unless ``error`` is there."""

    episode: str
    error: ErrorBody | None = None


class CloseResults(Response, frozen=True, kw_only=True):
    results: tuple[CloseResult, ...]


class Empty(Request, frozen=True, kw_only=True):
    """A body that may be left out."""

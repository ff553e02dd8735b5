"""The record of an episode: steps, what each changed, and the reward with its reasons."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from environments.errors import EnvhubError, FaultKind
from environments.spec import FaultName, FaultPlan

Actor = Literal["agent", "environment", "fault"]
Outcome = Literal["complete", "partial", "none", "unset"]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what is written to the ledger and shown to a trainer."""


class StepError(Record, frozen=True, kw_only=True):
    """Why a call did not end well, and whose fault that was."""

    kind: FaultKind
    code: str
    message: str
    details: dict[str, Any] = {}
    hint: str = ""

    @classmethod
    def of(cls, error: EnvhubError) -> StepError:
        """An error that was raised, as a step records it."""
        return cls(
            kind=error.kind,
            code=error.code,
            message=error.message,
            details=msgspec.to_builtins(error.details),
            hint=error.hint,
        )


class Change(Record, frozen=True, kw_only=True):
    """Net row changes one actor made during a step; ``changes`` is ``Changeset.to_json()``."""

    actor: Actor
    changes: dict[str, Any]
    event: str | None = None


class Fault(Record, frozen=True, kw_only=True):
    """A fault that was injected into a call. The agent is never shown this record."""

    kind: FaultName
    attempt: int
    """Which call of its incident this was, from 1 to ``lasts``."""
    lasts: int
    until_ms: int | None = None
    """The virtual time at which the incident ends even if nobody calls."""
    about: dict[str, Any] = {}
    """What the kind needs: ``seconds``, ``status``, ``share``, ``old`` and ``new`` name,
    ``mutation``."""
    ran: bool = False
    """Whether the tool ran all the same, so that what it wrote stands."""
    result: Any = None
    error: StepError | None = None
    """With ``result``: what the tool answered, where it ran and the agent was told otherwise."""


class Step(Record, frozen=True, kw_only=True):
    """One tool call and what came of it."""

    index: int
    tool: str
    arguments: dict[str, Any]
    result: Any = None
    """The JSON value the tool returned; ``None`` where ``error`` is set."""
    error: StepError | None = None
    changes: tuple[Change, ...] = ()
    clock_ms: int
    """The virtual clock after the step, milliseconds since the epoch."""
    latency_ms: float = 0.0
    truncated: bool = False
    """Whether the result was cut to the observation limit."""
    call_key: str | None = None
    output: str = ""
    """What the tool printed; never shown to the agent."""
    reward: float | None = None
    """What the call earned by its form, where the episode is strict about malformed calls."""
    fault: Fault | None = None
    """The fault that was injected into this call; never shown to the agent."""

    @property
    def is_error(self) -> bool:
        return self.error is not None


class Component(Record, frozen=True, kw_only=True):
    """One part of a verdict: an assertion, the frame, the answer."""

    name: str
    passed: bool
    weight: float
    reason: str
    """Why, in terms of rows; empty where it passed and there is nothing to say."""
    score: float | None = None
    """How far it holds, from 0 to 1, where that is more than yes or no."""

    @property
    def earned(self) -> float:
        """Its share of ``weight``."""
        return float(self.passed) if self.score is None else self.score


class Term(Record, frozen=True, kw_only=True):
    """One summand of a reward: ``weight`` times ``value``."""

    name: str
    weight: float
    value: float
    reason: str = ""


class Reward(Record, frozen=True, kw_only=True):
    """What an episode earned. ``value`` is ``None`` (outcome ``unset``) only if nobody could score
    it, and then ``failure_kind`` and ``reason`` say whose fault that was."""

    value: float | None
    outcome: Outcome
    mode: str = "binary"
    components: tuple[Component, ...] = ()
    terms: tuple[Term, ...] = ()
    """What ``value`` is the sum of, before it is held within its bounds."""
    reason: str = ""
    failure_kind: FaultKind | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of its history a policy is shown: system and task always, then the last turns.

    A turn is one message of the policy and what it was answered. Both limits hold where both are
    given; the last turn is always shown.
    """

    turns: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """A budget for the whole prompt, counted by ``tokenizer``."""
    tokenizer: str | None = None
    """Whose tokens they are, e.g. a model's name. Only who renders need know it."""

    def __post_init__(self) -> None:
        if self.tokens is not None and not self.tokenizer:
            raise ValueError("a window of tokens names its tokenizer")


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of the policy's model: which messages it saw, and the one it answered.

    Indexes into the trajectory's ``messages``: what a window left out is simply not among them.
    """

    prompt: tuple[int, ...]
    completion: int
    tokens: dict[str, Any] = {}
    """Whatever the inference side says of this call (token ids, log probabilities), untouched."""


StopReason = Literal["live", "closed", "answered", "horizon", "malformed", "failed"]
TRAJECTORY_FORMAT: Final = "envhub-trajectory-1"


class Trajectory(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag=TRAJECTORY_FORMAT
):
    """One run, whole: what a trainer learns from and what ``envhub verify`` plays again.

    One line of JSON. Its first field, ``format``, names this version; another version is another
    value. See docs/trajectories.md for every field.
    """

    id: str
    environment: str
    digest: str
    task: str | None
    instruction: str | None
    seed: int
    faults: FaultPlan = FaultPlan()
    user: str | None = None
    """Who answered ``ask_user``: ``script``, or a model; null where there was nobody to ask."""
    malformed: Literal["observe", "penalise", "end"] = "observe"
    group: str | None = None
    repetition: int = 0
    policy: str | None = None
    horizon: int
    tools: tuple[dict[str, Any], ...]
    messages: tuple[dict[str, Any], ...]
    steps: tuple[Step, ...]
    clock_ms: int
    answer: str | None
    reward: Reward | None
    terminated: bool
    truncated: bool
    failed: bool
    stop_reason: StopReason
    mask: bool
    tokens: dict[str, Any] = {}
    training_step: int | None = None
    window: Window | None = None
    calls: tuple[ModelCall, ...] = ()


def observable(result: Any, limit_bytes: int) -> tuple[Any, bool]:
    """A result within the observation limit, and whether it had to be cut."""
    encoded = result.encode() if isinstance(result, str) else msgspec.json.encode(result)
    if len(encoded) <= limit_bytes:
        return result, False
    text = encoded[:limit_bytes].decode(errors="ignore")
    return f"{text}\n[truncated: {len(encoded)} bytes, limit {limit_bytes}]", True

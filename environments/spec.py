"""What a pack declares: the environment, its tools, tasks, events and faults.

One declaration shared by disk (``environment.toml``, ``tasks.jsonl``, ``events.jsonl``,
``faults.toml``), memory and wire. All structs are frozen and refuse unknown fields, so a typo is an
error and not a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec

Runtime = Literal["native", "fastapi", "scenario", "state"]
Isolation = Literal["environment", "episode", "call"]
OnError = Literal["rollback", "keep"]
Difficulty = Literal["easy", "medium", "hard", "expert"]
Split = Literal["train", "validation", "test"]
VERIFIERS: Final = "verifiers.py"
"""Where a pack keeps the functions that judge, unless a task says otherwise."""
CodeKind = Literal["native", "awm_sql", "awm_code", "envscaler"]
FaultName = Literal[
    "timeout_before",
    "timeout_after",
    "rate_limited",
    "server_error",
    "auth_expired",
    "truncated_page",
    "stale_read",
    "latency",
    "malformed_payload",
    "renamed_parameter",
    "concurrent_mutation",
]
Rate = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)]


class Spec(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Base of everything a pack declares."""


class Clock(Spec, frozen=True, kw_only=True):
    """The virtual clock: where an episode starts and how far a successful write moves it."""

    start: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    step_seconds: float = 60.0
    max_wait_seconds: float = 30 * 86_400.0

    @property
    def start_ms(self) -> int:
        """Milliseconds since the epoch; a start without a zone is read as UTC."""
        start = self.start if self.start.tzinfo else self.start.replace(tzinfo=UTC)
        return round(start.timestamp() * 1000)


class Limits(Spec, frozen=True, kw_only=True):
    """What one call and one episode may use."""

    call_seconds: float = 10.0
    memory_bytes: int = 512 * 1024 * 1024
    result_bytes: int = 64 * 1024
    output_bytes: int = 16 * 1024
    max_steps: int = 30


class ChangePolicy(Spec, frozen=True, kw_only=True):
    """Tables and columns whose changes nobody judges (an access log, ``updated_at``)."""

    ignore_tables: tuple[str, ...] = ()
    ignore_columns: dict[str, tuple[str, ...]] = {}


class EnvironmentSpec(Spec, frozen=True, kw_only=True):
    """``environment.toml``. ``name`` matches ``[a-z][a-z0-9_-]{0,39}``."""

    name: str
    version: str
    title: str
    summary: str
    domain: str = ""
    tags: tuple[str, ...] = ()
    licence: str = ""
    provenance: str = ""
    environments: tuple[str, ...] = ()
    """For a world: the environments it mounts, each under its name. It has no data of its own."""
    runtime: Runtime = "native"
    isolation: Isolation = "environment"
    on_error: OnError = "rollback"
    allow_ddl: bool = False
    foreign_keys: bool = True
    clock: Clock = Clock()
    limits: Limits = Limits()
    changes: ChangePolicy = ChangePolicy()
    split: Split | None = None
    """What the environment as a whole is for; wins over the splits of its tasks."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool as clients see it; extracted from the pack's code in the guest."""

    name: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool
    title: str = ""
    output_schema: dict[str, Any] | None = None


class OracleCall(Spec, frozen=True, kw_only=True):
    """One call known to help solve a task.

    A string argument that is exactly ``${N.path}`` stands for a value in the result of oracle call
    number N (from 0), e.g. ``${0.order_id}`` or ``${2.items.0.sku}``.
    """

    tool: str
    arguments: dict[str, Any] = {}
    expect_error: str | None = None
    """The error code this call must answer with, where the task is about meeting an error."""
    optional: bool = False
    """Whether the task is solved without it too, though it changes rows (a courtesy)."""


class Check(Spec, frozen=True, kw_only=True):
    """One function of an EnvScaler checklist. ``code`` holds its source; without it ``function``
    is looked for in the verifier's file."""

    item: str = ""
    """What it checks, in words."""
    code: str = ""
    function: str = "check_func"
    weight: float = 1.0


class Document(Spec, frozen=True, kw_only=True):
    """A table whose rows are the entries of a state document: names, and values in JSON."""

    table: str
    name: str = "name"
    value: str = "value"


class CodeVerifier(Spec, frozen=True, kw_only=True):
    """``code`` of a verifier: functions of the pack that judge. See docs/verifiers.md."""

    kind: CodeKind
    file: str = VERIFIERS
    function: str = ""
    """By default the first function of the file whose name begins with ``verify``."""
    weight: float = 1.0
    checks: tuple[Check, ...] = ()
    document: Document | None = None
    """By default the document holds every table by its name, and every row by its key."""
    raising: Literal["fault", "fails"] = "fault"
    """Whether a check that raises is the pack's fault, or has simply not passed."""


class UserFact(Spec, frozen=True, kw_only=True):
    """Something the user tells when asked for it."""

    id: str
    says: str
    asked: tuple[str, ...]
    """Phrases that ask for it: all words of one must be there, ``birth*`` begins a word."""
    after: tuple[str, ...] = ()
    """Facts that must have been told first."""


class UserSpec(Spec, frozen=True, kw_only=True):
    """Who the agent may ask in a task. See docs/users.md."""

    facts: tuple[UserFact, ...] = ()
    persona: str = ""
    """Who a language model plays, where one is set; without one the facts are told by rule."""
    otherwise: tuple[str, ...] = ("I am not sure what you mean.",)
    """What is said when nothing fits, one of them by the seed."""
    patience: int = 12
    """How many messages are answered before the user has gone."""


class Task(Spec, frozen=True, kw_only=True):
    """One line of ``tasks.jsonl``."""

    id: str
    instruction: str
    verifier: dict[str, Any]
    oracle: tuple[OracleCall, ...] = ()
    answer: str | None = None
    """The final answer the oracle gives; only for tasks whose verifier judges one."""
    max_steps: int | None = None
    difficulty: Difficulty = "medium"
    initial: tuple[str, ...] = ()
    """SQL statements run on the branch before the agent starts; part of the initial state."""
    tags: tuple[str, ...] = ()
    split: Split = "train"
    user: UserSpec | None = None
    """A simulated user, whom the agent may ask with ``ask_user``."""
    tells_remaining: bool = False
    """Whether every observation says how many steps remain before the horizon."""


class Event(Spec, frozen=True, kw_only=True):
    """One line of ``events.jsonl``: what the world does when the virtual clock passes ``at``."""

    id: str
    at: datetime
    statements: tuple[str, ...]
    title: str = ""

    @property
    def at_ms(self) -> int:
        at = self.at if self.at.tzinfo else self.at.replace(tzinfo=UTC)
        return round(at.timestamp() * 1000)


# --- faults ---------------------------------------------------------------------------------


class FaultRule(Spec, frozen=True, kw_only=True):
    """One kind of fault, and the calls it may strike."""

    kind: FaultName
    rate: Rate
    """The share of the calls in reach of this rule that it strikes."""
    tools: tuple[str, ...] = ()
    """Names or patterns (``search_*``); without any, all tools."""
    on: Literal["all", "reads", "writes"] = "all"
    longest: Annotated[int, msgspec.Meta(ge=1, le=20)] = 1
    """An incident lasts for 1 to so many calls; the next one gets through."""
    seconds: Seconds = 30.0
    """Virtual time: how long a timeout or a delay takes, when to retry after a 429."""
    from_step: Count = 0
    until_step: Count | None = None
    from_seconds: Seconds = 0.0
    """Virtual time since the episode's start."""
    until_seconds: Seconds | None = None
    mutations: tuple[str, ...] = ()
    """For ``concurrent_mutation``: which of the pack's; without any, all."""


class FaultPlan(Spec, frozen=True, kw_only=True):
    """Rules in order of precedence: the first that strikes a call has it."""

    rules: tuple[FaultRule, ...] = ()
    budget: Count = 6
    """The most incidents of one episode."""


class Mutation(Spec, frozen=True, kw_only=True):
    """What somebody else may do to the data meanwhile; each happens at most once an episode."""

    id: str
    statements: tuple[str, ...]
    title: str = ""


class PackFaults(Spec, frozen=True, kw_only=True):
    """``faults.toml`` of a pack: plans of its own, and what others may do to its data."""

    plans: Mapping[str, FaultPlan] = msgspec.field(default_factory=dict)
    mutations: tuple[Mutation, ...] = ()

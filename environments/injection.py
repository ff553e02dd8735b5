"""What a fault does to the call it strikes: the one place where an episode meets them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from environments.environment import WAIT, Environment
from environments.errors import EnvironmentFault, PackInvalid
from environments.faults import Occasion, strike, understood
from environments.sandbox.host import Moment, Transition
from environments.spec import Task
from environments.trajectory import Change, Fault, Step, StepError
from environments.users.script import ASK_USER, message_in, talk_of
from snapshots import Branch, Mark, PageDelta

_GATEWAY: Final = {
    500: "INTERNAL_ERROR",
    502: "BAD_GATEWAY",
    503: "SERVICE_UNAVAILABLE",
    504: "GATEWAY_TIMEOUT",
}
TRANSIENT: Final = frozenset(
    {"TIMEOUT", "RATE_LIMITED", "AUTH_EXPIRED", "PARAMETER_RENAMED", *_GATEWAY.values()}
)
"""The error codes that injected faults answer with."""


class Standing(NamedTuple):
    """Where an episode stands. ``start`` is the state it began in."""

    branch: Branch
    moment: Moment
    start: Mark
    steps: Sequence[Step]
    task: Task | None = None


async def perform(
    environment: Environment, standing: Standing, tool: str, arguments: dict[str, Any]
) -> Transition:
    """Run a tool, or let it fail as the environment's plan says; or ask the task's user.

    Raises ``UnknownTool``, ``InvalidArguments`` and what the sandbox raises.
    """
    branch, moment, _, steps, task = standing
    if tool == ASK_USER and task is not None and task.user is not None:
        said = message_in(arguments)
        asked = environment.user.reply(task, talk_of(steps), said, moment.seed)
        reply = await asyncio.ensure_future(asked)  # a model's client keeps timeouts of its task
        return Transition(moment=moment, result=reply)
    plan = environment.faults
    sent = arguments
    if plan.rules:  # a look at every step so far
        arguments = understood(tool, arguments, steps)
    environment.validate(tool, arguments)
    if not plan.rules or tool == WAIT:
        return await environment.perform(branch, moment, tool, arguments)
    occasion = Occasion(
        seed=moment.seed,
        tool=environment.tools[tool],
        arguments=sent,
        steps=steps,
        clock_ms=moment.clock_ms,
        start_ms=environment.pack.spec.clock.start_ms,
    )
    fault = strike(plan, environment.pack.faults, occasion)
    if fault is None:
        return await environment.perform(branch, moment, tool, arguments)
    return await _Scene(environment, standing).meet(fault, tool, arguments)


class _Scene:
    """What happens when a fault strikes, as one transition. The episode's branch is left alone."""

    def __init__(self, environment: Environment, standing: Standing) -> None:
        self._environment = environment
        self._branch = standing.branch.fork()
        self._moment = standing.moment
        self._start = standing.start
        self._delta: PageDelta | None = None
        self._changes: list[Change] = []
        self._output = ""

    async def meet(self, fault: Fault, tool: str, arguments: dict[str, Any]) -> Transition:
        """What comes of a call that ``fault`` strikes. Raises what ``Environment.perform`` does."""
        about = fault.about
        match fault.kind:
            case "timeout_before":
                await self._pass_time(about["seconds"])
                return self._told(fault, error=_timeout(tool, about["seconds"]))
            case "timeout_after":
                fault = _ran(fault, await self._perform(tool, arguments))
                await self._pass_time(about["seconds"])
                return self._told(fault, error=_timeout(tool, about["seconds"]))
            case "rate_limited" | "server_error" | "auth_expired" | "renamed_parameter":
                return self._told(fault, error=_refusal(fault, tool, self._moment.clock_ms))
            case "latency":
                await self._pass_time(about["seconds"])
            case "concurrent_mutation":
                await self._mutate(about["mutation"])
            case "stale_read":
                self._branch.rewind(self._start)
        answered = await self._perform(tool, arguments)
        fault = _ran(fault, None)
        if fault.kind in ("truncated_page", "malformed_payload"):
            result = answered.result
            altered = (
                cut(result, about["share"])
                if fault.kind == "truncated_page"
                else garbled(result, about["share"])
            )
            if answered.error is not None or altered == result:
                return answered  # nothing that it could have spoiled
            return self._told(_ran(fault, answered), result=altered)
        return self._told(fault, result=answered.result, error=answered.error)

    # What happens ----------------------------------------------------------------------------

    async def _perform(self, tool: str, arguments: dict[str, Any]) -> Transition:
        transition = await self._environment.perform(self._branch, self._moment, tool, arguments)
        self._take(transition)
        return transition

    async def _pass_time(self, seconds: float) -> None:
        seconds = min(seconds, self._environment.pack.spec.clock.max_wait_seconds)
        if seconds > 0:
            self._take(
                _happened(await self._environment.pass_time(self._branch, self._moment, seconds))
            )

    async def _mutate(self, id: str) -> None:
        known = self._environment.pack.faults.mutations
        mutation = next((mutation for mutation in known if mutation.id == id), None)
        if mutation is None:
            raise PackInvalid(f"{self._environment.name} has no mutation {id!r}")
        transition = _happened(
            await self._environment.act(self._branch, self._moment, mutation.statements)
        )
        changes = tuple(
            msgspec.structs.replace(change, actor="fault", event=id)
            for change in transition.commits
        )
        self._take(msgspec.structs.replace(transition, commits=changes))

    def _take(self, transition: Transition) -> None:
        delta = transition.delta
        if delta is not None:
            self._branch.commit(delta, ())
            self._delta = delta if self._delta is None else self._delta.merge(delta)
        self._moment = transition.moment
        self._changes += transition.commits
        self._output += transition.output

    def _told(
        self, fault: Fault, *, result: Any = None, error: StepError | None = None
    ) -> Transition:
        return Transition(
            moment=self._moment,
            result=result,
            error=error,
            delta=self._delta,
            commits=tuple(self._changes),
            output=self._output,
            fault=fault,
        )


def _happened(transition: Transition) -> Transition:
    if transition.error is not None:
        raise EnvironmentFault(transition.error.message, **transition.error.details)
    return transition


def _ran(fault: Fault, answered: Transition | None) -> Fault:
    if answered is None:
        return msgspec.structs.replace(fault, ran=True)
    return msgspec.structs.replace(fault, ran=True, result=answered.result, error=answered.error)


# --- what the agent is told ----------------------------------------------------------------------


def _timeout(tool: str, seconds: float) -> StepError:
    return StepError(
        kind="agent",
        code="TIMEOUT",
        message=f"{tool} gave no answer within {seconds:g} seconds",
        details={"timeout_seconds": seconds},
    )


def _refusal(fault: Fault, tool: str, clock_ms: int) -> StepError:
    about = fault.about
    match fault.kind:
        case "rate_limited":
            seconds = max(1, round(((fault.until_ms or clock_ms) - clock_ms) / 1000))
            return StepError(
                kind="agent",
                code="RATE_LIMITED",
                message=f"too many requests to {tool}; retry after {seconds} seconds",
                details={"status": 429, "retry_after_seconds": seconds},
            )
        case "auth_expired":
            return StepError(
                kind="agent",
                code="AUTH_EXPIRED",
                message="the access token has expired and is being renewed; repeat the call",
                details={"status": 401},
            )
        case "renamed_parameter":
            return StepError(
                kind="agent",
                code="PARAMETER_RENAMED",
                message=f"{tool} no longer takes {about['old']!r}; it is now {about['new']!r}",
                details={"status": 400, "old": about["old"], "new": about["new"]},
            )
    return StepError(
        kind="agent",
        code=_GATEWAY[about["status"]],
        message=f"{tool} is out of order; nothing was done",
        details={"status": about["status"]},
    )


def cut(result: Any, share: float) -> Any:
    """The result with its longest list cut to a share of its length, and a mark that it was.

    A list becomes an object with ``results``; what holds no list of two is returned as it is.
    """
    if isinstance(result, list):
        if len(result) < 2:
            return result
        kept = result[: max(1, int(len(result) * share))]
        return {"results": kept, "truncated": True, "total": len(result)}
    if not isinstance(result, dict):
        return result
    lists = {name: value for name, value in result.items() if isinstance(value, list)}
    name = max(lists, key=lambda name: len(lists[name]), default=None)
    if name is None or len(lists[name]) < 2:
        return result
    kept = lists[name][: max(1, int(len(lists[name]) * share))]
    return {**result, name: kept, "truncated": True}


def garbled(result: Any, share: float) -> Any:
    """The result as JSON text that breaks off; what is shorter than a few letters is left alone."""
    text = msgspec.json.encode(result).decode()
    return text[: int(len(text) * share)] if len(text) >= 8 else result

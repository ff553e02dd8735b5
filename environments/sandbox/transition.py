"""What one operation on an episode's state did, as far as the gateway believes it."""

from __future__ import annotations

from typing import Any

import msgspec

from environments.catalogue import Pack
from environments.sandbox.questions import Told
from environments.sandbox.wire import Moment
from environments.trajectory import Change, Fault, StepError
from snapshots.pages import PageDelta


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation did. Nothing of it is in the branch until the caller commits ``delta``."""

    moment: Moment
    result: Any = None
    error: StepError | None = None
    delta: PageDelta | None = None
    commits: tuple[Change, ...] = ()
    output: str = ""
    """What the tool printed, at most ``limits.output_bytes`` of it."""
    fault: Fault | None = None
    """The fault that was injected into it."""


def transition_of(told: Told, moment: Moment, pack: Pack) -> Transition:
    """The operation that a worker told of, which leads to ``moment``."""
    report = told.report
    return Transition(
        moment=moment,
        result=report.result,
        error=report.error,
        delta=told.delta,
        commits=told.commits,
        output=report.output[: pack.spec.limits.output_bytes + 64],
    )


def followed(first: Transition, world: Transition) -> Transition:
    """A call and what the world did on top of it, as one."""
    delta = first.delta or world.delta
    if first.delta is not None and world.delta is not None:
        delta = first.delta.merge(world.delta)
    return msgspec.structs.replace(first, delta=delta, commits=(*first.commits, *world.commits))

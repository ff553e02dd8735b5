"""The faults of environments, told apart by whose they are.

Three kinds are never confused (``FaultKind``): the *agent's* are observations the policy sees,
the *environment's* are the pack's own bugs, the *infrastructure's* are ours and leave a reward
unset. Every error carries a ``hint``: what the reader can do about it.
"""

from __future__ import annotations

from typing import Literal

FaultKind = Literal["agent", "environment", "infrastructure"]


class EnvhubError(Exception):
    """Base of all errors of ``environments``; ``code`` is stable, ``hint`` says the mend."""

    code = "ENVHUB_ERROR"
    kind: FaultKind = "infrastructure"

    def __init__(self, message: str, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


# --- asked for something that is not there, or not in this way -----------------------------


class AgentError(EnvhubError):
    """The caller's mistake; state is what it was."""

    code = "BAD_REQUEST"
    kind: FaultKind = "agent"


class UnknownEnvironment(AgentError):
    code = "UNKNOWN_ENVIRONMENT"


class UnknownTask(AgentError):
    code = "UNKNOWN_TASK"


class UnknownTool(AgentError):
    code = "UNKNOWN_TOOL"


class InvalidArguments(AgentError):
    """Arguments break the tool's schema; the message names the field."""

    code = "INVALID_ARGUMENTS"


class HorizonReached(AgentError):
    """The episode has taken all the steps it may take; it is truncated."""

    code = "HORIZON_REACHED"


class EpisodeClosed(AgentError):
    code = "EPISODE_CLOSED"


class EpisodeEnded(AgentError):
    """The episode is strict about malformed calls, and its last one was malformed."""

    code = "EPISODE_ENDED"


class UnknownMark(AgentError):
    code = "UNKNOWN_MARK"


class CallKeyReused(AgentError):
    """An idempotency key came again with another tool or other arguments."""

    code = "CALL_KEY_REUSED"


INTERNAL_ERROR = "INTERNAL_ERROR"
"""The code of a call on which a tool of others failed inside, where its own server would have
answered with a bare 500. It is an observation, as it was there; ``check`` tells of it."""


# --- the pack's own faults ------------------------------------------------------------------


class EnvironmentFault(EnvhubError):
    """The pack misbehaved: its code raised, hung, exited, or answered what is not JSON."""

    code = "ENVIRONMENT_FAULT"
    kind: FaultKind = "environment"


class PackInvalid(EnvironmentFault):
    """A pack cannot be loaded; the message names file, line and word."""

    code = "PACK_INVALID"


class ToolCrashed(EnvironmentFault):
    """A tool raised something other than ``ToolError``."""

    code = "TOOL_CRASHED"


class ToolTimedOut(EnvironmentFault):
    """A tool ran past its deadline and its worker was killed."""

    code = "TOOL_TIMED_OUT"


class WorkerExited(EnvironmentFault):
    """The pack's code ended its worker (``sys.exit``, a segmentation fault, out of memory)."""

    code = "WORKER_EXITED"


class VerifierFailed(EnvironmentFault):
    """A pack's own verifier raised, wrote, or answered what is no verdict; names its line."""

    code = "VERIFIER_FAILED"


class ForgedChanges(EnvironmentFault):
    """The rows on an episode's pages are not what its workers said they had changed."""

    code = "FORGED_CHANGES"


class BadResult(EnvironmentFault):
    """A tool returned what is not JSON, or wrote although it is declared read-only."""

    code = "BAD_RESULT"


# --- ours -----------------------------------------------------------------------------------


class InfrastructureFault(EnvhubError):
    """Ours: a worker could not be started or was lost from outside, a disk is full. Retry."""

    code = "INFRASTRUCTURE_FAULT"
    kind: FaultKind = "infrastructure"


class WorkerLost(InfrastructureFault):
    """A worker died for no reason of the pack's own (killed from outside, evicted in flight)."""

    code = "WORKER_LOST"


class WorkersBusy(InfrastructureFault):
    """No worker came free in time: all are busy, or those that one tenant may have at once."""

    code = "WORKERS_BUSY"


class FrameRejected(EnvironmentFault):
    """A worker answered with a frame that is malformed, oversized or not an answer to its call."""

    code = "FRAME_REJECTED"


class EnvironmentChanged(InfrastructureFault):
    """An episode from before a restart was played in another version of its pack."""

    code = "ENVIRONMENT_CHANGED"

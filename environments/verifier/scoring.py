"""Scoring an episode in a worker that never loaded the pack's tools."""

from __future__ import annotations

from dataclasses import dataclass

from environments.catalogue import Pack
from environments.errors import EnvhubError
from environments.sandbox.host import Moment, Sandbox
from environments.spec import Task
from environments.trajectory import Reward
from environments.verifier.reward import RewardMode, reward_of, unset
from snapshots import Branch, Changeset


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on: the state the agent started from, its own net changes (those of
    events and faults are not held against it) and its final answer."""

    start: Branch
    moment: Moment
    changes: Changeset
    answer: str | None = None


async def score_episode(
    sandbox: Sandbox, pack: Pack, task: Task, evidence: Evidence, mode: RewardMode = "binary"
) -> Reward:
    """Judge a run by its task's verifier; tables and columns the pack ignores are aside.

    Never raises for a verifier or a worker that fails: the reward is then *unset* and says whose
    fault that was, since a 0 would teach the policy something that is not so.
    """
    ignored = pack.spec.changes
    judged = evidence.changes.filter(tables=ignored.ignore_tables, columns=ignored.ignore_columns)
    try:
        components = await sandbox.score(
            pack, evidence.start, evidence.moment, task.verifier, judged.to_json(), evidence.answer
        )
    except EnvhubError as error:
        return unset(error, mode)
    return reward_of(components, mode)

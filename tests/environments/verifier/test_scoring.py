"""Scoring runs through the sandbox, in a worker that never loaded the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from environments.environment import Environment, open_environments
from environments.episode import Episode
from environments.oracle import play_oracle
from environments.scaffold import new_pack
from environments.spec import ChangePolicy
from environments.verifier import score_episode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Environment]:
    new_pack("library", tmp_path / "packs")
    async with open_environments([tmp_path / "packs"]) as environments:
        yield await environments.get("library")


async def test_the_oracle_is_paid_and_says_nothing_more(library: Environment) -> None:
    episode = await Episode.start(library, task="lend-cyberiad")
    await play_oracle(episode)
    reward = await episode.score()
    assert (reward.value, reward.outcome, reward.reason) == (1.0, "complete", "")
    assert [part.name for part in reward.components] == ["expect[0] loans added", "frame"]


async def test_ignored_columns_are_not_judged(library: Environment) -> None:
    """Lending sets ``members.last_seen_at``, which the pack ignores."""
    task = library.pack.task("lend-cyberiad")
    episode = await Episode.start(library, task=task.id)
    await play_oracle(episode)
    attempt = episode.attempt(task)
    strict = replace(
        library.pack, spec=msgspec.structs.replace(library.pack.spec, changes=ChangePolicy())
    )
    assert (await score_episode(library.sandbox, library.pack, task, attempt)).value == 1.0
    reward = await score_episode(library.sandbox, strict, task, attempt)
    assert reward.value == 0.0
    assert reward.reason.startswith("frame: members M-1042 was changed (last_seen_at: null -> ")


async def test_collateral_costs_the_reward_and_is_named(library: Environment) -> None:
    episode = await Episode.start(library, task="lend-cyberiad")
    await play_oracle(episode)
    await episode.call("return_book", {"loan_id": "L-7702"})
    reward = await episode.score()
    assert reward.value == 0.0
    assert reward.reason.startswith("frame: loans L-7702 was changed (returned_at: null -> ")


async def test_the_answer_is_judged(library: Environment) -> None:
    episode = await Episode.start(library, task="who-has-solaris")
    assert (await episode.score("2026-03-02")).value == 1.0
    wrong = await episode.score("2026-03-03")
    assert (wrong.value, wrong.reason) == (
        0.0,
        "answer: the answer is '2026-03-03', expected '2026-03-02'",
    )


async def test_fractions(library: Environment) -> None:
    task = library.pack.task("lend-cyberiad")
    question = {**task.verifier, "answer": {"exact": "done"}}
    episode = await Episode.start(library, task=task.id)
    await play_oracle(episode)
    reward = await score_episode(
        library.sandbox,
        library.pack,
        msgspec.structs.replace(task, verifier=question),
        episode.attempt(task),
        "fraction",
    )
    assert (reward.value, reward.outcome) == (0.5, "partial")


async def test_a_verifier_that_fails_leaves_the_reward_unset(library: Environment) -> None:
    episode = await Episode.start(library, task="lend-cyberiad")
    task = library.pack.task("lend-cyberiad")
    broken = msgspec.structs.replace(task, verifier={"expect": [{"table": "loan"}]})
    reward = await score_episode(library.sandbox, library.pack, broken, episode.attempt(task))
    assert (reward.value, reward.outcome, reward.failure_kind) == (None, "unset", "environment")
    assert "unknown table 'loan'" in reward.reason


async def test_a_question_is_answered_without_touching_anything(library: Environment) -> None:
    """A task that is only asked fails by the frame once a row has changed, in every mode."""
    episode = await Episode.start(library, task="who-has-solaris")
    await episode.call("return_book", {"loan_id": "L-7702"})
    for mode in ("binary", "fraction", "awm"):
        reward = await episode.score("2026-03-02", mode)  # type: ignore[arg-type]
        assert reward.value == 0.0
        assert reward.reason.startswith("frame: loans L-7702 was changed")

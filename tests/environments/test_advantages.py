"""A group's figures, against the formulas written out another way."""

from __future__ import annotations

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.advantages import lesson_of, pass_at


@given(st.lists(st.one_of(st.none(), st.floats(-1, 1)), max_size=40))
def test_advantages_are_grpos_and_leave_masked_members_out(rewards: list[float | None]) -> None:
    lesson = lesson_of(rewards, [reward == 1 for reward in rewards])
    known = [reward for reward in rewards if reward is not None]
    assert lesson.scored == len(known)
    assert [each is None for each in lesson.advantages] == [each is None for each in rewards]
    assert lesson.degenerate == (len(set(known)) <= 1)
    if not known:
        assert (lesson.mean, lesson.std, lesson.pass_at) == (None, None, {})
        return
    assert lesson.mean == pytest.approx(statistics.fmean(known))
    std = statistics.stdev(known) if len(known) > 1 else 0.0
    assert lesson.std == pytest.approx(std)
    for reward, advantage in zip(rewards, lesson.advantages, strict=True):
        if reward is not None:
            expected = (reward - statistics.fmean(known)) / (std + 1e-4)
            assert advantage == pytest.approx(expected, abs=1e-9)


def test_equal_rewards_give_no_gradient() -> None:
    lesson = lesson_of([0.1] * 7, [False] * 7)
    assert lesson.degenerate
    assert lesson.advantages == (0.0,) * 7


@pytest.mark.parametrize(("tries", "successes"), [(1, 0), (1, 1), (6, 0), (6, 2), (6, 6)])
def test_pass_at_k_is_the_share_of_draws_with_a_success(tries: int, successes: int) -> None:
    outcomes = [number < successes for number in range(tries)]
    for k in range(1, tries + 1):
        draws = [any(draw) for draw in itertools.combinations(outcomes, k)]
        assert pass_at(k, tries, successes) == pytest.approx(sum(draws) / len(draws))


def test_passes_are_counted_among_those_scored() -> None:
    lesson = lesson_of([1.0, 0.0, None, 0.5, 1.0], [True, False, True, False, True])
    assert (lesson.scored, lesson.passed) == (4, 2)
    assert lesson.pass_at[1] == pytest.approx(0.5)
    assert list(lesson.pass_at) == [1, 2, 4]
    assert list(lesson_of([1.0] * 5, [True] * 5).pass_at) == [1, 2, 4, 5]

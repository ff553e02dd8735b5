"""Telling what the agent changed from what the world did around it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from environments.assertions import split
from environments.trajectory import Actor, Change
from snapshots import Changeset

MOVES = st.lists(
    st.tuples(
        st.sampled_from(["agent", "environment"]), st.sampled_from("abc"), st.integers(-3, 3)
    ),
    max_size=12,
)


def changed(actor: Actor, key: str, before: int, after: int) -> Change:
    entry = {"key": {"id": key}, "before": {"n": before}, "after": {"n": after}}
    rows = {"key": ["id"], "added": [], "removed": [], "changed": [entry]}
    return Change(actor=actor, changes={"t": rows})


@given(MOVES)
def test_the_agents_share_of_a_number_is_what_it_moved(moves: list[tuple[Actor, str, int]]) -> None:
    held = dict.fromkeys("abc", 100)
    share = dict.fromkeys("abc", 0)
    history = []
    for actor, key, step in moves:
        if step:
            history.append(changed(actor, key, held[key], held[key] + step))
            held[key] += step
            share[key] += step if actor == "agent" else 0
    changes, _ = split(history)
    told = {
        str(row.key["id"]): (row.before or {})["n"] - (row.after or {})["n"]  # type: ignore[operator]
        for row in changes.rows("t")
    }
    assert told == {key: -step for key, step in share.items() if step}
    assert all((row.after or {})["n"] == held[str(row.key["id"])] for row in changes.rows("t"))


@given(MOVES)
def test_without_a_world_it_is_the_plain_net(moves: list[tuple[Actor, str, int]]) -> None:
    held = dict.fromkeys("abc", 100)
    net = Changeset()
    history = []
    for _, key, step in moves:
        change = changed("agent", key, held[key], held[key] + (step or 1))
        held[key] += step or 1
        history.append(change)
        net = net.concat(Changeset.from_json(change.changes))
    assert split(history) == (net, Changeset())

"""Samplers: the splits, the order a seed means, weights, and the band of what teaches."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from environments.catalogue import SHIPPED, Catalogue
from environments.sampling import (
    Candidate,
    NothingToSample,
    Sampler,
    SamplerSpec,
    SamplerState,
    candidates_of,
)

TASKS = [
    Candidate(
        environment=environment,
        task=f"t{number}",
        split="train" if number < 8 else "test",
        difficulty="easy" if number % 2 else "hard",
        domain="retail" if environment == "shop" else "finance",
        tags=frozenset({"odd"} if number % 2 else {"even"}),
    )
    for environment in ("shop", "bank")
    for number in range(10)
]


def spec(**fields: Any) -> SamplerSpec:
    return msgspec.convert(fields, SamplerSpec)


def drawn(sampler: Sampler, count: int) -> list[str]:
    return [sampler.draw().name for _ in range(count)]


def test_uniform_draws_every_training_task_once_a_turn() -> None:
    sampler = Sampler(spec(seed=3), TASKS)
    train = {task.name for task in TASKS if task.split == "train"}
    first, second = drawn(sampler, len(train)), drawn(sampler, len(train))
    assert set(first) == set(second) == train
    assert len(first) == len(train)
    assert first != second != sorted(first)


@pytest.mark.parametrize("kind", ["uniform", "weighted", "adaptive"])
def test_the_same_seed_gives_the_same_order_and_a_state_goes_on(kind: str) -> None:
    wanted = spec(kind=kind, seed=5)
    whole = drawn(Sampler(wanted, TASKS), 40)
    assert whole == drawn(Sampler(wanted, list(reversed(TASKS))), 40)
    assert whole != drawn(Sampler(spec(kind=kind, seed=6), TASKS), 40)
    half = Sampler(wanted, TASKS)
    before = drawn(half, 17)
    kept = msgspec.json.decode(msgspec.json.encode(half.state), type=SamplerState)
    assert before + drawn(Sampler(wanted, TASKS, kept), 23) == whole


def test_what_is_asked_for_is_all_that_is_drawn() -> None:
    asked = spec(where={"difficulties": ["hard"], "domains": ["retail"], "splits": ["test"]})
    assert set(drawn(Sampler(asked, TASKS), 5)) == {"shop/t8"}
    tagged = spec(where={"tags": ["odd", "no-such"], "environments": ["bank"], "splits": []})
    assert set(drawn(Sampler(tagged, TASKS), 5)) == {f"bank/t{n}" for n in (1, 3, 5, 7, 9)}
    with pytest.raises(NothingToSample):
        Sampler(spec(where={"tags": ["no-such"]}), TASKS)
    with pytest.raises(NothingToSample):
        Sampler(spec(kind="weighted", weights={"environment:shop": 0, "domain:finance": 0}), TASKS)


def test_weights_multiply() -> None:
    weights = {"environment:shop": 3, "tag:odd": 2, "task:shop/t0": 0}
    counts = Counter(drawn(Sampler(spec(kind="weighted", weights=weights), TASKS), 8000))
    odd = sum(counts[f"shop/t{number}"] for number in (1, 3, 5, 7)) / 4
    even = sum(counts[f"shop/t{number}"] for number in (2, 4, 6)) / 3
    bank = sum(counts[f"bank/t{number}"] for number in (0, 2, 4, 6)) / 4
    assert counts["shop/t0"] == 0
    assert odd / even == pytest.approx(2, rel=0.15)
    assert even / bank == pytest.approx(3, rel=0.2)


def test_adaptive_keeps_what_is_neither_always_nor_never_solved() -> None:
    sampler = Sampler(spec(kind="adaptive", revisit=0, recent=4), TASKS)
    for task in sampler.candidates:
        passes = {"shop": 4, "bank": 0}[task.environment]
        if task.task in ("t0", "t1"):
            passes = 2
        for number in range(4):
            sampler.record(task.environment, task.task, number < passes)
    assert set(drawn(sampler, 100)) == {"shop/t0", "shop/t1", "bank/t0", "bank/t1"}
    # only the last four count: what the policy has learnt since is no longer drawn
    for _ in range(4):
        sampler.record("shop", "t0", True)
    assert "shop/t0" not in drawn(sampler, 100)
    for name in ("shop/t1", "bank/t0", "bank/t1"):
        for _ in range(4):
            sampler.record(*name.split("/"), passed=False)
    assert len(set(drawn(sampler, 200))) > 10, "with nothing in the band, all are drawn"


def test_adaptive_comes_back_to_what_it_left() -> None:
    sampler = Sampler(spec(kind="adaptive", revisit=0.2), TASKS)
    for task in sampler.candidates[1:]:
        sampler.record(task.environment, task.task, True)
    counts = Counter(drawn(sampler, 2000))
    others = sum(counts.values()) - counts[sampler.candidates[0].name]
    assert others / 2000 == pytest.approx(0.2 * 15 / 16, abs=0.04)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "random"}, "kind"),
        ({"low": 0.9, "high": 0.1}, "is empty"),
        ({"weights": {"colour:red": 1}}, "colour:red"),
        ({"weights": {"tag:odd": -1}}, ">= 0"),
        ({"where": {"difficulty": ["easy"]}}, "unknown field `difficulty`"),
        ({"where": {"splits": ["dev"]}}, "dev"),
    ],
)
def test_a_spec_that_makes_no_sense(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        spec(**fields)


def test_an_environment_held_out_holds_out_its_tasks(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED / "banking", tmp_path / "banking")
    shutil.copytree(SHIPPED / "helpdesk", tmp_path / "helpdesk")
    manifest = tmp_path / "banking" / "environment.toml"
    manifest.write_text('split = "test"\n' + manifest.read_text())
    catalogue = Catalogue([tmp_path])
    found = candidates_of(map(catalogue.get, catalogue.names()))
    assert {task.split for task in found if task.environment == "banking"} == {"test"}
    assert {task.environment for task in Sampler(spec(), found).candidates} == {"helpdesk"}
    tagged = next(task for task in found if task.environment == "helpdesk")
    assert set(catalogue.get("helpdesk").spec.tags) <= tagged.tags

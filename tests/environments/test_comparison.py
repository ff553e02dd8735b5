"""The same runs scored by code, by a judge, and by a judge who knows what the code says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from environments.comparison import WAYS, Comparison, compare
from environments.environment import Environments, open_environments
from environments.episode import Episode
from environments.llm import Llm
from environments.oracle import play_oracle
from environments.record import trajectory_of
from environments.trajectory import Trajectory
from environments.verifier.judge import Judge
from tests.environments.model_server import ModelServer, Reply, answering

pytestmark = pytest.mark.anyio

PACKS = Path(__file__).parents[1] / "packs"


@pytest.fixture(scope="module")
async def shops(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Environments]:
    folder = tmp_path_factory.mktemp("comparison")
    async with open_environments([PACKS / "shop"], data_dir=folder) as environments:
        yield environments


async def runs_of(shops: Environments) -> list[Trajectory]:
    """One that is done, one that did nothing, one that did too much."""
    runs = []
    for played, more in ((True, False), (False, False), (True, True)):
        episode = await Episode.start(await shops.get("shop"), task="buy-tea")
        if played:
            await play_oracle(episode)
        if more:
            await episode.call("order", {"sku": "CUP-01", "quantity": 1})
        await episode.score("All done.")
        runs.append(trajectory_of(episode))
    return runs


def opinion(verdict: str) -> str:
    return json.dumps({"reason": f"I say {verdict}.", "verdict": verdict, "confidence": 0.8})


@asynccontextmanager
async def judging(server: ModelServer, folder: Path | None = None) -> AsyncIterator[Judge]:
    async with answering(server) as endpoint:
        patient = msgspec.structs.replace(endpoint, pause_seconds=0.0, concurrency=1)
        async with Llm(patient) as llm:
            yield Judge(llm, folder)


def outcomes(found: Comparison, way: str) -> list[str]:
    return [run.scores[way].outcome for run in found.runs]


async def test_code_needs_no_judge(shops: Environments) -> None:
    found = await compare(shops, await runs_of(shops), ["code"])
    assert outcomes(found, "code") == ["complete", "none", "none"]
    assert "CUP-01" in found.runs[2].scores["code"].reason
    (cost,) = found.costs
    assert (cost.scored, cost.unset, cost.usage.requests) == (3, 0, 0)
    assert not found.disagreements


async def test_ways_are_compared_and_their_disagreements_shown(shops: Environments) -> None:
    server = ModelServer(opinion("complete"))  # a judge who is taken in by every run
    async with judging(server) as judge:
        found = await compare(shops, await runs_of(shops), WAYS, judge)
    assert outcomes(found, "judge") == ["complete"] * 3
    pairs = {(pair.one, pair.other): pair for pair in found.agreements}
    assert len(pairs) == 3
    pair = pairs["code", "judge"]
    assert (pair.runs, pair.agreed, pair.passed, pair.kappa) == (3, 1, (1, 3), 0.0)
    assert pairs["judge", "code+judge"].kappa is None, "all the same is no agreement to measure"
    assert [run.id for run in found.disagreements] == [run.id for run in found.runs[1:]]
    costs = {cost.strategy: cost for cost in found.costs}
    assert costs["judge"].usage.prompt_tokens == 300
    assert costs["code+judge"].usage.requests == 3
    texts = [body["messages"][1]["content"] for body in server.asked]
    assert sum("SIGNALS of a program" in text for text in texts) == 3
    assert any("orders" in text.partition("SIGNALS")[2] for text in texts)


async def test_verdicts_are_kept_and_cost_nothing_again(
    shops: Environments, tmp_path: Path
) -> None:
    runs = await runs_of(shops)
    for asked, kept in ((3, 0), (0, 3)):
        server = ModelServer(opinion("none"))
        async with judging(server, tmp_path / "verdicts") as judge:
            found = await compare(shops, runs, ["judge"], judge)
        assert len(server.asked) == asked
        assert (found.costs[0].cached, found.costs[0].usage.requests) == (kept, asked)


async def test_a_judge_that_cannot_answer_leaves_runs_unset(shops: Environments) -> None:
    async with judging(ModelServer(Reply(status=500))) as judge:
        found = await compare(shops, await runs_of(shops), ["code", "judge"], judge)
    assert outcomes(found, "judge") == ["unset"] * 3
    assert outcomes(found, "code") == ["complete", "none", "none"]
    assert "500" in found.runs[0].scores["judge"].reason
    assert found.costs[1].unset == 3
    (pair,) = found.agreements
    assert (pair.runs, pair.kappa) == (0, None)
    assert not found.disagreements, "who does not answer does not disagree"


async def test_the_episode_keeps_what_it_was_scored(shops: Environments) -> None:
    runs = await runs_of(shops)
    broken = msgspec.structs.replace(runs[0], digest="0" * 64)
    free = msgspec.structs.replace(runs[0], task=None)
    found = await compare(shops, [broken, free, runs[0]], ["code"])
    assert "version" in found.runs[0].problem
    assert "no task" in found.runs[1].problem
    assert found.runs[2].scores["code"].outcome == "complete"
    assert found.costs[0].scored == 1

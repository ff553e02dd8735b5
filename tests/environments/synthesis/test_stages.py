"""What single stages do beyond the recorded run: filters, doubles, courtesies, code, mended tools;
and the models they may ask."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from environments.catalogue import load_pack
from environments.llm import Endpoint, LlmUnavailable
from environments.spec import Spec
from environments.synthesis.alike import alike
from environments.synthesis.author import Author, asked_at
from environments.synthesis.folder import RunFolder
from environments.synthesis.spending import Spending, Spent, price_of
from environments.synthesis.stages import walks
from environments.synthesis.stages.scenario import Scenarios, scenarios
from environments.synthesis.stages.shapes import Checked, Judged, Scenario
from environments.synthesis.stages.stage import Bench
from environments.synthesis.workshop import Workshop, workshop
from tests.environments.model_server import ModelServer, Reply, answering
from tests.environments.synthesis.recorded import HERE, found, recorded
from tests.environments.synthesis.recorded.running import LIBRARY, Place, Recorded

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def place(anyio_backend: object) -> AsyncIterator[Workshop]:
    async with workshop() as opened:
        yield opened


# --- scenarios -------------------------------------------------------------------------------

PROPOSAL: dict[str, Any] = json.loads((HERE / "tool-library" / "scenario.1.json").read_text())
BOOKS = json.loads((HERE / "library-office" / "scenario.1.json").read_text())["environments"][1]


def changed(**values: Any) -> str:
    return json.dumps({"environments": [{**PROPOSAL["environments"][0], **values}]})


async def embedded(texts: Sequence[str]) -> list[list[float]]:
    """The words of a text, each counted in one of many places."""
    vectors = [[0.0] * 512 for _ in texts]
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.lower().replace(",", "").split():
            vector[zlib.crc32(word.encode()) % 512] += 1.0
    return vectors


async def test_what_is_no_system_or_said_before_is_asked_for_again(
    place: Workshop, tmp_path: Path
) -> None:
    attempts = [
        changed(name="reader", operations=["read a page"]),
        changed(name="lending-desk"),
        json.dumps({"environments": [BOOKS]}),
    ]

    def otherwise(question: str) -> str | None:
        if "proposal 2 of 2" not in question:
            return changed(name="tool-library")
        return attempts[int(found(r"^# Attempt (\d+)$", question) or 1) - 1]

    said = Recorded(otherwise)
    endpoint = Endpoint(base_url="", model="solomon")
    bench = Bench(
        stage="scenario",
        scenario=Scenario(name="", title="-", summary="-", domain="-"),
        wanted=msgspec.structs.replace(LIBRARY, sentence="", count=2),
        author=Author(said.model, endpoint, tmp_path / "answers", Spending(tmp_path, None, None)),
        workshop=place,
        run=tmp_path,
        packs=tmp_path,
        made={},
    )
    product = await scenarios(bench, embedded, taken=["helpdesk"])
    made = msgspec.json.decode(product.body, type=Scenarios)
    assert [one.environments[0].name for one in made.proposals] == ["tool-library", "bookkeeping"]
    (few,), (like,) = (repair.problems for repair in product.repairs)
    assert "fewer than 4 operations that change records" in few
    assert like == "lending-desk is too much like tool-library"
    assert {repair.of for repair in product.repairs} == {"bookkeeping"}


async def test_texts_are_alike_by_their_words_where_nobody_embeds_them() -> None:
    texts = [
        "returns and repairs of a bicycle shop in Utrecht",
        "moorings of a marina",
        "repairs and returns of a bicycle shop in Utrecht",
    ]
    assert await alike(texts) == [(2, 0)]
    assert await alike(texts, embedded) == [(2, 0)]


# --- walks -----------------------------------------------------------------------------------

BELL = {
    "schema.sql": b"CREATE TABLE rings (id INTEGER PRIMARY KEY, at TEXT NOT NULL);",
    "tools.py": b'''"""The tool of a bell."""

from environments.authoring import Database, now, tool


@tool(read_only=False)
def ring(db: Database) -> dict:
    """Ring it."""
    db.run("INSERT INTO rings (at) VALUES (?)", now().isoformat())
    return {}
''',
    "verifier.json": json.dumps(
        {
            "tasks": [
                {
                    "id": "once",
                    "instruction": "Ring it.",
                    "difficulty": "easy",
                    "verifier": {"expect": [{"table": "rings", "change": "added"}]},
                    "oracle": [{"tool": "ring"}],
                }
            ]
        }
    ).encode(),
}


def bell(place: Workshop, folder: Path, made: Mapping[str, bytes], count: int) -> Bench:
    said = Recorded()
    endpoint = Endpoint(base_url="", model="solomon")
    return Bench(
        stage="walks",
        scenario=Scenario(name="bell", title="Bell", summary="A bell.", domain="home"),
        wanted=msgspec.structs.replace(LIBRARY, walks=count, walk_calls=1),
        author=Author(said.model, endpoint, folder / "answers", Spending(folder, None, None)),
        workshop=place,
        run=folder,
        packs=folder,
        made=made,
    )


async def test_the_record_says_why_there_are_fewer_walks_than_were_wanted(
    place: Workshop, tmp_path: Path
) -> None:
    product = await walks.STAGE.make(bell(place, tmp_path, BELL, 1))
    assert (product.into, product.out_of) == (1, 0)
    (missing,) = product.rejected
    assert missing.reason.startswith("0 of 1 tasks came of 30 walks: ")
    assert "there is one like it" in missing.reason


async def test_where_no_walks_are_wanted_nothing_is_looked_at(
    place: Workshop, tmp_path: Path
) -> None:
    product = await walks.STAGE.make(bell(place, tmp_path, {}, 0))
    assert (product.into, product.out_of, product.rejected) == (0, 0, ())
    assert not msgspec.json.decode(product.body, type=walks.Walks).tasks


# --- courtesies, code, mended tools ----------------------------------------------------------

GIVES_UP = """
def verify_joris_gives_up(initial, final, answer, trajectory):
    loans = final.rows("SELECT member_id FROM loans WHERE item_id = 'T-230'")
    return [loan["member_id"] for loan in loans] == ["M-1023"]
"""
TRIPS = """    if len(note) > 150:
        raise ValueError("too long for the card")
    late = max("""


def otherwise(question: str) -> str | None:
    """The recorded run, with a courtesy, a code verifier, and a tool that trips over long notes."""
    stage, task = found(r"^Stage: (\S+)$", question), found(r"[Tt]ask `([a-z-]+)`", question)
    good = (HERE / "tool-library" / "tools.2.py").read_text()
    if stage == "tools":
        return json.dumps({"code": good.replace("    late = max(", TRIPS, 1)})
    if stage == "check":
        return json.dumps({"code": good})
    if (stage, task) == ("oracle", "lend-sander"):
        calls = json.loads(recorded(question))["calls"]
        arguments = {"member_id": "${0.members.0.id}", "item_id": "T-230"}
        return json.dumps({"calls": [*calls, {"tool": "reserve_item", "arguments": arguments}]})
    if (stage, task) == ("verifier", "lend-sander"):
        return json.dumps({"optional_calls": [3]})
    if (stage, task) == ("verifier", "joris-gives-up"):
        why = "who is next in line"
        code = {"source": GIVES_UP, "instead_of": [1], "because": why}
        return json.dumps({"code": code})
    return None


async def test_courtesies_code_and_tools_that_only_the_gate_finds_wrong(
    place: Workshop, tmp_path: Path
) -> None:
    run = Place(tmp_path, place)
    run.said = Recorded(otherwise)
    folder = RunFolder.begin(tmp_path / "runs" / "one", LIBRARY)
    (record,) = await run.run(folder)
    assert (record.outcome, record.reason) == ("passed", "")
    files = folder.path / "environments" / "tool-library"

    pack = load_pack(tmp_path / "tool-library")
    lend = pack.tasks["lend-sander"]
    assert [call.optional for call in lend.oracle] == [False, False, False, True]
    (allowed,) = lend.verifier["allow"]
    assert (allowed["table"], allowed["change"]) == ("reservations", "added")
    assert allowed["where"]["member_id"] == "M-1004"
    assert {entry["table"] for entry in lend.verifier["expect"]} == {"items", "loans"}

    gives_up = pack.tasks["joris-gives-up"].verifier
    assert gives_up["code"] == {"kind": "native", "function": "verify_joris_gives_up"}
    assert {"table": "loans"} in gives_up["allow"]
    assert "def verify_joris_gives_up" in (pack.path / "verifiers.py").read_text()
    judged = msgspec.json.decode((files / "verifier.json").read_bytes(), type=Judged)
    assert judged.unsaid == {"joris-gives-up": "who is next in line"}

    check = record.stages[-1]
    (repair,) = check.repairs
    assert (check.stage, repair.of) == ("check", "tools.py")
    assert "wrong calls are answered, not crashed" in repair.problems[0]
    assert "-    if len(note) > 150:" in repair.changed
    checked = msgspec.json.decode((files / "check.json").read_bytes(), type=Checked)
    assert checked.code == (pack.path / "tools.py").read_text()
    assert "len(note) > 150" in (files / "tools.py").read_text(), "the stage's file is as it was"


async def test_a_pack_that_somebody_else_made_is_left_alone(
    place: Workshop, tmp_path: Path
) -> None:
    """Though the name was free when the run began."""
    run = Place(tmp_path, place)
    theirs = tmp_path / "tool-library"

    def late(question: str) -> str | None:
        if found(r"^Stage: (\S+)$", question) == "verifier":
            theirs.mkdir(exist_ok=True)
            (theirs / "environment.toml").write_text("theirs")
        return None

    run.said = Recorded(late)
    (record,) = await run.run(RunFolder.begin(tmp_path / "runs" / "one", LIBRARY))
    assert record.outcome == "rejected"
    assert "not of this run" in record.reason
    assert (theirs / "environment.toml").read_text() == "theirs"


# --- models ----------------------------------------------------------------------------------


class Verdict(Spec, frozen=True, kw_only=True):
    word: str


async def test_anthropics_models_are_asked_by_their_own_library(tmp_path: Path) -> None:
    server = ModelServer(Reply(status=529, headers={"retry-after-ms": "1"}), '{"word": "yes"}')
    async with answering(server) as at:
        url = at.base_url.removesuffix("/v1")
        endpoint = Endpoint(
            base_url=url, model="anthropic:claude-test", api_key="sk-1", temperature=None
        )
        spending = Spending(tmp_path, None, None)
        async with asked_at(endpoint, "", spending) as (model, embed):
            author = Author(model, endpoint, tmp_path / "answers", spending)
            for _ in range(2):  # the second answer is the first
                verdict = await author.ask(Verdict, "Is it so?", Spent(stage="test"))
    assert (verdict, embed, len(server.asked)) == (Verdict(word="yes"), None, 2)
    assert set(server.keys) == {"Bearer sk-1"}
    assert server.asked[1]["model"] == "claude-test"
    assert (spending.usage.prompt_tokens, spending.usage.completion_tokens) == (100, 20)


class Amounts(Spec, frozen=True, kw_only=True):
    rows: dict[str, Any]


async def test_an_answer_is_the_same_when_it_is_kept(tmp_path: Path) -> None:
    """Also where it holds what JSON cannot write."""
    said = Recorded(lambda question: '{"rows": {"whole": 3, "more": 1e999}}')
    endpoint = Endpoint(base_url="", model="solomon")
    author = Author(said.model, endpoint, tmp_path / "answers", Spending(tmp_path, None, None))
    first, second = [await author.ask(Amounts, "How much?", Spent(stage="test")) for _ in range(2)]
    assert (first, said.asked) == (second, 1)


async def test_an_endpoints_embeddings_are_counted_too(tmp_path: Path) -> None:
    async with answering(ModelServer("")) as endpoint:
        spending = Spending(tmp_path, price_of("any", "", None), None)
        async with asked_at(endpoint, "letters-1", spending) as (_, embed):
            assert embed is not None
            vectors = await embed(["abba", "cc"])
    assert [list(vector[:3]) for vector in vectors] == [[2.0, 2.0, 0.0], [0.0, 0.0, 2.0]]
    assert (spending.usage.prompt_tokens, spending.usd) == (7, None)


async def test_embeddings_that_were_lost_are_counted_as_the_most_they_may_cost(
    tmp_path: Path,
) -> None:
    async with answering(ModelServer(Reply(hang=True))) as at:
        endpoint = msgspec.structs.replace(at, attempts=1, timeout_seconds=0.2)
        spending = Spending(tmp_path, None, None)
        async with asked_at(endpoint, "letters-1", spending) as (_, embed):
            assert embed is not None
            with pytest.raises(LlmUnavailable, match="gave no embeddings"):
                await embed(["abba", "cc"])
    assert [(one.lost, one.usage.prompt_tokens) for one in spending.every] == [(True, 6)]


async def test_no_more_is_asked_at_once_than_the_budget_bears(tmp_path: Path) -> None:
    """Who does not fit waits for those under way, and is let in if they cost less than feared."""
    from environments.evaluation.figures import Prices
    from environments.llm import Usage

    prices = Prices(prompt=0.0, completion=1e6)  # a dollar a token
    spending = Spending(tmp_path, prices.of, 10.0)
    inside: list[int] = []

    async def ask(number: int) -> None:
        async with spending.reserved(Usage(completion_tokens=4)):
            inside.append(number)
            assert len(inside) <= 2
            await anyio.lowlevel.checkpoint()
            spending.add(Spent(stage="test", usage=Usage(completion_tokens=1)))
            inside.remove(number)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(ask, number)
    assert spending.usd == 6.0
    again = Spending(tmp_path, prices.of, 10.0)
    assert again.usd == 6.0, "it is on disk"
    with (tmp_path / "spending.jsonl").open("a") as file:
        file.write('{"stage": "test", "usage": {"completion_tokens": 2}}\n')
    assert Spending(tmp_path, None, None).usd is None
    assert Spending(tmp_path, prices.of, 10.0).usd == 8.0, "what had no price then has one now"
    (tmp_path / "spending.jsonl").write_bytes(
        (tmp_path / "spending.jsonl").read_bytes() + b'{"stage": "cut o'
    )
    assert Spending(tmp_path, prices.of, 10.0).usd == 8.0


def test_prices() -> None:
    from environments.llm import Usage

    million = Usage(prompt_tokens=1_000_000, completion_tokens=1_000_000)
    known = price_of("gpt-4o-mini", "https://api.openai.com/v1")
    assert known is not None
    assert 0 < known(million) < 100
    assert price_of("gpt-4o-mini", "http://localhost:8000/v1") is None, "somebody else's price"

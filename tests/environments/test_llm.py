"""Structured answers from an OpenAI-compatible server that is good, busy, broken or absent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
import pytest

from environments.llm import (
    ChatMessage,
    Endpoint,
    Llm,
    LlmUnavailable,
    LlmUnreadable,
    Usage,
    json_in,
    schema_of,
)
from tests.environments.model_server import ModelServer, Reply, answering

pytestmark = pytest.mark.anyio

QUESTION = [ChatMessage("user", "How many legs has a spider?")]
GOOD = '{"legs": 8, "sure": true}'


class Legs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    legs: Annotated[int, msgspec.Meta(ge=0)]
    sure: bool


class Pauses:
    """Sleep that only notes how long it was asked to sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@asynccontextmanager
async def asking(
    server: ModelServer, pauses: Pauses | None = None, **changed: Any
) -> AsyncIterator[Llm]:
    async with answering(server) as endpoint:
        patient = msgspec.structs.replace(endpoint, **changed)
        async with Llm(patient, sleep=pauses or Pauses()) as llm:
            yield llm


async def test_a_good_answer_comes_decoded_with_what_it_cost() -> None:
    server = ModelServer(GOOD)
    async with asking(server) as llm:
        legs, usage = await llm.ask(QUESTION, Legs)
    assert legs == Legs(8, True)
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (1, 100, 20)
    (body,) = server.asked
    assert body["model"] == "solomon"
    assert body["temperature"] == 0
    assert body["messages"] == [{"role": "user", "content": QUESTION[0].content}]
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["legs", "sure"]
    assert server.keys == ["Bearer key-of-the-test"]


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"<think>a spider { {'legs': 6} } or so</think>\n{GOOD}",
        f"The answer is {GOOD}, of course.",
    ],
)
async def test_an_answer_is_found_under_its_wrapping(text: str) -> None:
    async with asking(ModelServer(text)) as llm:
        assert (await llm.ask(QUESTION, Legs))[0].legs == 8


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("eight", "malformed"),
        ("", "truncated"),
        ('{"legs": "8", "sure": true}', "Expected `int`"),
        ('{"legs": -1, "sure": true}', ">= 0"),
        ('{"legs": 8}', "missing required field `sure`"),
        ('{"legs": 8, "sure": true, "eyes": 8}', "unknown field `eyes`"),
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_for_again(wrong: str, why: str) -> None:
    server = ModelServer(wrong, GOOD)
    async with asking(server) as llm:
        legs, usage = await llm.ask(QUESTION, Legs)
    assert legs.legs == 8
    assert (usage.requests, usage.prompt_tokens) == (2, 200)
    told = server.asked[1]["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert why in told[-1]["content"]


async def test_nonsense_to_the_end_is_a_fault_of_ours() -> None:
    server = ModelServer("I would rather not.")
    async with asking(server) as llm:
        with pytest.raises(LlmUnreadable, match="3 answers that cannot be used") as caught:
            await llm.ask(QUESTION, Legs)
    assert caught.value.kind == "infrastructure"
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_a_busy_endpoint_is_tried_again_with_growing_pauses(status: int) -> None:
    pauses = Pauses()
    server = ModelServer(Reply(status=status), Reply(status=status), GOOD)
    async with asking(server, pauses, pause_seconds=2.0) as llm:
        legs, usage = await llm.ask(QUESTION, Legs)
    assert (legs.legs, usage.requests) == (8, 1)
    assert pauses.seconds == [2.0, 4.0]


async def test_the_endpoint_says_how_long_to_wait() -> None:
    pauses = Pauses()
    server = ModelServer(
        Reply(status=429, headers={"retry-after": "7"}),
        Reply(status=429, headers={"retry-after": "9999"}),
        GOOD,
    )
    async with asking(server, pauses, longest_pause_seconds=30.0) as llm:
        await llm.ask(QUESTION, Legs)
    assert pauses.seconds == [7.0, 30.0]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=429), "429 "),
        (Reply(status=500), "500 "),
        (Reply(raw="<html>Bad gateway</html>"), "not a chat completion"),
        (Reply(raw="{}"), "not a chat completion"),
    ],
)
async def test_an_endpoint_that_stays_broken_is_a_fault_of_ours(reply: Reply, words: str) -> None:
    pauses = Pauses()
    server = ModelServer(reply)
    async with asking(server, pauses) as llm:
        with pytest.raises(LlmUnavailable, match="nothing in 3 attempts") as caught:
            await llm.ask(QUESTION, Legs)
    assert words in caught.value.message
    assert len(pauses.seconds) == 2, "nobody waits after the last attempt"
    assert "key-of-the-test" not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_is_not_tried_again(status: int) -> None:
    server = ModelServer(Reply(status=status))
    async with asking(server) as llm:
        with pytest.raises(LlmUnavailable, match=f"refuses: {status}"):
            await llm.ask(QUESTION, Legs)
    assert len(server.asked) == 1


async def test_an_endpoint_that_does_not_answer_in_time_is_tried_again() -> None:
    server = ModelServer(Reply(hang=True), GOOD)
    async with asking(server, timeout_seconds=0.2) as llm:
        assert (await llm.ask(QUESTION, Legs))[0].legs == 8
    assert len(server.asked) == 2


async def test_nobody_there_is_a_fault_of_ours() -> None:
    nowhere = Endpoint(base_url="http://127.0.0.1:9/v1", model="solomon", attempts=2)
    async with Llm(nowhere, sleep=Pauses()) as llm:
        with pytest.raises(LlmUnavailable, match="Connection"):
            await llm.ask(QUESTION, Legs)


async def test_a_server_without_schemas_is_asked_without_one_from_then_on() -> None:
    server = ModelServer(GOOD, takes_schema=False)
    async with asking(server) as llm:
        await llm.ask(QUESTION, Legs)
        await llm.ask(QUESTION, Legs)
    assert ["response_format" in body for body in server.asked] == [True, False, False]


async def test_models_without_temperature() -> None:
    server = ModelServer(GOOD)
    async with asking(server, temperature=None) as llm:
        await llm.ask(QUESTION, Legs)
    assert "temperature" not in server.asked[0]


async def test_a_key_is_in_no_representation() -> None:
    endpoint = Endpoint(base_url="http://h/v1", model="m", api_key="secret")
    assert "secret" not in f"{endpoint} {endpoint!r}"


async def test_small_things() -> None:
    assert json_in("no object") == "no object"
    assert "$defs" not in schema_of(Legs)
    total = Usage(requests=1, seconds=0.5) + Usage(requests=2, completion_tokens=3)
    assert total == Usage(requests=3, completion_tokens=3, seconds=0.5)

"""Windows: what a policy is shown is what its trajectory says it saw."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.chat import Message, Transcript, calls_of, model_calls, observation, shown
from environments.environment import open_environments
from environments.episode import Episode
from environments.record import Provenance, trajectory_of
from environments.trajectory import Window
from hub.mcp_server.methods import render
from hub.mcp_server.surface import CallContext
from hub.mcp_server.surfaces import EpisodeSurface

PACKS = Path(__file__).parents[1] / "packs"
ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def chat(letters: str) -> list[Message]:
    return [{"role": ROLES[letter], "content": f"{place}"} for place, letter in enumerate(letters)]


def words(messages: Sequence[Message]) -> int:
    return 10 * len(messages)


@pytest.mark.parametrize(
    ("letters", "turns", "seen"),
    [
        ("su", 1, "su"),
        ("suat", 1, "suat"),
        ("suatattat", 1, "suat"),
        ("suatattat", 2, "suattat"),
        ("suatattat", 3, "suatattat"),
        ("suatattat", 9, "suatattat"),
        ("suaua", 1, "sua"),
        ("suauau", 1, "suau"),
        ("atat", 1, "at"),
        ("", 1, ""),
    ],
)
def test_system_task_and_the_last_turns_are_shown(letters: str, turns: int, seen: str) -> None:
    places = shown(chat(letters), Window(turns=turns))
    assert "".join(letters[place] for place in places) == seen
    assert list(places) == sorted(places)
    assert not places or places[-1] == len(letters) - 1


def test_a_budget_of_tokens_drops_the_oldest_turns_first() -> None:
    messages = chat("suatatattat")
    for budget, count in ((110, 11), (109, 9), (90, 9), (70, 7), (69, 4), (45, 4), (1, 4)):
        places = shown(messages, Window(tokens=budget, tokenizer="words"), words)
        if budget == 69:
            assert len(places) == 4, "a turn is shown whole or not at all"
        assert len(places) == count, budget
        assert places[:2] == (0, 1)
    both = Window(tokens=1000, turns=2, tokenizer="words")
    assert len(shown(messages, both, words)) == 7
    with pytest.raises(ValueError, match="tokens of words"):
        shown(messages, both)
    with pytest.raises(ValueError, match="names its tokenizer"):
        Window(tokens=5)


@given(st.lists(st.sampled_from(["at", "a", "att", "au"]), max_size=8), st.integers(1, 5))
def test_a_transcript_keeps_the_exact_messages_of_every_call(turns: list[str], last: int) -> None:
    window = Window(turns=last)
    transcript = Transcript(chat("su"), window)
    sent = []
    for turn in turns:
        sent.append(transcript.prompt())
        transcript.reply({"role": "assistant", "content": turn}, ids=[len(sent)])
        for letter in turn[1:]:
            transcript.add({"role": ROLES[letter], "content": f"{len(transcript.messages)}"})
    assert [
        [transcript.messages[place] for place in call.prompt] for call in transcript.calls
    ] == sent
    answers = [transcript.messages[call.completion]["content"] for call in transcript.calls]
    assert answers == turns
    assert [call.tokens for call in transcript.calls] == [
        {"ids": [n + 1]} for n in range(len(turns))
    ]
    # rendered from the messages alone, under the same window, it is the same
    rendered = calls_of(transcript.messages, window)
    assert [(call.prompt, call.completion) for call in rendered] == [
        (call.prompt, call.completion) for call in transcript.calls
    ]


@pytest.mark.anyio
async def test_the_trajectory_has_one_record_for_each_call(tmp_path: Path) -> None:
    shutil.copytree(PACKS / "shop", tmp_path / "shop")
    path = tmp_path / "shop" / "tasks.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["tells_remaining"] = True
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with open_environments([tmp_path]) as environments:
        shop = await environments.get("shop")
        episode = await Episode.start(shop, task="buy-tea", horizon=4)
        surface = EpisodeSurface(episode)
        told: list[str] = []
        buy = {"sku": "TEA-100", "quantity": 2}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("list_products", {}),
            ("order", {**buy, "quantity": 0}),
            ("order", buy),
        ]
        for tool, arguments in calls:
            answer = await surface.call_tool(tool, arguments, CallContext("tools/call", {}))
            parts = render(answer, any_structured=True)["content"]
            told.append("\n".join(part["text"] for part in parts))
        await episode.score("done")
    assert told[0].endswith("\n[3 steps remain]")
    assert told[2].endswith("\n[1 step remains]")
    trajectory = trajectory_of(episode, Provenance(window=Window(turns=1)))
    seen = list(model_calls(trajectory))
    assert len(seen) == 4
    for number, (prompt, completion, _) in enumerate(seen):
        assert [message["role"] for message in prompt[:2]] == ["system", "user"]
        assert completion["role"] == "assistant"
        assert [message.get("content") for message in prompt[3:]] == told[
            max(0, number - 1) : number
        ]
    assert [observation(step, 3 - step.index) for step in episode.steps] == told

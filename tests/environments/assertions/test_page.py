"""The reference page: every word has its example, and every example runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from environments.assertions.matchers import BESIDE, TESTS
from environments.assertions.parts import ELSEWHERE, ENTRY_WORDS, WORDS
from tests.environments.assertions.shop import SCHEMA, Judge, check_case

PAGE = Path(__file__).parents[3].joinpath("docs", "assertions.md").read_text()
SECTIONS = re.split(r"^#{2,3} ", PAGE, flags=re.MULTILINE)
EXAMPLES = [
    pytest.param(json.loads(body), id=section.partition("\n")[0].replace("`", ""))
    for section in SECTIONS
    for body in re.findall(r"```json\n(.*?)```", section, flags=re.DOTALL)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_does_as_it_says(judge: Judge, example: dict[str, Any]) -> None:
    check_case(judge, example)


@pytest.mark.parametrize("word", sorted({*WORDS, *TESTS, *BESIDE}.union(*ENTRY_WORDS.values())))
def test_the_word_has_an_example(word: str) -> None:
    own = [section for section in SECTIONS if section.startswith(f"`{word}`")]
    assert own, f"docs/assertions.md does not explain {word}"
    assert all(f'"{word}"' in section for section in own)


def test_words_judged_elsewhere_are_named() -> None:
    assert all(f"`{word}`" in PAGE for word in ELSEWHERE)


def test_the_shop_is_the_one_on_the_page() -> None:
    assert f"```sql\n{SCHEMA.strip()}\n```" in PAGE


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#{2,3} (.*)$", PAGE, flags=re.MULTILINE)
    anchors = {heading.replace("`", "").lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= anchors

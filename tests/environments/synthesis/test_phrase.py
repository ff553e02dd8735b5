"""Instructions agree with what is filled into them."""

from __future__ import annotations

import pytest

from environments.synthesis.offline.phrase import worded


@pytest.mark.parametrize(
    ("pattern", "value", "text"),
    [
        ("report a {} repair", "electrical", "report an electrical repair"),
        ("report a {} repair", "plumbing", "report a plumbing repair"),
        ("take {} down", "a unit", "take a unit down"),
        ("renew the loan for {} days", "1", "renew the loan for 1 day"),
        ("renew the loan for {} days", "11", "renew the loan for 11 days"),
        ("move {} child seats to the van", "1", "move 1 child seat to the van"),
        ("who missed {} appointments books no more", "1", "who missed 1 appointment books no more"),
        ("enter grade {} as the last", "1", "enter grade 1 as the last"),
    ],
)
def test_articles_and_plurals_agree_with_what_is_filled_in(
    pattern: str, value: str, text: str
) -> None:
    assert worded(pattern, {"": value}) == text


def test_only_what_a_hole_stands_beside_is_changed() -> None:
    said = {"note": "keeps 1 boxes of a old kind", "boxes": "1"}
    assert worded("note “{note}”: {boxes} boxes", said) == f"note “{said['note']}”: 1 box"

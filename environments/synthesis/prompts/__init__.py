"""What the model is asked, as text files of ours: ``$name`` stands for what is put there."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template


def prompt(name: str, **values: object) -> str:
    """The prompt called ``name`` with its places filled. Raises ``KeyError`` for one left."""
    return _template(name).substitute(values)


@cache
def _template(name: str) -> Template:
    return Template((Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8"))

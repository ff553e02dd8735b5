"""A thousand packs, each with data of its own, for tests and figures of scale."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from environments.scaffold import TEMPLATE

DOMAINS: Final = ("retail", "travel", "health", "finance", "education")
TAGS: Final = ("bookings", "payments", "records")
CALL: Final = {"tool": "find_books", "arguments": {"query": "volume"}}
"""A call that every one of them answers, with its own rows."""
BOOKS: Final = 200
"""Rows beside those of the template."""

_BROKEN: Final = {
    "manifest": ("environment.toml", 'name = "{name}"\nversion = \n'),
    "tasks": ("tasks.jsonl", '{{"id": "a", "instruction": "b", "verifyer": {{}}}}\n'),
    "schema": ("schema.sql", "CREATE TABLE books (id INTEGER PRIMARY KEY, title TXT STRICT;\n"),
    "tools": ("tools.py", "import nothing_of_that_name\n"),
}
BROKEN: Final = tuple(_BROKEN)
"""In how many ways a pack may be broken; the last two are found only when it is opened."""


def name_of(number: int) -> str:
    return f"library-{number:04}"


def make_packs(folder: Path, count: int) -> None:
    """``count`` packs that differ in name, domain, tags and rows."""
    for number in range(count):
        make_pack(folder, number)


def make_pack(folder: Path, number: int, name: str = "") -> Path:
    name = name or name_of(number)
    path = folder / name
    shutil.copytree(TEMPLATE, path, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = path / "environment.toml"
    text = manifest.read_text().replace("{{name}}", name)
    text = text.replace("{{title}}", f"Library of {DOMAINS[number % len(DOMAINS)]} no. {number}")
    lines = [line for line in text.splitlines() if not line.startswith(("domain", "tags"))]
    place = next(i for i, line in enumerate(lines) if line.startswith("name")) + 1
    lines[place:place] = [
        f'domain = "{DOMAINS[number % len(DOMAINS)]}"',
        f'tags = ["{TAGS[number % len(TAGS)]}"]',
    ]
    manifest.write_text("\n".join(lines) + "\n")
    books = path / "data" / "books.jsonl"
    more = "".join(
        f'{{"id": "X-{row:04}", "title": "Volume {row} of {number}", "author": "Author {row % 17}",'
        f' "year": {1900 + row % 120}, "copies": {1 + row % 3}}}\n'
        for row in range(BOOKS)
    )
    books.write_text(books.read_text() + more)
    return path


def break_pack(path: Path, how: str) -> None:
    """Make the pack one that cannot be read, built or loaded; see ``BROKEN``."""
    file, text = _BROKEN[how]
    (path / file).write_text(text.format(name=path.name))


def copy_pack(pack: Path, name: str) -> None:
    """The same pack beside it under another name, which gives it another digest."""
    path = pack.parent / name
    shutil.copytree(pack, path)
    manifest = path / "environment.toml"
    manifest.write_text(manifest.read_text().replace(f'"{pack.name}"', f'"{name}"', 1))

"""Verifiers by construction: what an oracle changed, as assertions.

The oracle is played twice, the second time with another seed and a later clock. What came out
otherwise was made up on the way: an id is bound where it occurs again, else free; a time is free.
All the rest is pinned, to be loosened where the task's intent leaves room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from environments.environment import Environment
from environments.episode import Episode
from environments.oracle import play_oracle
from environments.spec import Task
from environments.trajectory import Step
from snapshots import Changeset
from snapshots.rows import RowChange, row_to_json

LATER_SECONDS: Final = 427.0
"""How much later the second run begins: other minutes and seconds, the same day."""
SEEDS: Final = (11, 23)
UNJUDGED: Final[dict[str, Any]] = {"answer": {"exact": "(nothing is judged yet)"}}
"""A verifier for a task that has none yet."""
Place = Literal["where", "set"]


class Cell(NamedTuple):
    """One value of an entry of ``expect``: pinned, bound or free."""

    entry: int
    place: Place
    column: str
    value: Any
    made_up: bool

    @property
    def name(self) -> str:
        """What it is called where it is talked about: ``0.set.status``."""
        return f"{self.entry}.{self.place}.{self.column}"


@dataclass(frozen=True, slots=True)
class Construction:
    """The entries of a verifier, and their cells; keys of rows that were there are no cells."""

    entries: tuple[dict[str, Any], ...]
    cells: tuple[Cell, ...]
    calls: tuple[frozenset[int], ...]
    """The calls of the oracle that each entry comes from."""

    def expect(self, chosen: Mapping[str, Any], without: Collection[int]) -> list[dict[str, Any]]:
        """The entries of ``expect`` but for some, with a matcher for each cell that is ``chosen``
        (``None``: free); those that come out equal are one with their number."""
        bound = _Names(self.cells)
        numbers = [number for number in range(len(self.entries)) if number not in without]
        return _counted([self._entry(number, chosen, bound) for number in numbers])

    def allow(self, chosen: Mapping[str, Any], numbers: Collection[int]) -> list[dict[str, Any]]:
        """Some entries, as changes that may be made; what was made up on the way is free."""
        return [self._entry(number, chosen, None) for number in sorted(numbers)]

    def courtesies(self, calls: Collection[int]) -> set[int]:
        """The entries that come from these calls alone."""
        return {number for number, made in enumerate(self.calls) if made and made <= {*calls}}

    def _entry(
        self, number: int, chosen: Mapping[str, Any], bound: _Names | None
    ) -> dict[str, Any]:
        entry = {
            word: dict(value) if isinstance(value, dict) else value
            for word, value in self.entries[number].items()
        }
        for cell in (cell for cell in self.cells if cell.entry == number):
            matcher = _matcher(cell, chosen, bound)
            if matcher is not _FREE:
                entry[cell.place][cell.column] = matcher
            elif cell.place == "set":
                entry["set"][cell.column] = {"any": True}
        return {word: value for word, value in entry.items() if value != {}}


class _Names:
    """What values that were made up on the way are bound to, where they occur more than once."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        made_up = (cell.value for cell in cells if cell.made_up and not _is_time(cell.value))
        self._counts = Counter(map(repr, made_up))
        self._names: dict[str, str] = {}

    def of(self, value: Any) -> str | None:
        if self._counts[repr(value)] < 2:
            return None
        return self._names.setdefault(repr(value), f"made{len(self._names) + 1}")


_FREE: Final = object()


def _matcher(cell: Cell, chosen: Mapping[str, Any], bound: _Names | None) -> Any:
    if cell.name in chosen:
        return _FREE if chosen[cell.name] is None else chosen[cell.name]
    if not cell.made_up:
        return cell.value
    name = None if bound is None else bound.of(cell.value)
    return _FREE if name is None else {"bind": name}


def _counted(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    first = [entry for place, entry in enumerate(entries) if entry not in entries[:place]]
    counts = [entries.count(entry) for entry in first]
    return [
        entry if count == 1 else {**entry, "count": count}
        for entry, count in zip(first, counts, strict=True)
    ]


async def construct(environment: Environment, task: Task) -> Construction:
    """The verifier that an oracle's changes make. Raises what ``Episode.call`` does."""
    first = await _played(environment, task, SEEDS[0])
    second = await _played(environment.later(LATER_SECONDS), task, SEEDS[1])
    entries: list[dict[str, Any]] = []
    cells: list[Cell] = []
    calls: list[frozenset[int]] = []
    for table, made in first.items():
        others = list(second.get(table, ()))
        for one in made:
            other = _counterpart(one, others)
            entry, values = _entry_of(table, one.change)
            again = row_to_json(other.change.after or {}) if other is not None else {}
            place: Place = "where" if one.change.kind == "added" else "set"
            cells += [
                Cell(len(entries), place, column, value, again.get(column) != value)
                for column, value in values.items()
            ]
            calls.append(one.calls)
            entries.append(entry)
    numbered = _numbered(first, cells)
    cells = [cell._replace(made_up=True) if numbered(cell) else cell for cell in cells]
    return Construction(tuple(entries), tuple(cells), tuple(calls))


def _numbered(
    first: Mapping[str, Sequence[_Made]], cells: Sequence[Cell]
) -> Callable[[Cell], bool]:
    """Whether a cell is a key that a tool gave out, or names one. It is the same in every run that
    goes the same way, and another in one that makes its rows in another order.

    A number that stands in other cells as well may be a reference or an amount: it stays.
    """
    every = [made for rows in first.values() for made in rows]
    keys = {made.given_out for made in every if made.given_out is not None}
    places = Counter(repr(cell.value) for cell in cells)

    def numbered(cell: Cell) -> bool:
        if isinstance(cell.value, str):
            return cell.value in keys
        alone = places[repr(cell.value)] == 1
        return isinstance(cell.value, int) and cell.value in keys and alone

    return numbered


def _entry_of(table: str, change: RowChange) -> tuple[dict[str, Any], dict[str, Any]]:
    """An entry with what identifies a row that was there, and the values its cells have."""
    entry: dict[str, Any] = {"table": table, "change": change.kind}
    if change.kind == "added":
        return {**entry, "where": {}}, row_to_json(change.after or {})
    entry["where"] = row_to_json(change.key)
    if change.kind == "removed":
        return entry, {}
    return {**entry, "set": {}}, row_to_json(change.after or {})


class _Made(NamedTuple):
    """A change, and the calls that made it."""

    change: RowChange
    calls: frozenset[int]
    given_out: Any = None
    """The key of a new row, where nobody asked for that one."""


async def _played(environment: Environment, task: Task, seed: int) -> dict[str, list[_Made]]:
    """What the task's oracle changes in each table, net, under this seed."""
    horizon = len(task.oracle) + 1
    episode = await Episode.start(environment, task=task.id, seed=seed, horizon=horizon)
    await play_oracle(episode)
    await episode.close()
    unjudged = environment.pack.spec.changes
    net = episode.changes(actor="agent").filter(
        tables=unjudged.ignore_tables, columns=unjudged.ignore_columns
    )
    return {
        table: [_made(table, change, episode.steps) for change in net.rows(table)]
        for table in net.tables
    }


def _made(table: str, change: RowChange, steps: Sequence[Step]) -> _Made:
    calls = _calls_on(table, change, steps)
    key = next(iter(change.key.values())) if len(change.key) == 1 else None
    asked = [str(steps[number].arguments) for number in sorted(calls)[:1]]
    if change.kind != "added" or key is None or any(str(key) in text for text in asked):
        return _Made(change, calls)
    return _Made(change, calls, key)


def _calls_on(table: str, change: RowChange, steps: Sequence[Step]) -> frozenset[int]:
    return frozenset(
        step.index
        for step in steps
        for made in step.changes
        if made.actor == "agent"
        and any(row.key == change.key for row in Changeset.from_json(made.changes).rows(table))
    )


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _counterpart(one: _Made, others: list[_Made]) -> _Made | None:
    """The change of the other run that is most like this one; it is taken out of ``others``."""
    if not others:
        return None
    best = max(others, key=lambda other: _likeness(one, other))
    others.remove(best)
    return best


def _likeness(one: _Made, other: _Made) -> tuple[bool, bool, bool, int]:
    """A row that was made has another key each time, but comes of the same calls."""
    left, right = one.change.after or {}, other.change.after or {}
    same = sum(left[name] == right.get(name) for name in left)
    return (
        one.change.kind == other.change.kind,
        one.change.key == other.change.key,
        one.calls == other.calls,
        same,
    )

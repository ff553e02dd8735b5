"""What all stages share: what they are given, and what they give."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from environments.catalogue import load_pack
from environments.check.runs import side_by_side
from environments.synthesis.author import Author
from environments.synthesis.folder import RunInvalid, Wanted
from environments.synthesis.journal import Rejection, Repair
from environments.synthesis.mending import Desk, Job
from environments.synthesis.stages.shapes import Rows, Scenario, Specification
from environments.synthesis.workshop import NO_TOOLS, Draft, Workshop

T = TypeVar("T", bound=msgspec.Struct)
S = TypeVar("S")
Item = TypeVar("Item")
Made = TypeVar("Made")


class Product(NamedTuple):
    """What a stage gives: its file, and what it took to make it."""

    body: bytes
    repairs: Sequence[Repair] = ()
    rejected: Sequence[Rejection] = ()
    into: int = 1
    out_of: int = 1


@dataclass(frozen=True, slots=True)
class Bench:
    """What a stage works with. ``made`` has the files of the stages before it."""

    stage: str
    scenario: Scenario
    wanted: Wanted
    author: Author
    workshop: Workshop
    run: Path
    """The folder of the run."""
    packs: Path
    """Where packs go that passed; a world finds those it mounts there."""
    made: Mapping[str, bytes]

    @property
    def members(self) -> list[Path]:
        return [self.packs / name for name in self.scenario.environments]

    def read(self, file: str, kind: type[S]) -> S:
        """What an earlier stage made. Raises ``RunInvalid``."""
        return read_json(self.made[file], kind, f"{self.scenario.name}/{file}")

    @property
    def draft(self) -> Draft:
        """The pack as far as it is made, without tasks."""
        made = {name: body.decode() for name, body in self.made.items()}
        draft = Draft(
            self.scenario.spec,
            schema=made.get("schema.sql", ""),
            tools=made.get("tools.py", NO_TOOLS),
            policy=self._members_policy() if self.members else "",
        )
        if "data.json" in made:
            draft = replace(draft, rows=self.read("data.json", Rows))
        if "specification.json" in made:
            draft = replace(draft, policy=self.read("specification.json", Specification).policy)
        return draft

    def _members_policy(self) -> str:
        packs = [load_pack(path) for path in self.members]
        parts = [f"# {pack.spec.title}\n\n{pack.policy.strip()}\n" for pack in packs if pack.policy]
        return "\n".join(parts)

    @property
    def desk(self) -> Desk:
        """Who is asked."""
        return Desk(
            stage=self.stage,
            environment=self.scenario.name,
            author=self.author,
            repairs=self.wanted.repairs,
            take=self.wanted.takes.get(self.stage, 0),
        )

    async def make(self, job: Job[T]) -> tuple[T, list[Repair]]:
        """Have it made, and repaired until it is right. Raises what ``Desk.make`` does."""
        return await self.desk.make(job)


class Stage(NamedTuple):
    """One stage: what it is called, the file it makes, and how."""

    name: str
    file: str
    make: Callable[[Bench], Awaitable[Product]]


async def each(items: Iterable[Item], do: Callable[[Item], Awaitable[Made]]) -> list[Made]:
    """``do`` for all items at once, else as ``side_by_side``."""
    every = list(items)
    return await side_by_side(every, do, at_once=len(every))


def read_json(body: bytes, kind: type[S], place: str) -> S:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise RunInvalid(f"{place}: {error}", hint="put the file right, or delete it") from None

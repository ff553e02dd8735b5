"""What is in the files of the stages."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from environments.spec import Difficulty, EnvironmentSpec, OracleCall, Spec, Task
from environments.synthesis.makeup import Makeup

Text = Annotated[str, msgspec.Meta(min_length=1)]


class Scenario(Spec, frozen=True, kw_only=True):
    """An environment that was thought of, or a world of several."""

    name: str
    """Of the pack: a-z, 0-9 and -, at most 16 characters where a world mounts it, else 40."""
    title: Text
    summary: Text
    """What the system is, whose it is and what it is used for, in two to four sentences."""
    domain: Text
    entities: tuple[str, ...] = ()
    """What it keeps records of."""
    operations: tuple[str, ...] = ()
    """What its users do that changes records, a verb and an object each."""
    environments: tuple[str, ...] = ()
    """For a world: the names of the environments it mounts."""

    @property
    def spec(self) -> EnvironmentSpec:
        """The manifest of its pack."""
        return EnvironmentSpec(
            name=self.name,
            version="1.0.0",
            title=self.title,
            summary=self.summary,
            domain=self.domain,
            environments=self.environments,
            provenance="Synthesised; all people, companies and data are invented.",
        )


class WantedTask(Spec, frozen=True, kw_only=True):
    """``tasks.json``: something a user wants done, as the requirement that it is at first."""

    id: str
    """Short and telling: a-z, 0-9 and -."""
    instruction: Text
    """As the user says it."""
    difficulty: Difficulty
    question: bool = False
    """Whether it only asks for something and changes nothing."""


class PlannedTool(Spec, frozen=True, kw_only=True):
    """``specification.json``: one tool before it is written."""

    name: str
    description: Text
    read_only: bool
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    """What each parameter is: its type, its limits, an example."""
    returns: str = ""
    errors: dict[str, str] = msgspec.field(default_factory=dict)
    """Codes of the errors it answers with, and when."""


class Specification(Spec, frozen=True, kw_only=True):
    """``specification.json``."""

    policy: str
    """The rules of the place, as the agent is told them."""
    tools: tuple[PlannedTool, ...]


class Solved(Spec, frozen=True, kw_only=True):
    """``oracle.json``: a task, and the calls that solve it."""

    id: str
    instruction: Text
    difficulty: Difficulty
    question: bool = False
    calls: tuple[OracleCall, ...] = ()
    answer: str | None = None


class Judged(Spec, frozen=True, kw_only=True):
    """``verifier.json``: the tasks with their verifiers, as they go into the pack."""

    tasks: tuple[Task, ...] = ()
    functions: dict[str, str] = msgspec.field(default_factory=dict)
    """Code verifiers by task; they make up ``verifiers.py``."""
    unsaid: dict[str, str] = msgspec.field(default_factory=dict)
    """Why assertions cannot say what those judge."""


class Checked(Spec, frozen=True, kw_only=True):
    """``check.json``: what the pack is made of in the end, and what the gate said of it."""

    digest: str
    makeup: Makeup
    code: str = ""
    """``tools.py``, where the gate had it mended."""


Rows = dict[str, list[dict[str, Any]]]
"""``data.json``: the rows of each table."""

"""Runs of the pipeline in this process, with a model that says what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from environments.llm import Endpoint
from environments.synthesis.author import Author
from environments.synthesis.folder import RunFolder, Wanted
from environments.synthesis.journal import EnvironmentRecord
from environments.synthesis.pipeline import Pipeline, Told
from environments.synthesis.spending import Spending
from environments.synthesis.workshop import Workshop
from tests.environments.synthesis.recorded import recorded

LIBRARY = Wanted(sentence="A tool library.", model="solomon", tasks=6, repairs=2)


class Recorded:
    """A model that says what was recorded, or ``otherwise`` where that gives something; counts
    what it was asked."""

    def __init__(self, otherwise: Callable[[str], str | None] = lambda question: None) -> None:
        self.asked = 0
        self.otherwise = otherwise
        self.model = FunctionModel(self._say)

    def _say(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked += 1
        parts = (part for message in messages for part in message.parts)
        question = str(next(part.content for part in parts if isinstance(part, UserPromptPart)))
        text = self.otherwise(question)
        return ModelResponse(parts=[TextPart(recorded(question) if text is None else text)])


class Place:
    """Where a test makes runs."""

    def __init__(self, packs: Path, workshop: Workshop) -> None:
        self.packs = packs
        self.workshop = workshop
        self.said = Recorded()
        self.told: list[Told] = []

    async def run(self, folder: RunFolder, *, asking: bool = True) -> list[EnvironmentRecord]:
        self.told.clear()
        endpoint = Endpoint(base_url="", model=folder.wanted.model, temperature=None)
        spending = Spending(folder.path, None, None)
        model = self.said.model if asking else None
        author = Author(model, endpoint, folder.path / "answers", spending)
        return await Pipeline(
            folder, self.packs, author, self.workshop, told=self.told.append
        ).run()

    def made_anew(self) -> list[str]:
        return [one.stage for one in self.told if one.outcome is not None and not one.known]

"""The one who writes: a model that is asked for structs, each question once.

An answer is kept in the folder of the run by the content of its question, as soon as it fits; the
same question is answered from there, after a restart too. Without a model it is answered from there
or not at all, which is how a run is played again.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec

from environments.llm import Endpoint, LlmUnavailable, LlmUnreadable, Sleep, schema_of
from environments.synthesis.alike import Embed
from environments.synthesis.prompts import prompt
from environments.synthesis.spending import Spending, Spent, SynthesisUnavailable
from environments.whole import write_whole

if TYPE_CHECKING:
    from pydantic_ai.models import Model

T = TypeVar("T", bound=msgspec.Struct)
REASKED = 3
"""How often an answer that does not fit is asked for again."""


@asynccontextmanager
async def asked_at(
    endpoint: Endpoint, embedder: str, spending: Spending
) -> AsyncIterator[tuple[Model, Embed | None]]:
    """The model behind an endpoint, and the one of it that embeds texts, if it is named.

    Raises ``SynthesisUnavailable``.
    """
    try:
        from environments.synthesis.patient import embedder_at, model_at
    except ImportError as error:
        raise SynthesisUnavailable from error
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(model_at(endpoint))
        embed = None
        if embedder:
            embed = await stack.enter_async_context(embedder_at(endpoint, embedder, spending))
        yield model, embed


class Author:
    """Asks a model. ``model`` is any that pydantic-ai knows; ``None`` knows only what was said."""

    def __init__(
        self,
        model: Model | None,
        endpoint: Endpoint,
        answers: Path,
        spending: Spending,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self.spending = spending
        self._model = model
        self._answers = answers
        self._sleep = sleep
        self._limiter = anyio.Semaphore(endpoint.concurrency)

    async def ask(self, kind: type[T], question: str, about: Spent, take: int = 0) -> T:
        """The model's answer as a ``kind``, which forbids unknown fields.

        ``about`` says what it is for; another ``take`` is another answer to the same question.
        Raises ``LlmUnavailable``, ``LlmUnreadable`` and ``BudgetSpent``.
        """
        asked = [self.endpoint.model, kind.__name__, prompt("system"), question, take]
        key = hashlib.sha256(msgspec.json.encode(asked)).hexdigest()
        path = self._answers / f"{key}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            if self._model is None:
                raise LlmUnavailable(
                    f"no answer is recorded to this question of stage {about.stage}",
                    hint="give a model, with --model and --base-url",
                ) from None
        answer = await self._asked(self._model, kind, question, about)
        write_whole(path, msgspec.json.format(msgspec.json.encode(answer)))
        return answer

    async def _asked(self, model: Model, kind: type[T], question: str, about: Spent) -> T:
        from pydantic_ai import Agent, ModelRetry, PromptedOutput, StructuredDict
        from pydantic_ai.exceptions import UnexpectedModelBehavior

        from environments.synthesis.patient import Patient

        read: list[T] = []

        def fits(answer: dict[str, Any]) -> dict[str, Any]:
            try:  # as it will be read from where it is kept: JSON has no infinity
                read.append(msgspec.json.decode(msgspec.json.encode(answer), type=kind))
            except msgspec.ValidationError as error:
                raise ModelRetry(str(error)) from error
            return answer

        patient = Patient(model, self.endpoint, self.spending, about, self._limiter, self._sleep)
        wanted = StructuredDict(schema_of(kind), name=kind.__name__)
        agent = Agent(
            patient,
            output_type=PromptedOutput(wanted),
            instructions=prompt("system"),
            retries=REASKED,
        )
        agent.output_validator(fits)
        try:
            await agent.run(question)
        except UnexpectedModelBehavior as error:
            raise LlmUnreadable(
                f"{self.endpoint.model} gave {REASKED + 1} answers that cannot be used, for stage "
                f"{about.stage}: {error.__cause__ or error}",
                hint="ask a model that keeps to a JSON schema, or one that may answer at length",
            ) from error
        return read[-1]

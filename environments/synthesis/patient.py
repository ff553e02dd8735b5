"""A model that is asked patiently and within the budget, and which model that is.

The only module here that needs pydantic-ai when it is imported.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
import httpx2
import msgspec
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Embedder
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from environments.llm import Endpoint, LlmUnavailable, Sleep, Usage
from environments.synthesis.alike import Embed, Vectors
from environments.synthesis.spending import ANTHROPIC, Spending, Spent

MOST_TOKENS: Final = 16_384
"""The longest answer that is asked for."""
_BESIDE: Final = 2_000
"""Tokens that a request may have besides the text of its messages."""
_NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
"""Why no connection was had: nothing was sent, and nothing can have been answered."""


@asynccontextmanager
async def model_at(endpoint: Endpoint) -> AsyncIterator[Model]:
    """The model behind an endpoint: Anthropic's where its name says so, else one that is spoken to
    as OpenAI's are. Tries nothing again by itself."""
    key, timeout = endpoint.api_key or "none", endpoint.timeout_seconds
    if endpoint.model.startswith(ANTHROPIC):
        anthropic = AsyncAnthropic(
            api_key=key, base_url=endpoint.base_url or None, timeout=timeout, max_retries=0
        )
        async with anthropic:
            name = endpoint.model.removeprefix(ANTHROPIC)
            yield AnthropicModel(name, provider=AnthropicProvider(anthropic_client=anthropic))
        return
    openai = AsyncOpenAI(api_key=key, base_url=endpoint.base_url, timeout=timeout, max_retries=0)
    async with openai:
        yield OpenAIChatModel(endpoint.model, provider=OpenAIProvider(openai_client=openai))


@asynccontextmanager
async def embedder_at(endpoint: Endpoint, name: str, spending: Spending) -> AsyncIterator[Embed]:
    """The model called ``name`` behind an OpenAI-compatible endpoint, which embeds texts."""
    openai = AsyncOpenAI(
        api_key=endpoint.api_key or "none",
        base_url=endpoint.base_url,
        timeout=endpoint.timeout_seconds,
        max_retries=endpoint.attempts - 1,
    )
    model = OpenAIEmbeddingModel(name, provider=OpenAIProvider(openai_client=openai))

    async def embed(texts: Sequence[str]) -> Vectors:
        most = Usage(requests=1, prompt_tokens=sum(len(text.encode()) for text in texts))
        async with spending.reserved(most):
            about = Spent(stage="scenario")
            try:
                with _lost_counted(spending, about, most):
                    found = await Embedder(model).embed_documents(texts)
            except ModelAPIError as error:
                raise LlmUnavailable(
                    f"{name} at {endpoint.base_url} gave no embeddings: {_words(error)}",
                    hint="leave out --embedder: texts are then compared by their words",
                ) from error
            usage = Usage(requests=1, prompt_tokens=found.usage.input_tokens)
            spending.add(msgspec.structs.replace(about, usage=usage))
        return found.embeddings

    async with openai:
        yield embed


class Patient(WrapperModel):
    """Asks a model again while its endpoint is busy, away, or answers what is no answer; never
    beyond the budget. Raises ``LlmUnavailable`` and ``BudgetSpent``."""

    def __init__(
        self,
        model: Model,
        endpoint: Endpoint,
        spending: Spending,
        about: Spent,
        limiter: anyio.Semaphore,
        sleep: Sleep,
    ) -> None:
        super().__init__(model)
        self._endpoint = endpoint
        self._spending = spending
        self._about = about
        self._limiter = limiter
        self._sleep = sleep

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        settings = ModelSettings(**(model_settings or {}), max_tokens=MOST_TOKENS)
        if self._endpoint.temperature is not None:
            settings["temperature"] = self._endpoint.temperature
        most, problem = _most(messages), ""
        for attempt in range(self._endpoint.attempts):
            pause = self._endpoint.pause_seconds * 2**attempt
            try:
                async with self._limiter, self._spending.reserved(most):
                    return await self._answer(messages, settings, model_request_parameters, most)
            except (ModelRequestRejectedError, ModelQuotaExceededError) as error:
                raise self._unavailable(f"refuses: {_words(error)}") from error
            except (ModelAPIError, UnexpectedModelBehavior) as error:
                problem = _words(error)
                told = getattr(error, "retry_after", None)
                pause = pause if told is None else told
            if attempt + 1 < self._endpoint.attempts:
                await self._sleep(min(pause, self._endpoint.longest_pause_seconds))
        raise self._unavailable(f"gave nothing in {self._endpoint.attempts} attempts: {problem}")

    async def _answer(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        most: Usage,
    ) -> ModelResponse:
        started = time.perf_counter()
        with _lost_counted(self._spending, self._about, most):
            response = await super().request(messages, settings, parameters)
        usage = Usage(
            requests=1,
            prompt_tokens=response.usage.input_tokens,
            completion_tokens=response.usage.output_tokens,
            seconds=round(time.perf_counter() - started, 3),
        )
        self._spending.add(msgspec.structs.replace(self._about, usage=usage))
        return response

    def _unavailable(self, what: str) -> LlmUnavailable:
        return LlmUnavailable(
            f"{self._endpoint.model} at {self._endpoint.base_url or 'its provider'} {what}",
            hint="check the endpoint's address, key and model, or try again later",
        )


@contextmanager
def _lost_counted(spending: Spending, about: Spent, most: Usage) -> Iterator[None]:
    """Counts a request that may have been answered, and paid for, as the most it may have cost,
    where no answer came of it."""
    try:
        yield
    except (ModelAPIError, UnexpectedModelBehavior, anyio.get_cancelled_exc_class()) as error:
        sent = not any(isinstance(one, _NOT_SENT) for one in _causes(error))
        if sent and not isinstance(error, ModelHTTPError):
            spending.add(msgspec.structs.replace(about, usage=most, lost=True))
        raise


def _most(messages: list[ModelMessage]) -> Usage:
    """The most tokens an answer to these may take: no token is shorter than a byte."""
    text = sum(
        len(str(getattr(part, "content", "")).encode())
        for message in messages
        for part in message.parts
    )
    instructions = sum(len(getattr(one, "instructions", None) or "") for one in messages)
    prompt = text + instructions + _BESIDE
    return Usage(requests=1, prompt_tokens=prompt, completion_tokens=MOST_TOKENS)


def _words(error: Exception) -> str:
    if isinstance(error, ModelHTTPError):
        return f"{error.status_code} {str(error.body)[:200]}"
    return " ".join(dict.fromkeys(map(str, _causes(error)))).strip()[:300]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came of."""
    while error is not None:
        yield error
        error = error.__cause__

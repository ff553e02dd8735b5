"""The models that the settings name: the judge, and whoever plays users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from environments.llm import Endpoint, Llm
from environments.users.persona import Persona
from environments.verifier.judge import Judge
from hub.settings import Settings, SettingsInvalid


@asynccontextmanager
async def judge_of(settings: Settings) -> AsyncIterator[Judge | None]:
    """The judge, its verdicts kept in the data directory; ``None`` where no endpoint is set.

    Raises ``SettingsInvalid`` for an endpoint without a model, and ``LlmUnavailable`` where the
    ``openai`` library is not installed.
    """
    if not settings.judge_url:
        yield None
        return
    if not settings.judge_model:
        raise SettingsInvalid("a judge needs a model: give --judge-model or ENVHUB_JUDGE_MODEL")
    endpoint = Endpoint(
        base_url=settings.judge_url, model=settings.judge_model, api_key=settings.judge_key
    )
    async with Llm(endpoint) as llm:
        yield Judge(llm, settings.data_dir / "verdicts")


@asynccontextmanager
async def user_of(settings: Settings) -> AsyncIterator[Persona | None]:
    """The model that plays users with a persona; ``None`` where no endpoint is set.

    Raises ``SettingsInvalid`` for an endpoint without a model, and ``LlmUnavailable`` where the
    ``openai`` library is not installed.
    """
    if not settings.user_url:
        yield None
        return
    if not settings.user_model:
        raise SettingsInvalid("a user needs a model: give --user-model or ENVHUB_USER_MODEL")
    endpoint = Endpoint(
        base_url=settings.user_url, model=settings.user_model, api_key=settings.user_key
    )
    async with Llm(endpoint) as llm:
        yield Persona(llm)

"""The judge that the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import typer

from hub.cli.output import complain
from hub.settings import Settings

if TYPE_CHECKING:
    from environments.verifier.judge import Judge


@asynccontextmanager
async def judge_of(settings: Settings) -> AsyncIterator[Judge | None]:
    """The judge, its verdicts kept in the data directory; ``None`` where no endpoint is set."""
    if not settings.judge_url:
        yield None
        return
    from environments.llm import Endpoint, Llm
    from environments.verifier.judge import Judge

    if not settings.judge_model:
        complain("a judge needs a model", "give --judge-model or ENVHUB_JUDGE_MODEL")
        raise typer.Exit(2)
    endpoint = Endpoint(
        base_url=settings.judge_url, model=settings.judge_model, api_key=settings.judge_key
    )
    async with Llm(endpoint) as llm:
        yield Judge(llm, settings.data_dir / "verdicts")

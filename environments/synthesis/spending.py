"""What a run's answers cost, and the budget it must not go over.

``spending.jsonl`` in the folder of the run has a line for each answer of the model, written before
the answer is used; a run that is gone on with has spent what is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec

from environments.errors import AgentError, InfrastructureFault
from environments.evaluation.figures import Prices
from environments.llm import Usage
from environments.trajectory import Record

SPENDING: Final = "spending.jsonl"
ANTHROPIC: Final = "anthropic:"
"""What a model's name begins with that is asked by Anthropic's own library."""
Priced = Callable[[Usage], float]
"""What tokens cost, in US dollars."""


class SynthesisUnavailable(InfrastructureFault):
    """The libraries that models are asked with are not installed."""

    code = "SYNTHESIS_UNAVAILABLE"

    def __init__(self) -> None:
        hint = "pip install 'mcp-env-hub[synth]'"
        super().__init__("pydantic-ai is not installed", hint=hint)


class BudgetSpent(AgentError):
    """The next answer might cost more than is left."""

    code = "BUDGET_SPENT"


class PriceUnknown(AgentError):
    """Nobody knows what the model's tokens cost, and a budget needs it."""

    code = "PRICE_UNKNOWN"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"a budget needs a price, and nobody knows that of {model}",
            hint="say what a million tokens cost: --price IN OUT",
        )


class Spent(Record, frozen=True, kw_only=True):
    """One answer."""

    stage: str
    environment: str = ""
    usage: Usage = Usage()
    usd: float | None = None
    """``None`` where the price of the model is not known."""
    lost: bool = False
    """Whether no answer came that could be counted: then ``usd`` is the most it may have cost."""


class Spending:
    """The answers of a run so far. One writer at a time."""

    def __init__(self, folder: Path, priced: Priced | None, budget_usd: float | None) -> None:
        """A budget needs to know what tokens cost (``priced``)."""
        self.priced = priced
        self.budget_usd = budget_usd
        self.every: list[Spent] = []
        self._path = folder / SPENDING
        self._held: list[float] = []
        self._change = anyio.Condition()
        self._read()

    def _read(self) -> None:
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]  # without a line that was cut off
        if whole != content:
            self._path.write_bytes(whole)
        self.every = [
            self._counted(msgspec.json.decode(line, type=Spent)) for line in whole.splitlines()
        ]

    def _counted(self, spent: Spent) -> Spent:
        """With its cost, also where nobody knew it then."""
        if self.priced is None or spent.usd is not None:
            return spent
        return msgspec.structs.replace(spent, usd=self.priced(spent.usage))

    @property
    def usd(self) -> float | None:
        """What all answers cost; ``None`` where one has no price."""
        costs = [one.usd for one in self.every if one.usd is not None]
        return None if len(costs) < len(self.every) else round(sum(costs), 6)

    @property
    def usage(self) -> Usage:
        return sum((one.usage for one in self.every), Usage())

    @asynccontextmanager
    async def reserved(self, most: Usage) -> AsyncIterator[None]:
        """Room in the budget for an answer of at most so many tokens, while it is waited for.

        Waits for those under way where only they stand in the way. Raises ``BudgetSpent``.
        """
        usd = 0.0 if self.budget_usd is None or self.priced is None else self.priced(most)
        async with self._change:
            while self.budget_usd is not None and self._taken + usd > self.budget_usd:
                if not self._held:
                    raise BudgetSpent(
                        f"{self.usd or 0:.4f} of {self.budget_usd:g} US dollars are spent, and the "
                        f"next answer may cost {usd:.4f}",
                        hint="go on with --resume and a larger --budget-usd",
                    )
                await self._change.wait()
            self._held.append(usd)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._change:
                    self._held.remove(usd)
                    self._change.notify_all()

    @property
    def _taken(self) -> float:
        return (self.usd or 0.0) + sum(self._held)

    def add(self, spent: Spent) -> None:
        """Write down an answer."""
        spent = self._counted(spent)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(spent) + b"\n")
        self.every.append(spent)


def price_of(model: str, base_url: str = "", given: Prices | None = None) -> Priced | None:
    """What the tokens of ``model`` cost: as ``given``, or as the provider at ``base_url`` is known
    to charge; ``None`` if it is not known. Raises ``SynthesisUnavailable``."""
    if given is not None:
        return given.of
    try:
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price
    except ImportError as error:
        raise SynthesisUnavailable from error

    def priced(usage: Usage) -> float:
        tokens = Tokens(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
        if model.startswith(ANTHROPIC):
            found = calc_price(tokens, model.removeprefix(ANTHROPIC), provider_id="anthropic")
        else:
            found = calc_price(tokens, model, provider_api_url=base_url)
        return float(found.total_price)

    try:
        priced(Usage(prompt_tokens=1, completion_tokens=1))
    except (LookupError, ValueError):
        return None
    return priced

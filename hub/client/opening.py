"""What may be awaited, or entered and closed."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closing(Protocol):
    """What is closed when its ``async with`` is left."""

    async def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closing)


class Opening(Generic[Opened]):
    """What is about to begin: awaited, or entered by ``async with`` and closed at its end."""

    def __init__(self, begin: Coroutine[Any, Any, Opened]) -> None:
        self._begin = begin
        self._opened: Opened | None = None

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._begin.__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._begin
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

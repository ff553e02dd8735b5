"""A blocking face of ``Episode`` for notebooks and scripts.

with SyncEpisode("banking", task="freeze-mislaid-card") as episode:
    episode.call("search_customers", {"name": "Marie Kelly"})
    print(episode.score().value)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from environments.catalogue import SHIPPED
from environments.episode import KEEP, Episode
from environments.spec import FaultPlan, ToolSpec
from environments.trajectory import Actor, Reward, Step
from snapshots import Changeset


class SyncEpisode:
    """An episode with workers and an event loop of its own; every verb of ``Episode``, blocking.

    Use it as a context manager, or call ``close`` when done: it ends the workers and the loop.
    """

    def __init__(
        self,
        environment: str,
        *,
        task: str | None = None,
        seed: int = 0,
        horizon: int | None = None,
        faults: str | FaultPlan | None = None,
        packs: Sequence[Path] = (SHIPPED,),
    ) -> None:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            opening = Episode.open(
                environment, task=task, seed=seed, horizon=horizon, faults=faults, packs=packs
            )
            self.episode: Episode = stack.enter_context(portal.wrap_async_context_manager(opening))
            self._portal: BlockingPortal = portal
            self._stack = stack.pop_all()

    def __enter__(self) -> SyncEpisode:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        return self.episode.tools

    @property
    def steps(self) -> Sequence[Step]:
        return self.episode.steps

    def reset(self, task: str | None = KEEP, seed: int | None = None) -> None:
        self._portal.call(self.episode.reset, task, seed)

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Step:
        step: Step = self._portal.call(self.episode.call, tool, arguments or {})
        return step

    def mark(self) -> str:
        return self._portal.call(self.episode.mark)

    def rewind(self, mark: str) -> None:
        self._portal.call(self.episode.rewind, mark)

    def fork(self) -> Episode:
        """The forked episode; drive it with ``await`` or through a ``SyncEpisode`` of its own."""
        return self._portal.call(self.episode.fork)

    def changes(self, since: str | int | None = None, actor: Actor | None = None) -> Changeset:
        return self.episode.changes(since, actor)

    def score(self, answer: str | None = None) -> Reward:
        return self._portal.call(self.episode.score, answer)

    def close(self) -> None:
        self._stack.close()

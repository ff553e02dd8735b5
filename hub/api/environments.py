"""The routes about environments: what there is to play."""

from __future__ import annotations

import anyio.to_thread

from environments.catalogue import Catalogue, Pack
from environments.errors import PackInvalid
from environments.spec import Task
from hub.api.routing import Route
from hub.tenancy import OwnEpisodes
from hub.wire import (
    EnvironmentDetail,
    EnvironmentList,
    EnvironmentQuery,
    EnvironmentSummary,
    InvalidPack,
    TaskList,
    TaskQuery,
    TaskSummary,
)


async def list_environments(episodes: OwnEpisodes, query: EnvironmentQuery) -> EnvironmentList:
    catalogue = episodes.environments.catalogue
    # packs not asked for before are read from disk here
    packs = await anyio.to_thread.run_sync(_readable, catalogue)
    return EnvironmentList(
        environments=tuple(_summary(pack) for pack in packs if _matches(pack, query)),
        invalid=tuple(
            InvalidPack(path=path.name, message=str(error))
            for path, error in catalogue.invalid.items()
        ),
    )


async def show_environment(episodes: OwnEpisodes, name: str) -> EnvironmentDetail:
    environment = await episodes.environments.get(name)
    pack, spec = environment.pack, environment.pack.spec
    return EnvironmentDetail(
        name=spec.name,
        version=spec.version,
        title=spec.title,
        summary=spec.summary,
        domain=spec.domain,
        tags=spec.tags,
        tasks=len(pack.tasks),
        digest=pack.digest,
        licence=spec.licence,
        provenance=spec.provenance,
        policy=pack.policy,
        tools=tuple(environment.tools.values()),
        tables={table: info.columns for table, info in environment.tables.items()},
        max_steps=spec.limits.max_steps,
        mcp=f"/environments/{spec.name}/mcp",
    )


async def list_tasks(episodes: OwnEpisodes, name: str, query: TaskQuery) -> TaskList:
    pack = episodes.environments.catalogue.get(name)
    return TaskList(
        environment=name,
        tasks=tuple(
            _task(task)
            for task in pack.tasks.values()
            if query.difficulty in (None, task.difficulty)
            and query.split in (None, task.split)
            and (not query.tag or query.tag in task.tags)
        ),
    )


async def show_task(episodes: OwnEpisodes, name: str, task: str) -> TaskSummary:
    return _task(episodes.environments.catalogue.get(name).task(task))


def _readable(catalogue: Catalogue) -> list[Pack]:
    packs = []
    for name in catalogue.names():
        try:
            packs.append(catalogue.get(name))
        except PackInvalid:
            continue  # the catalogue keeps it in ``invalid``, and so does the answer
    return packs


def _matches(pack: Pack, query: EnvironmentQuery) -> bool:
    spec = pack.spec
    text = " ".join((spec.name, spec.title, spec.summary, spec.domain, *spec.tags)).lower()
    return (
        all(word in text for word in query.q.lower().split())
        and query.domain in ("", spec.domain)
        and (not query.tag or query.tag in spec.tags)
    )


def _summary(pack: Pack) -> EnvironmentSummary:
    return EnvironmentSummary(
        name=pack.spec.name,
        version=pack.spec.version,
        title=pack.spec.title,
        summary=pack.spec.summary,
        domain=pack.spec.domain,
        tags=pack.spec.tags,
        tasks=len(pack.tasks),
        digest=pack.digest,
    )


def _task(task: Task) -> TaskSummary:
    return TaskSummary(
        id=task.id,
        instruction=task.instruction,
        difficulty=task.difficulty,
        split=task.split,
        tags=task.tags,
        max_steps=task.max_steps,
    )


ROUTES = (
    Route(
        method="GET",
        path="/environments",
        handler=list_environments,
        query=EnvironmentQuery,
        response=EnvironmentList,
        summary="List environments, by words, domain or tag",
    ),
    Route(
        method="GET",
        path="/environments/{name}",
        handler=show_environment,
        response=EnvironmentDetail,
        summary="One environment: its tools, tables and policy",
    ),
    Route(
        method="GET",
        path="/environments/{name}/tasks",
        handler=list_tasks,
        query=TaskQuery,
        response=TaskList,
        summary="The tasks of an environment",
    ),
    Route(
        method="GET",
        path="/environments/{name}/tasks/{task}",
        handler=show_task,
        response=TaskSummary,
        summary="One task",
    ),
)

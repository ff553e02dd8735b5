"""The routes about environments: what there is to play."""

from __future__ import annotations

import anyio.to_thread

from environments.catalogue import Listed
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
    listed = await anyio.to_thread.run_sync(catalogue.listed)  # packs are read from disk there
    fitting = [each for each in listed if each.fits(query.q, query.domain, query.tag)]
    rest = [each for each in fitting if each.spec.name > query.after]
    page = rest[: query.limit]
    return EnvironmentList(
        environments=tuple(map(_summary, page)),
        invalid=tuple(
            InvalidPack(path=path.name, message=str(error))
            for path, error in (() if query.after else tuple(catalogue.invalid.items()))
        ),
        total=len(fitting),
        next=page[-1].spec.name if len(page) < len(rest) else None,
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
    pack = await anyio.to_thread.run_sync(episodes.environments.catalogue.get, name)
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
    pack = await anyio.to_thread.run_sync(episodes.environments.catalogue.get, name)
    return _task(pack.task(task))


def _summary(listed: Listed) -> EnvironmentSummary:
    spec = listed.spec
    return EnvironmentSummary(
        name=spec.name,
        version=spec.version,
        title=spec.title,
        summary=spec.summary,
        domain=spec.domain,
        tags=spec.tags,
        tasks=listed.tasks,
        digest=listed.digest,
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
        scope="any",
        handler=list_environments,
        query=EnvironmentQuery,
        response=EnvironmentList,
        summary="List environments, by words, domain or tag, a page at a time",
    ),
    Route(
        method="GET",
        path="/environments/{name}",
        scope="any",
        handler=show_environment,
        response=EnvironmentDetail,
        summary="One environment: its tools, tables and policy",
    ),
    Route(
        method="GET",
        path="/environments/{name}/tasks",
        scope="any",
        handler=list_tasks,
        query=TaskQuery,
        response=TaskList,
        summary="The tasks of an environment",
    ),
    Route(
        method="GET",
        path="/environments/{name}/tasks/{task}",
        scope="any",
        handler=show_task,
        response=TaskSummary,
        summary="One task",
    ),
)

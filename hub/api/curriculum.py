"""The routes about what training does next: horizon schedules and task samplers."""

from __future__ import annotations

from environments.sampling import Candidate, SamplerSpec
from hub.api.routing import Route
from hub.curriculum import Course, Curriculum, Drawn
from hub.training import (
    Advance,
    Draw,
    DrawnTasks,
    Forgotten,
    Outcomes,
    SampledTask,
    SamplerInfo,
    SamplerList,
    Schedule,
    ScheduleInfo,
    ScheduleList,
)


async def keep_schedule(curriculum: Curriculum, name: str, body: Schedule) -> ScheduleInfo:
    return _course(name, await curriculum.keep_schedule(name, body.schedule()))


async def list_schedules(curriculum: Curriculum) -> ScheduleList:
    found = await curriculum.schedules()
    return ScheduleList(schedules=tuple(_course(name, course) for name, course in found))


async def show_schedule(curriculum: Curriculum, name: str) -> ScheduleInfo:
    return _course(name, await curriculum.schedule(name))


async def advance_schedule(curriculum: Curriculum, name: str, body: Advance) -> ScheduleInfo:
    return _course(name, await curriculum.advance(name, body.training_step))


async def forget_schedule(curriculum: Curriculum, name: str) -> Forgotten:
    await curriculum.forget_schedule(name)
    return Forgotten(name=name)


async def keep_sampler(curriculum: Curriculum, name: str, body: SamplerSpec) -> SamplerInfo:
    return _sampler(name, await curriculum.keep_sampler(name, body))


async def list_samplers(curriculum: Curriculum) -> SamplerList:
    return SamplerList(samplers=tuple(name for name, _ in await curriculum.samplers()))


async def show_sampler(curriculum: Curriculum, name: str) -> SamplerInfo:
    return _sampler(name, await curriculum.sampler(name))


async def draw_tasks(curriculum: Curriculum, name: str, body: Draw) -> DrawnTasks:
    drawn = await curriculum.draw(name, body.count)
    return DrawnTasks(tasks=tuple(_task(each) for each in drawn))


async def tell_outcomes(curriculum: Curriculum, name: str, body: Outcomes) -> SamplerInfo:
    await curriculum.record(name, (body.environment, body.task), body.passed)
    return await show_sampler(curriculum, name)


async def forget_sampler(curriculum: Curriculum, name: str) -> Forgotten:
    await curriculum.forget_sampler(name)
    return Forgotten(name=name)


def _course(name: str, course: Course) -> ScheduleInfo:
    return ScheduleInfo(
        name=name,
        phases=course.schedule.phases,
        training_step=course.training_step,
        horizon=course.horizon,
    )


def _sampler(name: str, drawn: Drawn) -> SamplerInfo:
    return SamplerInfo(
        name=name,
        sampler=drawn.spec,
        drawn=drawn.state.drawn,
        tasks=tuple(_task(each, drawn.pass_rates.get(each.name)) for each in drawn.candidates),
    )


def _task(candidate: Candidate, pass_rate: float | None = None) -> SampledTask:
    return SampledTask(
        environment=candidate.environment,
        task=candidate.task,
        split=candidate.split,
        difficulty=candidate.difficulty,
        pass_rate=pass_rate,
    )


ROUTES = (
    Route(
        method="GET",
        path="/schedules",
        scope="train",
        handler=list_schedules,
        response=ScheduleList,
        summary="The horizon schedules there are",
    ),
    Route(
        method="PUT",
        path="/schedules/{name}",
        scope="train",
        handler=keep_schedule,
        request=Schedule,
        response=ScheduleInfo,
        summary="Make or replace a horizon schedule: phases, fixed, or AgentGym-RL's rounds_ctrl",
        example={
            "rounds_ctrl": {
                "type": "scaling_inter_stepwise",
                "rounds": [10, 20, 30],
                "steps_scaling_inter": 100,
            }
        },
    ),
    Route(
        method="GET",
        path="/schedules/{name}",
        scope="train",
        handler=show_schedule,
        response=ScheduleInfo,
        summary="A schedule, and how far training has come with it",
    ),
    Route(
        method="POST",
        path="/schedules/{name}/advance",
        scope="train",
        handler=advance_schedule,
        request=Advance,
        response=ScheduleInfo,
        summary="Say which training step comes now; episodes begun without one are of it",
        example={"training_step": 150},
    ),
    Route(
        method="DELETE",
        path="/schedules/{name}",
        scope="train",
        handler=forget_schedule,
        response=Forgotten,
        summary="Forget a schedule; episodes keep the horizon they were given",
    ),
    Route(
        method="GET",
        path="/samplers",
        scope="train",
        handler=list_samplers,
        response=SamplerList,
        summary="The task samplers there are",
    ),
    Route(
        method="PUT",
        path="/samplers/{name}",
        scope="train",
        handler=keep_sampler,
        request=SamplerSpec,
        response=SamplerInfo,
        summary="Make or replace a task sampler; what it knows of outcomes stays",
        example={
            "kind": "adaptive",
            "seed": 7,
            "low": 0.2,
            "high": 0.8,
            "where": {"environments": ["procurement", "banking"], "splits": ["train"]},
            "weights": {"difficulty:hard": 2},
        },
    ),
    Route(
        method="GET",
        path="/samplers/{name}",
        scope="train",
        handler=show_sampler,
        response=SamplerInfo,
        summary="A sampler, the tasks it draws from, and their recent pass rates",
    ),
    Route(
        method="POST",
        path="/samplers/{name}/draw",
        scope="train",
        handler=draw_tasks,
        request=Draw,
        response=DrawnTasks,
        summary="The next tasks",
        example={"count": 4},
    ),
    Route(
        method="POST",
        path="/samplers/{name}/outcomes",
        scope="train",
        handler=tell_outcomes,
        request=Outcomes,
        response=SamplerInfo,
        summary="Tell how tries ended that were not episodes of one of its groups",
        example={
            "environment": "procurement",
            "task": "chairs-asked-for-twice",
            "passed": [True, False],
        },
    ),
    Route(
        method="DELETE",
        path="/samplers/{name}",
        scope="train",
        handler=forget_sampler,
        response=Forgotten,
        summary="Forget a sampler and what it knows",
    ),
)

"""The routes about groups: begin one, see what its rewards teach, end it."""

from __future__ import annotations

from typing import Any

from environments.errors import PackInvalid, UnknownEnvironment
from hub.api.routing import Route
from hub.groups import Group
from hub.ledger import EpisodeRow
from hub.tenancy import OwnGroups
from hub.training import CreateGroup, GroupDetail, GroupInfo, GroupList, GroupQuery, Member
from hub.wire import Empty


async def create_group(groups: OwnGroups, body: CreateGroup) -> GroupInfo:
    groups.episodes.batch(body.size)
    return await _info(groups, await groups.create(body))


async def list_groups(groups: OwnGroups, query: GroupQuery) -> GroupList:
    found = await groups.index(query.after, query.limit)
    full = len(found) == query.limit
    infos = [await _info(groups, group) for group in found]
    return GroupList(groups=tuple(infos), next=found[-1].id if full else None)


async def show_group(groups: OwnGroups, id: str) -> GroupDetail:
    group = await groups.get(id)
    standing = await groups.standing(group)
    return GroupDetail(
        **_common(groups, group, standing.rows[0] if standing.rows else None),
        members=tuple(
            Member(
                episode=row.id,
                repetition=row.enrolled.repetition,
                status=row.status,
                steps=row.steps,
                reward=row.reward,
                outcome=row.outcome,
                advantage=advantage,
                masked=row.outcome == "unset" or (row.outcome is None and row.status == "closed"),
            )
            for row, advantage in zip(standing.rows, standing.lesson.advantages, strict=True)
        ),
        complete=standing.complete,
        lesson=standing.lesson,
    )


async def close_group(groups: OwnGroups, id: str, body: Empty) -> GroupInfo:
    group = await groups.get(id)
    await groups.close(group)
    return await _info(groups, group)


async def _info(groups: OwnGroups, group: Group) -> GroupInfo:
    return GroupInfo(**_common(groups, group, await groups.first(group)))


def _common(groups: OwnGroups, group: Group, row: EpisodeRow | None) -> dict[str, Any]:
    names = set(GroupInfo.__struct_fields__) & set(Group.__struct_fields__)
    enrolled = row.enrolled if row else None
    return {
        **{name: getattr(group, name) for name in names},
        "episodes": group.members,
        "policy": _policy(groups, group),
        "horizon": row.horizon if row else 0,
        "training_step": enrolled.training_step if enrolled else None,
        "lease_seconds": (enrolled and enrolled.lease_seconds) or groups.episodes.lease_seconds,
    }


def _policy(groups: OwnGroups, group: Group) -> str:
    try:
        return groups.episodes.environments.catalogue.get(group.environment).policy
    except (UnknownEnvironment, PackInvalid):
        return ""  # what was said to the agent then is in its trajectory


ROUTES = (
    Route(
        method="POST",
        path="/groups",
        scope="rollout",
        handler=create_group,
        request=CreateGroup,
        response=GroupInfo,
        summary="Begin up to 256 episodes that start exactly alike, all or none",
        example={
            "environment": "procurement",
            "task": "chairs-asked-for-twice",
            "size": 8,
            "seed": 1,
            "policy_version": "step-40",
        },
        status=201,
    ),
    Route(
        method="GET",
        path="/groups",
        scope="train",
        handler=list_groups,
        query=GroupQuery,
        response=GroupList,
        summary="List groups with a cursor",
    ),
    Route(
        method="GET",
        path="/groups/{id}",
        scope="train",
        handler=show_group,
        response=GroupDetail,
        summary="Rewards, GRPO advantages, pass@k, and who is masked",
    ),
    Route(
        method="POST",
        path="/groups/{id}/close",
        scope="rollout",
        handler=close_group,
        request=Empty,
        response=GroupInfo,
        summary="Close every member; closing twice is fine",
    ),
)

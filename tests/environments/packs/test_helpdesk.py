"""The helpdesk's business rules and the traps of its tasks, through episodes on real workers."""

from __future__ import annotations

from typing import Any

import pytest

from environments.environment import Environment, Environments
from environments.episode import Episode
from environments.oracle import play_oracle

pytestmark = pytest.mark.anyio

TEXT = "Stuck job moved to failed, output service restarted, all printed."


class Desk:
    """An episode of the helpdesk, spoken to in fewer words."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode

    async def do(self, tool: str, **arguments: Any) -> Any:
        step = await self.episode.call(tool, arguments)
        assert step.error is None, step.error
        return step.result

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The code of the agent's error; the call must have changed nothing."""
        before = self.episode.changes().to_json()
        step = await self.episode.call(tool, arguments)
        assert step.error is not None, f"{tool} was not refused"
        assert step.error.kind == "agent"
        assert self.episode.changes().to_json() == before
        rule = step.error.details.get("rule")
        return f"{step.error.code}/{rule}" if rule else step.error.code

    async def ticket(self, text: str, **filters: Any) -> str:
        """The id of the one ticket that fits."""
        found = await self.do("search_tickets", text=text, **filters)
        assert found["total"] == 1, found
        return str(found["results"][0]["id"])

    async def score(self, answer: str | None = None) -> float | None:
        return (await self.episode.score(answer)).value


@pytest.fixture
async def helpdesk(shipped: Environments) -> Environment:
    return await shipped.get("helpdesk")


@pytest.fixture
async def desk(helpdesk: Environment) -> Desk:
    return Desk(await Episode.start(helpdesk, horizon=100))


async def on_task(helpdesk: Environment, task: str) -> Desk:
    return Desk(await Episode.start(helpdesk, task=task, horizon=100))


@pytest.mark.parametrize(
    ("agent_id", "code"),
    [
        ("A-132", "WRONG_TEAM"),
        ("A-126", "SKILL_MISMATCH"),
        ("A-121", "AGENT_UNAVAILABLE"),
        ("A-124", "AGENT_AT_CAPACITY"),
        ("A-999", "AGENT_NOT_FOUND"),
    ],
)
async def test_a_ticket_goes_only_to_who_can_take_it(desk: Desk, agent_id: str, code: str) -> None:
    ticket = await desk.ticket("goods-in racking wifi", status="new")
    assert await desk.refused("assign_ticket", ticket_id=ticket, agent_id=agent_id) == code
    taken = await desk.do("assign_ticket", ticket_id=ticket, agent_id="A-125")
    assert (taken["status"], taken["assignee_id"]) == ("open", "A-125")
    again = await desk.refused("assign_ticket", ticket_id=ticket, agent_id="A-125")
    assert again == "ALREADY_ASSIGNED"


async def test_leads_hold_p1_and_p2_only(desk: Desk) -> None:
    ticket = await desk.ticket("pulls two sheets", status="new")
    assert await desk.refused("assign_ticket", ticket_id=ticket, agent_id="A-131") == (
        "LEAD_RESERVED"
    )
    await desk.do("set_priority", ticket_id=ticket, priority="P2", reason="Shift papers")
    held = await desk.do("assign_ticket", ticket_id=ticket, agent_id="A-131")
    assert held["assignee_id"] == "A-131"


async def test_p1_needs_evidence_a_senior_and_alerts_the_deputy(desk: Desk) -> None:
    found = await desk.do("search_tickets", text="Lisbon wifi", status="new")
    first, *others = sorted(row["id"] for row in found["results"])
    raise_it = {"ticket_id": first, "priority": "P1", "reason": "Site is offline"}
    assert await desk.refused("set_priority", **raise_it) == "SLA_POLICY_VIOLATION/p1_evidence"
    for other in others:
        await desk.do("link_tickets", ticket_id=other, other_id=first, kind="child_of")
    back = {"ticket_id": first, "other_id": others[0], "kind": "related_to"}
    assert await desk.refused("link_tickets", **back) == "DUPLICATE_LINK"
    escalate = {"ticket_id": first, "reason": "Site is offline"}
    assert await desk.refused("escalate_ticket", **escalate) == "SLA_POLICY_VIOLATION/escalation"
    await desk.do("set_priority", **raise_it)
    alerted = (await desk.do("escalate_ticket", **escalate))["alerted"]
    assert alerted["name"] == "Ines Carvalho"  # the lead is on leave
    assert await desk.refused("escalate_ticket", **escalate) == "SLA_POLICY_VIOLATION/escalation"


async def test_an_analyst_never_comes_to_hold_a_p1(desk: Desk) -> None:
    held = await desk.do("search_tickets", queue="A-153", status="open")
    phishing = held["results"][0]["id"]
    raise_it = {"ticket_id": phishing, "priority": "P1", "reason": "Spreads quickly"}
    assert await desk.refused("set_priority", **raise_it) == "SLA_POLICY_VIOLATION/p1_seniority"


async def test_priorities_have_floors_and_missed_targets_stay(desk: Desk) -> None:
    vip = await desk.ticket("Eleanor Whitcombe boardroom")
    lower = {"priority": "P4", "reason": "Only cosmetic"}
    refusal = await desk.refused("set_priority", ticket_id=vip, **lower)
    assert refusal == "SLA_POLICY_VIOLATION/floor"
    overdue = await desk.ticket("payroll control report")
    refusal = await desk.refused("set_priority", ticket_id=overdue, **lower)
    assert refusal == "SLA_POLICY_VIOLATION/missed_target"


async def test_closed_is_closed(desk: Desk) -> None:
    closed = await desk.ticket("Sofie Lindqvist Ledgerwise loop", status="closed")
    comment = {"ticket_id": closed, "body": "It is back.", "visibility": "internal"}
    for tool, arguments in {
        "add_comment": comment,
        "reopen_ticket": {"ticket_id": closed, "reason": "It is back"},
        "set_status": {"ticket_id": closed, "status": "open"},
        "assign_ticket": {"ticket_id": closed, "agent_id": "A-112"},
        "tag_ticket": {"ticket_id": closed, "tag": "again"},
    }.items():
        assert await desk.refused(tool, **arguments) == "TICKET_CLOSED"


async def test_only_the_newer_ticket_of_the_same_person_is_merged(desk: Desk) -> None:
    older = await desk.ticket("Danielle Okafor calendar", status="open")
    newer = await desk.ticket("Danielle Okafor appointments", status="new")
    daniel = await desk.ticket("Daniel Okafor hour late")
    merge = desk.refused
    assert await merge("merge_tickets", source_id=older, target_id=newer) == "INVALID_MERGE"
    assert await merge("merge_tickets", source_id=daniel, target_id=older) == "REQUESTER_MISMATCH"
    await desk.do("merge_tickets", source_id=newer, target_id=older)
    assert await merge("merge_tickets", source_id=newer, target_id=older) == "TICKET_CLOSED"


async def test_what_a_resolution_needs(desk: Desk) -> None:
    mfa = await desk.ticket("Kwame Asante authenticator")
    resolve = {"code": "fixed", "resolution": "Authenticator enrolled on the new phone."}
    assert await desk.refused("set_status", ticket_id=mfa, status="resolved") == (
        "RESOLUTION_REQUIRED"
    )
    short = {**resolve, "resolution": "done"}
    assert await desk.refused("resolve_ticket", ticket_id=mfa, **short) == "RESOLUTION_REQUIRED"
    assert await desk.refused("resolve_ticket", ticket_id=mfa, **resolve) == "ARTICLE_REQUIRED"
    articles = await desk.do("search_articles", text="authenticator re-enrol", category_id="mfa")
    by_status = {article["status"]: article["id"] for article in articles["results"]}
    archived = {"ticket_id": mfa, "article_id": by_status["archived"]}
    assert await desk.refused("attach_article", **archived) == "ARTICLE_NOT_PUBLISHED"
    await desk.do("attach_article", ticket_id=mfa, article_id=by_status["published"])
    assert (await desk.do("resolve_ticket", ticket_id=mfa, **resolve))["status"] == "resolved"


async def test_equipment_moves_by_the_rules(desk: Desk) -> None:
    ticket = await desk.ticket("Marta Fernandes flickers")
    marta = (await desk.do("get_ticket", ticket_id=ticket))["requester_id"]
    held = await desk.do("find_assets", holder_id=marta, text="laptop")
    old = held["results"][0]["id"]
    stock = await desk.do("find_assets", text="laptop G3", status="in_stock")
    by_site = {asset["site"]: asset["id"] for asset in stock["results"]}

    def issue(site: str) -> dict[str, str]:
        return {"asset_id": by_site[site], "requester_id": marta, "ticket_id": ticket}

    assert await desk.refused("issue_asset", **issue("Bristol")) == "ASSET_WRONG_SITE"
    assert await desk.refused("issue_asset", **issue("Leeds")) == "ASSET_LIMIT"
    take = {"asset_id": old, "ticket_id": ticket}
    assert await desk.refused("take_back_asset", to="retired", **take) == "WARRANTY_ACTIVE"
    assert await desk.refused("take_back_asset", to="lost", **take) == "LOST_REPORT_REQUIRED"
    await desk.do("take_back_asset", to="in_repair", **take)
    assert (await desk.do("issue_asset", **issue("Leeds")))["holder_id"] == marta
    assert await desk.refused("issue_asset", **issue("Leeds")) == "ASSET_NOT_IN_STOCK"


async def test_people_who_left_open_no_tickets(desk: Desk) -> None:
    found = await desk.do("find_requesters", text="Victor Haldane")
    new = {"subject": "Mail still arrives", "description": "Mail still arrives on my phone."}
    left = {"requester_id": found["results"][0]["id"], "category_id": "mail-calendar"}
    assert await desk.refused("create_ticket", **left, **new) == "REQUESTER_INACTIVE"


async def test_the_world_moves_while_one_waits(desk: Desk) -> None:
    labels = {"text": "Bram de Wit labels", "status": "new"}
    assert (await desk.do("search_tickets", **labels))["total"] == 0
    ticket = await desk.ticket("Halvorsen tunnel", status="new")
    assign = {"ticket_id": ticket, "agent_id": "A-123"}
    assert await desk.refused("assign_ticket", **assign) == "AGENT_UNAVAILABLE"
    await desk.do("wait", seconds=5400)
    assert (await desk.do("search_tickets", **labels))["total"] == 1
    await desk.do("assign_ticket", **assign)
    assert desk.episode.changes(actor="agent").to_json()["tickets"].keys() >= {"changed"}
    assert desk.episode.changes(actor="environment").to_json()["agents"]["changed"]


# --- the traps ---------------------------------------------------------------------------------


async def test_the_nearest_free_colleague_is_not_the_one_the_rules_name(
    helpdesk: Environment,
) -> None:
    desk = await on_task(helpdesk, "goods-in-wifi")
    ticket = await desk.ticket("goods-in racking wifi", status="new")
    await desk.do("assign_ticket", ticket_id=ticket, agent_id="A-122")
    assert await desk.score("Ines Carvalho has it.") == 0.0


async def test_the_wrong_person_of_a_similar_name(helpdesk: Environment) -> None:
    desk = await on_task(helpdesk, "loop-is-back")
    sophie = (await desk.do("find_requesters", text="Sophie Lindquist"))["results"][0]["id"]
    closed = await desk.ticket("Sophie Lindquist Docuvault loop", status="closed")
    made = await desk.do(
        "create_ticket",
        requester_id=sophie,
        category_id="sso",
        subject="Sign-in loop is back",
        description="The sign-in loop is back, cannot work.",
        priority="P2",
    )
    link = {"ticket_id": made["id"], "other_id": closed, "kind": "follow_up_of"}
    await desk.do("link_tickets", **link)
    assert await desk.score() == 0.0


async def test_an_incident_is_resolved_after_its_children(helpdesk: Environment) -> None:
    desk = await on_task(helpdesk, "docks-print-again")
    main = await desk.ticket("prints nothing at any dock")
    resolve = {"ticket_id": main, "code": "fixed", "resolution": TEXT}
    assert await desk.refused("resolve_ticket", **resolve) == "OPEN_CHILDREN"
    assert await desk.score() == 0.0


@pytest.mark.parametrize("task", ["okafor-calendar", "docuvault-phishing", "victor-leaves"])
async def test_one_more_comment_anywhere_costs_the_reward(helpdesk: Environment, task: str) -> None:
    desk = await on_task(helpdesk, task)
    await play_oracle(desk.episode)
    assert await desk.score() == 1.0
    other = await desk.ticket("Halvorsen tunnel", status="new")
    note = {"ticket_id": other, "body": "Looked at it.", "visibility": "internal"}
    await desk.do("add_comment", **note)
    assert await desk.score() == 0.0


async def test_a_question_is_answered_without_touching_anything(helpdesk: Environment) -> None:
    desk = await on_task(helpdesk, "network-overdue")
    answer = helpdesk.pack.task("network-overdue").answer
    assert await desk.score(answer) == 1.0
    assert answer is not None
    assert await desk.score(answer.rsplit(", ", 1)[0]) == 0.0
    ticket = await desk.ticket("Halvorsen tunnel", status="new")
    await desk.do("tag_ticket", ticket_id=ticket, tag="overdue")
    assert await desk.score(answer) == 0.0

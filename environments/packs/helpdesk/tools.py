"""The tools of the dispatch desk. Whatever they write is signed ``dispatch``.

Each rule of policy.md that a machine can check is checked here, once, in a ``_check_*`` function.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from environments.authoring import Database, Row, ToolError, new_id, timestamp, tool

PAGE_SIZE = 20
P1_EVIDENCE = 3  # reports by others that make an incident major
REOPEN_DAYS = 7
ALLOWED = {  # where set_status may lead from each status
    "new": (),
    "open": ("pending", "on_hold"),
    "pending": ("open",),
    "on_hold": ("open",),
    "resolved": ("closed",),
    "closed": (),
}

Priority = Literal["P1", "P2", "P3", "P4"]
Status = Literal["new", "open", "pending", "on_hold", "resolved", "closed"]
TicketId = Annotated[str, Field(description="Ticket id, e.g. INC-48213")]
AgentId = Annotated[str, Field(description="Agent id, e.g. A-122")]
RequesterId = Annotated[str, Field(description="Requester id, e.g. U-20417")]
AssetId = Annotated[str, Field(description="Asset tag, e.g. NV-L-04417")]
CategoryId = Annotated[str, Field(description="Category id, e.g. vpn; see list_categories")]
Page = Annotated[int, Field(ge=1, description=f"Page number; {PAGE_SIZE} entries a page")]
Reason = Annotated[str, Field(min_length=5, description="Why; kept in the ticket's history")]

TICKET = """
SELECT t.*, c.team_id, c.skill, c.asset_required, c.priority_floor, r.name AS requester_name,
       r.vip AS requester_vip, r.site AS requester_site
FROM tickets t JOIN categories c ON c.id = t.category_id JOIN requesters r ON r.id = t.requester_id
"""
AGENT = """
SELECT a.*, (SELECT count(*) FROM tickets t WHERE t.assignee_id = a.id AND t.status = 'open')
            AS open_tickets
FROM agents a
"""
SUMMARY = (
    *("id", "subject", "requester_id", "requester_name", "requester_site", "category_id"),
    *("team_id", "priority", "status", "assignee_id", "created_at", "response_due"),
    *("first_responded_at", "resolution_due", "resolved_at"),
)


# --- looking up and writing down ---------------------------------------------------------------


def _one(db: Database, what: str, sql: str, key: str) -> Row:
    row = db.one(sql, key)
    if row is None:
        raise ToolError(f"{what.upper()}_NOT_FOUND", f"there is no {what} {key}", id=key)
    return row


def _ticket(db: Database, ticket_id: str) -> Row:
    return _one(db, "ticket", f"{TICKET} WHERE t.id = ?", ticket_id)


def _unclosed(db: Database, ticket_id: str) -> Row:
    ticket = _ticket(db, ticket_id)
    if ticket["status"] == "closed":
        raise ToolError(
            "TICKET_CLOSED",
            f"{ticket_id} is closed and takes no more changes; open a follow-up ticket instead",
            ticket_id=ticket_id,
            closed_at=ticket["closed_at"],
            merged_into=ticket["merged_into"],
        )
    return ticket


def _unresolved(db: Database, ticket_id: str) -> Row:
    ticket = _unclosed(db, ticket_id)
    if ticket["status"] == "resolved":
        raise ToolError(
            "INVALID_TRANSITION",
            f"{ticket_id} is resolved; reopen it first",
            ticket_id=ticket_id,
            status="resolved",
        )
    return ticket


def _requester(db: Database, requester_id: str) -> Row:
    return _one(db, "requester", "SELECT * FROM requesters WHERE id = ?", requester_id)


def _category(db: Database, category_id: str) -> Row:
    return _one(db, "category", "SELECT * FROM categories WHERE id = ?", category_id)


def _asset(db: Database, asset_id: str) -> Row:
    return _one(db, "asset", "SELECT * FROM assets WHERE id = ?", asset_id)


def _summary(ticket: Row) -> Row:
    return {name: ticket[name] for name in SUMMARY}


def _page(db: Database, sql: str, values: list[Any], page: int) -> Row:
    """One page of a query, with the count of all."""
    total = db.scalar(f"SELECT count(*) FROM ({sql})", *values)
    rows = db.rows(f"{sql} LIMIT {PAGE_SIZE} OFFSET ?", *values, (page - 1) * PAGE_SIZE)
    return {"total": total, "page": page, "pages": -(-total // PAGE_SIZE), "results": rows}


def _words(text: str | None, columns: str) -> tuple[str, list[str]]:
    """A condition that every word of ``text`` occurs somewhere in ``columns``."""
    words = (text or "").split()
    return " AND ".join([f"instr(lower({columns}), lower(?)) > 0" for _ in words]) or "1", words


def _update(db: Database, ticket: Row, note: str | None = None, **values: Any) -> Row:
    """Write the columns that differ and one history row for each; returns the ticket's summary."""
    changed = {column: value for column, value in values.items() if value != ticket[column]}
    if changed:
        assignments = ", ".join(f'"{column}" = ?' for column in (*changed, "updated_at"))
        statement = f"UPDATE tickets SET {assignments} WHERE id = ?"
        db.run(statement, *changed.values(), timestamp(), ticket["id"])
    for column, value in changed.items():
        _record(db, ticket["id"], column, ticket[column], value, note)
    return _summary(_ticket(db, ticket["id"]))


def _record(
    db: Database, ticket_id: str, field: str, old: Any, new: Any, note: str | None = None
) -> None:
    db.insert(
        "ticket_history",
        ticket_id=ticket_id,
        actor="dispatch",
        field=field,
        old_value=old,
        new_value=new,
        note=note,
        at=timestamp(),
    )


def _comment(
    db: Database, ticket: Row, body: str, visibility: str = "public", author: str = "dispatch"
) -> int:
    """Add a comment; the first public one of ours is the ticket's first response."""
    at = timestamp()
    if visibility == "public" and author == "dispatch" and ticket["first_responded_at"] is None:
        _update(db, ticket, first_responded_at=at)
    return db.insert(
        "comments",
        ticket_id=ticket["id"],
        author_kind=author,
        visibility=visibility,
        body=body,
        created_at=at,
    )


def _due(db: Database, created_at: str, priority: str) -> Row:
    """Both targets of a ticket; they run around the clock from when it was opened."""
    due = db.one(
        "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', :at, response_minutes || ' minutes') response_due, "
        "strftime('%Y-%m-%dT%H:%M:%SZ', :at, resolution_minutes || ' minutes') resolution_due "
        "FROM service_levels WHERE priority = :priority",
        at=created_at,
        priority=priority,
    )
    assert due is not None
    return due


# --- the rules ---------------------------------------------------------------------------------


def _violation(rule: str, message: str, **details: Any) -> ToolError:
    return ToolError("SLA_POLICY_VIOLATION", message, rule=rule, **details)


def _check_holder(ticket: Row, agent: Row) -> None:
    """Who may hold a ticket of this priority."""
    if ticket["priority"] == "P1" and agent["role"] == "analyst":
        raise _violation("p1_seniority", "a P1 ticket needs a senior, a deputy or a lead")
    if agent["role"] == "lead" and ticket["priority"] not in ("P1", "P2"):
        raise ToolError(
            "LEAD_RESERVED", f"{agent['name']} leads a team and takes P1 and P2 tickets only"
        )


def _check_assignable(db: Database, ticket: Row, agent_id: str) -> None:
    agent = _one(db, "agent", f"{AGENT} WHERE a.id = ?", agent_id)
    who = {"agent_id": agent_id, "ticket_id": ticket["id"]}
    if agent["team_id"] != ticket["team_id"]:
        message = f"{ticket['id']} belongs to {ticket['team_id']}, the agent to {agent['team_id']}"
        raise ToolError("WRONG_TEAM", message, **who)
    skill = ticket["skill"]
    if not db.one("SELECT 1 FROM agent_skills WHERE agent_id = ? AND skill = ?", agent_id, skill):
        raise ToolError("SKILL_MISMATCH", f"{agent['name']} lacks the skill {skill}", **who)
    if agent["status"] != "available":
        message = f"{agent['name']} is {agent['status']}"
        raise ToolError("AGENT_UNAVAILABLE", message, back_at=agent["back_at"], **who)
    _check_holder(ticket, agent)
    if agent["open_tickets"] >= agent["capacity"]:
        message = f"{agent['name']} holds {agent['open_tickets']} of {agent['capacity']}"
        raise ToolError("AGENT_AT_CAPACITY", message, **who)


def _check_floor(category: Row, vip: int, priority: str) -> None:
    """No ticket ranks below its category's floor, none of a VIP below P3."""
    floor = min(category["priority_floor"], "P3" if vip else "P4")
    if priority > floor:
        raise _violation("floor", f"this ticket may not be lower than {floor}", lowest=floor)


def _check_reprioritise(db: Database, ticket: Row, priority: str) -> None:
    _check_floor(ticket, ticket["requester_vip"], priority)
    if priority > ticket["priority"]:
        missed = ticket["resolution_due"] < timestamp() or (
            ticket["response_due"] < (ticket["first_responded_at"] or timestamp())
        )
        if missed:
            raise _violation("missed_target", "a ticket that missed a target is never lowered")
    if priority == "P1":
        reporters = db.scalar(
            "SELECT count(DISTINCT t.requester_id) FROM ticket_links l JOIN tickets t "
            "ON t.id = l.ticket_id WHERE l.other_id = ? AND l.kind = 'child_of' "
            "AND t.requester_id <> ?",
            ticket["id"],
            ticket["requester_id"],
        )
        if ticket["team_id"] != "SEC" and reporters < P1_EVIDENCE:
            message = f"P1 needs child tickets of {P1_EVIDENCE} other people, there are {reporters}"
            raise _violation("p1_evidence", message, reporters=reporters)
        if ticket["assignee_id"]:
            agent = _one(db, "agent", f"{AGENT} WHERE a.id = ?", ticket["assignee_id"])
            _check_holder({**ticket, "priority": "P1"}, agent)


def _check_resolvable(db: Database, ticket: Row) -> None:
    ticket_id = ticket["id"]
    if ticket["status"] not in ("open", "pending"):
        raise ToolError(
            "INVALID_TRANSITION",
            f"a ticket in status {ticket['status']} cannot be resolved",
            ticket_id=ticket_id,
            status=ticket["status"],
        )
    children = db.rows(
        "SELECT t.id FROM ticket_links l JOIN tickets t ON t.id = l.ticket_id WHERE l.other_id = ? "
        "AND l.kind = 'child_of' AND t.status NOT IN ('resolved', 'closed') ORDER BY t.id",
        ticket_id,
    )
    if children:
        found = [child["id"] for child in children]
        raise ToolError("OPEN_CHILDREN", f"resolve {', '.join(found)} first", children=found)
    if ticket["asset_required"] and ticket["asset_id"] is None:
        raise ToolError("ASSET_REQUIRED", f"{ticket_id} names no asset", ticket_id=ticket_id)
    if ticket["priority"] in ("P1", "P2") and not db.one(
        "SELECT 1 FROM ticket_articles WHERE ticket_id = ?", ticket_id
    ):
        message = "a P1 or P2 ticket is resolved only with a knowledge article attached"
        raise ToolError("ARTICLE_REQUIRED", message, ticket_id=ticket_id)


def _move(db: Database, asset: Row, ticket: Row, status: str, holder_id: str | None) -> Row:
    """Change where an asset is, on a ticket's account."""
    db.run(
        "UPDATE assets SET status = ?, holder_id = ? WHERE id = ?", status, holder_id, asset["id"]
    )
    db.insert(
        "asset_moves",
        asset_id=asset["id"],
        ticket_id=ticket["id"],
        from_status=asset["status"],
        to_status=status,
        from_holder=asset["holder_id"],
        to_holder=holder_id,
        at=timestamp(),
    )
    return _asset(db, asset["id"])


# --- reading -----------------------------------------------------------------------------------


@tool(read_only=True)
def search_tickets(
    db: Database,
    text: Annotated[
        str | None,
        Field(
            description="Words that must all occur in the ticket's id, subject, description, "
            "category, requester (name, id, site), asset tag or tags"
        ),
    ] = None,
    status: Annotated[
        Status | Literal["unresolved"] | None,
        Field(description="One status, or unresolved for new, open, pending and on_hold"),
    ] = None,
    priority: Priority | None = None,
    queue: Annotated[
        str | None, Field(description="A team's id, an agent's id, or the word unassigned")
    ] = None,
    page: Page = 1,
) -> Row:
    """Search tickets, newest first. The conversation and the links of one: get_ticket."""
    columns = (
        "t.id||' '||t.subject||' '||t.description||' '||t.category_id||' '||r.name||' '||r.id||' '"
        "||r.site||' '||coalesce(t.asset_id,'')||' '||coalesce((SELECT group_concat(tag,' ') "
        "FROM ticket_tags g WHERE g.ticket_id = t.id),'')"
    )
    condition, values = _words(text, columns)
    conditions: list[str] = [condition]
    if status == "unresolved":
        conditions.append("t.status NOT IN ('resolved', 'closed')")
    elif status:
        conditions.append("t.status = ?")
        values.append(status)
    if priority:
        conditions.append("t.priority = ?")
        values.append(priority)
    if queue == "unassigned":
        conditions.append("t.assignee_id IS NULL AND t.status <> 'closed'")
    elif queue:
        conditions.append("? IN (t.assignee_id, c.team_id)")
        values.append(queue)
    sql = f"{TICKET} WHERE {' AND '.join(conditions)} ORDER BY t.created_at DESC, t.id DESC"
    found = _page(db, sql, values, page)
    return {**found, "results": [_summary(ticket) for ticket in found["results"]]}


@tool(read_only=True)
def get_ticket(db: Database, ticket_id: TicketId) -> Row:
    """One ticket in full: description, service-level targets, comments, tags, links, articles."""
    ticket = _ticket(db, ticket_id)
    comments = db.rows(
        "SELECT id, author_kind, author_id, visibility, body, created_at FROM comments "
        "WHERE ticket_id = ? ORDER BY id",
        ticket_id,
    )
    links = db.rows(
        "SELECT ticket_id, kind, other_id FROM ticket_links WHERE ? IN (ticket_id, other_id) "
        "ORDER BY ticket_id, other_id",
        ticket_id,
    )
    tags = db.rows("SELECT tag FROM ticket_tags WHERE ticket_id = ? ORDER BY tag", ticket_id)
    articles = db.rows(
        "SELECT a.id, a.title FROM ticket_articles t JOIN articles a ON a.id = t.article_id "
        "WHERE t.ticket_id = ? ORDER BY a.id",
        ticket_id,
    )
    tag_names = [row["tag"] for row in tags]
    return {**ticket, "tags": tag_names, "links": links, "articles": articles, "comments": comments}


@tool(read_only=True)
def get_ticket_history(db: Database, ticket_id: TicketId) -> list[Row]:
    """Every recorded change of a ticket, oldest first: who changed which field, and why."""
    _ticket(db, ticket_id)
    return db.rows(
        "SELECT at, actor, field, old_value, new_value, note FROM ticket_history "
        "WHERE ticket_id = ? ORDER BY id",
        ticket_id,
    )


@tool(read_only=True)
def list_missed_targets(
    db: Database,
    target: Annotated[
        Literal["response", "resolution"], Field(description="Which service-level target")
    ],
    team_id: Annotated[str | None, Field(description="Only this team's tickets, e.g. NET")] = None,
    priority: Priority | None = None,
    page: Page = 1,
) -> Row:
    """Unresolved tickets whose target has passed by now, longest overdue first."""
    late = {
        "response": "t.first_responded_at IS NULL AND t.response_due < ?",
        "resolution": "t.resolution_due < ?",
    }[target]
    sql = (
        f"{TICKET} WHERE t.status NOT IN ('resolved', 'closed') AND {late} "
        "AND c.team_id = coalesce(?, c.team_id) AND t.priority = coalesce(?, t.priority) "
        f"ORDER BY t.{target}_due, t.id"
    )
    found = _page(db, sql, [timestamp(), team_id, priority], page)
    return {**found, "now": timestamp(), "results": [_summary(row) for row in found["results"]]}


@tool(read_only=True)
def find_requesters(
    db: Database,
    text: Annotated[
        str, Field(min_length=2, description="Words of the name, id, mail, department or site")
    ],
    page: Page = 1,
) -> Row:
    """Find the people IT works for. Names are not unique: check department and site."""
    columns = "name||' '||id||' '||email||' '||department||' '||site"
    condition, values = _words(text, columns)
    return _page(db, f"SELECT * FROM requesters WHERE {condition} ORDER BY name, id", values, page)


@tool(read_only=True)
def list_agents(
    db: Database,
    team_id: Annotated[str | None, Field(description="Only this team, e.g. NET")] = None,
    skill: Annotated[str | None, Field(description="Only agents with this skill")] = None,
) -> list[Row]:
    """IT agents with role, availability, skills, capacity and how many open tickets they hold."""
    agents = db.rows(f"{AGENT} WHERE a.team_id = coalesce(?, a.team_id) ORDER BY a.id", team_id)
    for agent in agents:
        skills = db.rows(
            "SELECT skill FROM agent_skills WHERE agent_id = ? ORDER BY skill", agent["id"]
        )
        agent["skills"] = [row["skill"] for row in skills]
    return [agent for agent in agents if skill is None or skill in agent["skills"]]


@tool(read_only=True)
def list_categories(db: Database) -> list[Row]:
    """What tickets are filed under: the team and skill each needs, and its lowest priority."""
    return db.rows(
        "SELECT c.*, t.name AS team_name FROM categories c JOIN teams t ON t.id = c.team_id "
        "ORDER BY c.team_id, c.id"
    )


@tool(read_only=True)
def list_service_levels(db: Database) -> list[Row]:
    """What each priority means, and its response and resolution targets in minutes."""
    return db.rows("SELECT * FROM service_levels ORDER BY priority")


@tool(read_only=True)
def find_assets(
    db: Database,
    text: Annotated[
        str | None, Field(description="Words of the tag, serial, model, kind, site or location")
    ] = None,
    status: Literal["in_use", "in_stock", "in_repair", "retired", "lost"] | None = None,
    holder_id: Annotated[str | None, Field(description="Only what this requester holds")] = None,
    page: Page = 1,
) -> Row:
    """Search the register of laptops, phones, monitors, docks, printers, room kits, scanners."""
    columns = "id||' '||serial||' '||model||' '||kind||' '||site||' '||coalesce(location,'')"
    condition, values = _words(text, columns)
    sql = (
        f"SELECT * FROM assets WHERE {condition} AND status = coalesce(?, status) "
        "AND (? IS NULL OR holder_id = ?) ORDER BY id"
    )
    return _page(db, sql, [*values, status, holder_id, holder_id], page)


@tool(read_only=True)
def search_articles(
    db: Database,
    text: Annotated[str, Field(description="Words of the title or the body")] = "",
    category_id: Annotated[str | None, Field(description="Only this category")] = None,
    page: Page = 1,
) -> Row:
    """Search the knowledge base: published articles, drafts and archived ones. Without bodies."""
    condition, values = _words(text, "title||' '||body")
    sql = (
        f"SELECT id, title, category_id, status, author_id, updated_at FROM articles "
        f"WHERE {condition} AND category_id = coalesce(?, category_id) ORDER BY id"
    )
    return _page(db, sql, [*values, category_id], page)


@tool(read_only=True)
def get_article(
    db: Database, article_id: Annotated[str, Field(description="Article id, e.g. KB-1187")]
) -> Row:
    """One article of the knowledge base with its text."""
    return _one(db, "article", "SELECT * FROM articles WHERE id = ?", article_id)


@tool(read_only=True)
def list_macros(db: Database) -> list[Row]:
    """The canned replies: text, the category they are for, the tag and the status they set."""
    return db.rows("SELECT * FROM macros ORDER BY id")


# --- writing: tickets --------------------------------------------------------------------------


@tool(read_only=False)
def create_ticket(
    db: Database,
    requester_id: RequesterId,
    category_id: CategoryId,
    subject: Annotated[str, Field(min_length=8, max_length=120)],
    description: Annotated[str, Field(min_length=15, description="What happens, since when")],
    priority: Priority = "P3",
) -> Row:
    """Open a ticket for a requester. It goes, unassigned, to the team of its category."""
    requester, category = _requester(db, requester_id), _category(db, category_id)
    if not requester["active"]:
        message = f"{requester['name']} has left the company"
        raise ToolError("REQUESTER_INACTIVE", message, requester_id=requester_id)
    _check_floor(category, requester["vip"], priority)
    if priority == "P1" and category["team_id"] != "SEC":
        raise _violation("p1_evidence", "only security incidents are opened at P1")
    ticket_id, at = new_id("ticket", "INC-"), timestamp()
    db.insert(
        "tickets",
        id=ticket_id,
        subject=subject,
        description=description,
        requester_id=requester_id,
        category_id=category_id,
        priority=priority,
        status="new",
        created_at=at,
        updated_at=at,
        **_due(db, at, priority),
    )
    _record(db, ticket_id, "status", None, "new")
    return _summary(_ticket(db, ticket_id))


@tool(read_only=False)
def assign_ticket(db: Database, ticket_id: TicketId, agent_id: AgentId) -> Row:
    """Give a ticket to an agent of its team who has the skill, is available and has room.

    A new ticket becomes open; a ticket someone else holds moves over with its status.
    """
    ticket = _unresolved(db, ticket_id)
    if ticket["assignee_id"] == agent_id:
        raise ToolError("ALREADY_ASSIGNED", f"{agent_id} holds {ticket_id} already")
    _check_assignable(db, ticket, agent_id)
    status = "open" if ticket["status"] == "new" else ticket["status"]
    return _update(db, ticket, status=status, assignee_id=agent_id)


@tool(read_only=False)
def recategorise_ticket(
    db: Database, ticket_id: TicketId, category_id: CategoryId, reason: Reason
) -> Row:
    """File a ticket under another category. It goes back, unassigned, to that category's team."""
    ticket = _unresolved(db, ticket_id)
    category = _category(db, category_id)
    if category_id == ticket["category_id"]:
        raise ToolError("SAME_CATEGORY", f"{ticket_id} is filed under {category_id} already")
    _check_floor(category, ticket["requester_vip"], ticket["priority"])
    return _update(db, ticket, reason, status="new", assignee_id=None, category_id=category_id)


@tool(read_only=False)
def set_priority(db: Database, ticket_id: TicketId, priority: Priority, reason: Reason) -> Row:
    """Raise or lower a ticket's priority; both targets are reckoned anew from its opening."""
    ticket = _unresolved(db, ticket_id)
    _check_reprioritise(db, ticket, priority)
    due = _due(db, ticket["created_at"], priority)
    return _update(db, ticket, reason, priority=priority, **due)


@tool(read_only=False)
def set_status(
    db: Database,
    ticket_id: TicketId,
    status: Annotated[
        Status,
        Field(
            description="pending: waits for the requester, our question being the last public "
            "comment; on_hold: waits for a third party; open: work goes on; closed: after resolved"
        ),
    ],
) -> Row:
    """Move a ticket to another status; not to resolved (resolve_ticket), nor to reopen it
    (reopen_ticket)."""
    ticket = _unclosed(db, ticket_id)
    if status == "resolved":
        raise ToolError("RESOLUTION_REQUIRED", "say how it was resolved: use resolve_ticket")
    if status not in ALLOWED[ticket["status"]]:
        raise ToolError(
            "INVALID_TRANSITION",
            f"{ticket_id} cannot go from {ticket['status']} to {status}",
            status=ticket["status"],
            allowed=list(ALLOWED[ticket["status"]]),
        )
    if status == "pending":
        last = db.scalar(
            "SELECT author_kind FROM comments WHERE ticket_id = ? AND visibility = 'public' "
            "ORDER BY id DESC",
            ticket_id,
        )
        if last not in ("agent", "dispatch"):
            raise ToolError("QUESTION_REQUIRED", "ask the requester in a public comment first")
    closed_at = timestamp() if status == "closed" else None
    return _update(db, ticket, status=status, closed_at=closed_at)


@tool(read_only=False)
def resolve_ticket(
    db: Database,
    ticket_id: TicketId,
    code: Literal["fixed", "workaround", "advice_given", "not_reproducible", "declined"],
    resolution: Annotated[str, Field(description="What was done, for the requester to read")],
) -> Row:
    """Resolve an open or pending ticket."""
    ticket = _unresolved(db, ticket_id)
    if len(resolution.strip()) < 20:
        raise ToolError("RESOLUTION_REQUIRED", "say in a sentence what was done", minimum=20)
    _check_resolvable(db, ticket)
    return _update(
        db,
        ticket,
        status="resolved",
        resolution_code=code,
        resolution=resolution,
        resolved_at=timestamp(),
    )


@tool(read_only=False)
def reopen_ticket(db: Database, ticket_id: TicketId, reason: Reason) -> Row:
    """Reopen a ticket resolved in the last 7 days; it stays with its agent if that one has room."""
    ticket = _unclosed(db, ticket_id)
    if ticket["status"] != "resolved":
        message = f"{ticket_id} is {ticket['status']}, not resolved"
        raise ToolError("INVALID_TRANSITION", message, status=ticket["status"])
    limit = db.scalar(
        "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', ?, ?)", timestamp(), f"-{REOPEN_DAYS} days"
    )
    if ticket["resolved_at"] < limit:
        raise ToolError("REOPEN_WINDOW_PASSED", "open a follow-up ticket", days=REOPEN_DAYS)
    holder: str | None = ticket["assignee_id"]
    try:
        _check_assignable(db, ticket, holder or "")
    except ToolError:
        holder = None
    cleared = dict.fromkeys(("resolution_code", "resolution", "resolved_at"))
    status = "open" if holder else "new"
    return _update(db, ticket, reason, status=status, assignee_id=holder, **cleared)


@tool(read_only=False)
def escalate_ticket(db: Database, ticket_id: TicketId, reason: Reason) -> Row:
    """Alert the next level: 1 the team's lead (the deputy while the lead is away), 2 the duty
    manager. Who holds the ticket does not change."""
    ticket = _unresolved(db, ticket_id)
    level = ticket["escalation_level"] + 1
    late = ticket["resolution_due"] < timestamp()
    if level > 2:
        raise ToolError("ALREADY_ESCALATED", f"{ticket_id} is with the duty manager already")
    if level == 1 and not late and ticket["priority"] not in ("P1", "P2"):
        raise _violation("escalation", "level 1 is for P1, P2 and missed resolution targets")
    if level == 2 and not (late and ticket["priority"] in ("P1", "P2")):
        raise _violation("escalation", "level 2 is for P1 and P2 past their resolution target")
    roles = "('lead', 'deputy')" if level == 1 else "('manager')"
    alerted = db.one(
        f"SELECT id, name, role FROM agents WHERE role IN {roles} AND status = 'available' "
        "AND (role = 'manager' OR team_id = ?) ORDER BY role DESC, id",
        ticket["team_id"],
    )
    if alerted is None:
        raise ToolError("NOBODY_TO_ALERT", "neither lead nor deputy of the team is available")
    db.insert(
        "escalations",
        ticket_id=ticket_id,
        level=level,
        agent_id=alerted["id"],
        reason=reason,
        at=timestamp(),
    )
    return {**_update(db, ticket, reason, escalation_level=level), "alerted": alerted}


@tool(read_only=False)
def link_tickets(
    db: Database,
    ticket_id: TicketId,
    other_id: TicketId,
    kind: Annotated[
        Literal["child_of", "duplicate_of", "follow_up_of", "related_to"],
        Field(description="What ticket_id is to other_id"),
    ],
) -> Row:
    """Link two tickets, e.g. a report to the incident it is a child of. Closed ones may be linked
    to; two tickets have at most one link."""
    _unclosed(db, ticket_id)
    _ticket(db, other_id)
    if ticket_id == other_id:
        raise ToolError("SELF_LINK", "a ticket cannot be linked to itself", ticket_id=ticket_id)
    known = db.one(
        "SELECT * FROM ticket_links WHERE (ticket_id = :a AND other_id = :b) "
        "OR (ticket_id = :b AND other_id = :a)",
        a=ticket_id,
        b=other_id,
    )
    if known:
        message = f"{known['ticket_id']} is {known['kind']} {known['other_id']} already"
        raise ToolError("DUPLICATE_LINK", message, link=known)
    db.insert("ticket_links", ticket_id=ticket_id, other_id=other_id, kind=kind)
    _record(db, ticket_id, "link", None, f"{kind} {other_id}")
    return {"ticket_id": ticket_id, "kind": kind, "other_id": other_id}


@tool(read_only=False)
def merge_tickets(
    db: Database,
    source_id: Annotated[str, Field(description="The newer ticket; it is closed")],
    target_id: Annotated[str, Field(description="The older ticket; it stays")],
) -> Row:
    """Merge a requester's second ticket about the same matter into the first. Cannot be undone."""
    source, target = _unresolved(db, source_id), _unresolved(db, target_id)
    if source["requester_id"] != target["requester_id"]:
        raise ToolError("REQUESTER_MISMATCH", "only tickets of one requester merge; link them")
    if (source["created_at"], source_id) <= (target["created_at"], target_id):
        raise ToolError("INVALID_MERGE", "the newer ticket merges into the older one")
    _comment(db, source, f"Merged into {target_id}.", author="system")
    text = f"{source_id} was merged into this ticket: {source['subject']}"
    _comment(db, target, text, author="system")
    at = timestamp()
    return _update(db, source, status="closed", closed_at=at, merged_into=target_id)


# --- writing: conversation, tags, knowledge ----------------------------------------------------


@tool(read_only=False)
def add_comment(
    db: Database,
    ticket_id: TicketId,
    body: Annotated[str, Field(min_length=5, max_length=4000)],
    visibility: Annotated[
        Literal["public", "internal"],
        Field(description="public reaches the requester; internal is for IT agents only"),
    ],
) -> Row:
    """Write to the requester, or leave a note for colleagues, on a ticket."""
    ticket = _unclosed(db, ticket_id)
    return {"comment_id": _comment(db, ticket, body, visibility), "ticket_id": ticket_id}


@tool(read_only=False)
def apply_macro(
    db: Database,
    ticket_id: TicketId,
    macro_id: Annotated[str, Field(description="Macro id; see list_macros")],
) -> Row:
    """Send a canned reply as a public comment, with the tag and the status that belong to it."""
    ticket = _unresolved(db, ticket_id)
    macro = _one(db, "macro", "SELECT * FROM macros WHERE id = ?", macro_id)
    if macro["category_id"] not in (None, ticket["category_id"]):
        message = f"{macro_id} is for {macro['category_id']}, the ticket is {ticket['category_id']}"
        raise ToolError("MACRO_NOT_APPLICABLE", message, ticket_id=ticket_id)
    status = macro["set_status"]
    if status and status not in ALLOWED[ticket["status"]]:
        message = f"{ticket_id} cannot go from {ticket['status']} to {status}"
        raise ToolError("INVALID_TRANSITION", message, status=ticket["status"])
    first_name = ticket["requester_name"].split()[0]
    body = macro["body"].format(first_name=first_name, ticket=ticket_id)
    comment_id = _comment(db, ticket, body)
    if macro["add_tag"]:
        _tag(db, ticket_id, macro["add_tag"])
    if status:
        _update(db, ticket, status=status)
    return {**_summary(_ticket(db, ticket_id)), "comment_id": comment_id, "body": body}


def _tag(db: Database, ticket_id: str, tag: str) -> None:
    if db.run("INSERT OR IGNORE INTO ticket_tags VALUES (?, ?)", ticket_id, tag):
        _record(db, ticket_id, "tag", None, tag)


@tool(read_only=False)
def tag_ticket(
    db: Database,
    ticket_id: TicketId,
    tag: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)],
) -> Row:
    """Put a tag on a ticket. A tag it has already is left as it is."""
    _unclosed(db, ticket_id)
    _tag(db, ticket_id, tag)
    tags = db.rows("SELECT tag FROM ticket_tags WHERE ticket_id = ? ORDER BY tag", ticket_id)
    return {"ticket_id": ticket_id, "tags": [row["tag"] for row in tags]}


@tool(read_only=False)
def attach_article(
    db: Database,
    ticket_id: TicketId,
    article_id: Annotated[str, Field(description="A published article, e.g. KB-1187")],
) -> Row:
    """Attach the knowledge article that a ticket was, or is to be, resolved by."""
    _unclosed(db, ticket_id)
    article = get_article(db, article_id)
    if article["status"] != "published":
        message = f"{article_id} is {article['status']}; only published articles go to requesters"
        raise ToolError("ARTICLE_NOT_PUBLISHED", message, article_id=article_id)
    known = "SELECT 1 FROM ticket_articles WHERE ticket_id = ? AND article_id = ?"
    if db.one(known, ticket_id, article_id):
        raise ToolError("DUPLICATE_ARTICLE", f"{article_id} is attached to {ticket_id} already")
    db.insert("ticket_articles", ticket_id=ticket_id, article_id=article_id)
    _record(db, ticket_id, "article", None, article_id)
    return {"ticket_id": ticket_id, "article_id": article_id, "title": article["title"]}


# --- writing: assets ---------------------------------------------------------------------------


@tool(read_only=False)
def attach_asset(db: Database, ticket_id: TicketId, asset_id: AssetId) -> Row:
    """Say which asset a ticket is about: one its requester holds, or a shared one."""
    ticket, asset = _unresolved(db, ticket_id), _asset(db, asset_id)
    if asset["holder_id"] not in (None, ticket["requester_id"]):
        message = f"{asset_id} is held by {asset['holder_id']}"
        raise ToolError("ASSET_NOT_HELD", message, asset_id=asset_id, ticket_id=ticket_id)
    return {**_update(db, ticket, asset_id=asset_id), "asset": asset}


@tool(read_only=False)
def issue_asset(
    db: Database, asset_id: AssetId, requester_id: RequesterId, ticket_id: TicketId
) -> Row:
    """Hand an asset in stock at the requester's site to the requester, on the ticket's account.

    Nobody holds two laptops or two phones: take the old one back first. The ticket is the
    requester's own, or a joiners ticket.
    """
    ticket, asset = _unresolved(db, ticket_id), _asset(db, asset_id)
    requester = _requester(db, requester_id)
    if not requester["active"]:
        raise ToolError("REQUESTER_INACTIVE", f"{requester['name']} has left the company")
    if ticket["requester_id"] != requester_id and ticket["category_id"] != "joiners-leavers":
        raise ToolError("REQUESTER_MISMATCH", f"{ticket_id} is not {requester['name']}'s ticket")
    if asset["status"] != "in_stock":
        raise ToolError("ASSET_NOT_IN_STOCK", f"{asset_id} is {asset['status']}")
    if asset["site"] != requester["site"]:
        message = f"{asset_id} is in {asset['site']}, {requester['name']} in {requester['site']}"
        raise ToolError("ASSET_WRONG_SITE", message, asset_id=asset_id)
    held = db.one(
        "SELECT id FROM assets WHERE holder_id = ? AND kind = ? AND kind IN ('laptop', 'phone')",
        requester_id,
        asset["kind"],
    )
    if held:
        message = f"{requester['name']} still holds {held['id']}"
        raise ToolError("ASSET_LIMIT", message, held=held["id"])
    return _move(db, asset, ticket, "in_use", requester_id)


@tool(read_only=False)
def take_back_asset(
    db: Database,
    asset_id: AssetId,
    to: Annotated[
        Literal["in_stock", "in_repair", "retired", "lost"], Field(description="Where it goes")
    ],
    ticket_id: TicketId,
) -> Row:
    """Take an asset from its holder into stock, repair or retirement, or write it off as lost."""
    ticket, asset = _unresolved(db, ticket_id), _asset(db, asset_id)
    if asset["status"] in ("retired", "lost") or asset["status"] == to:
        message = f"{asset_id} is {asset['status']}"
        raise ToolError("INVALID_TRANSITION", message, status=asset["status"])
    if to == "retired" and asset["warranty_until"] >= timestamp()[:10]:
        message = f"{asset_id} is under warranty until {asset['warranty_until']}"
        raise ToolError("WARRANTY_ACTIVE", message, asset_id=asset_id)
    if to == "lost" and ticket["category_id"] != "lost-device":
        raise ToolError("LOST_REPORT_REQUIRED", "an asset is lost only by a lost-device ticket")
    return _move(db, asset, ticket, to, None)

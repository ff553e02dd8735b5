"""Tools of the lending desk."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated

from pydantic import Field

from environments.authoring import Database, Row, ToolError, new_id, now, timestamp, tool

MOST_LOANS = 3
FEE_CENTS = 50
SHOWN = 50

MemberId = Annotated[str, Field(min_length=3, max_length=20, description="e.g. M-1004")]
ItemId = Annotated[str, Field(min_length=3, max_length=20, description="e.g. T-201")]
Query = Annotated[str, Field(min_length=2, max_length=60)]


def fetch(db: Database, table: str, key: str, code: str) -> Row:
    row = db.one(f"SELECT * FROM {table} WHERE id = ?", key)
    if row is None:
        raise ToolError(code, f"there is no {key!r}", id=key)
    return row


def waiting_for(db: Database, item_id: str) -> list[Row]:
    return db.rows(
        "SELECT r.id, r.member_id, m.name, r.created_at FROM reservations r"
        " JOIN members m ON m.id = r.member_id"
        " WHERE r.item_id = ? AND r.status = 'waiting' ORDER BY r.created_at, r.id",
        item_id,
    )


@tool(read_only=True)
def find_members(db: Database, query: Query) -> dict:
    """Find members by a part of their name."""
    found = db.rows(
        "SELECT id, name, status FROM members WHERE name LIKE ? ORDER BY id", f"%{query}%"
    )
    return {"members": found[:SHOWN], "total": len(found)}


@tool(read_only=True)
def get_member(db: Database, member_id: MemberId) -> dict:
    """One member: what they have, what they wait for, what they owe."""
    member = fetch(db, "members", member_id, "MEMBER_NOT_FOUND")
    owed = db.scalar(
        "SELECT coalesce(sum(iif(kind = 'late_fee', 1, -1) * amount_cents), 0)"
        " FROM payments WHERE member_id = ?",
        member_id,
    )
    loans = db.rows(
        "SELECT l.id, l.item_id, i.name AS item, l.due_on FROM loans l"
        " JOIN items i ON i.id = l.item_id"
        " WHERE l.member_id = ? AND l.returned_at IS NULL ORDER BY l.id",
        member_id,
    )
    reservations = db.rows(
        "SELECT id, item_id, created_at FROM reservations"
        " WHERE member_id = ? AND status = 'waiting' ORDER BY id",
        member_id,
    )
    return {**member, "loans": loans, "reservations": reservations, "owed_cents": owed}


@tool(read_only=True)
def find_items(db: Database, query: Query) -> dict:
    """Find tools by a part of their name."""
    found = db.rows(
        "SELECT id, name, category_id, shelf, status FROM items WHERE name LIKE ? ORDER BY id",
        f"%{query}%",
    )
    return {"items": found[:SHOWN], "total": len(found)}


@tool(read_only=True)
def get_item(db: Database, item_id: ItemId) -> dict:
    """One tool: who has it, who waits for it in which order, what is broken."""
    item = fetch(db, "items", item_id, "ITEM_NOT_FOUND")
    loan = db.one(
        "SELECT id, member_id, due_on FROM loans WHERE item_id = ? AND returned_at IS NULL", item_id
    )
    repairs = db.rows(
        "SELECT id, fault, reported_at FROM repairs WHERE item_id = ? AND status = 'open'"
        " ORDER BY id",
        item_id,
    )
    return {**item, "loan": loan, "waiting": waiting_for(db, item_id), "repairs": repairs}


@tool(read_only=True)
def list_overdue(db: Database) -> dict:
    """Loans that are overdue today."""
    found = db.rows(
        "SELECT l.id, l.item_id, i.name AS item, l.member_id, m.name AS member, l.due_on"
        " FROM loans l JOIN items i ON i.id = l.item_id JOIN members m ON m.id = l.member_id"
        " WHERE l.returned_at IS NULL AND l.due_on < ? ORDER BY l.due_on, l.id",
        now().date().isoformat(),
    )
    return {"loans": found[:SHOWN], "total": len(found)}


@tool(read_only=False)
def lend_item(db: Database, member_id: MemberId, item_id: ItemId) -> dict:
    """Lend a tool to a member."""
    member = fetch(db, "members", member_id, "MEMBER_NOT_FOUND")
    item = fetch(db, "items", item_id, "ITEM_NOT_FOUND")
    if member["status"] == "suspended":
        raise ToolError("MEMBER_SUSPENDED", f"{member['name']} is suspended")
    out = db.scalar(
        "SELECT count(*) FROM loans WHERE member_id = ? AND returned_at IS NULL", member_id
    )
    if out >= MOST_LOANS:
        raise ToolError("TOO_MANY_LOANS", f"{member['name']} has {out} tools out")
    if item["status"] != "available":
        raise ToolError("ITEM_NOT_AVAILABLE", f"{item['name']} is {item['status']}")
    line = waiting_for(db, item_id)
    if line and line[0]["member_id"] != member_id:
        raise ToolError("RESERVED_FOR_ANOTHER", f"{line[0]['name']} is first in line")
    if line:
        db.run("UPDATE reservations SET status = 'fulfilled' WHERE id = ?", line[0]["id"])
    days = db.scalar("SELECT loan_days FROM categories WHERE id = ?", item["category_id"])
    loan = new_id("loan", "L-")
    due = now().date() + timedelta(days=days)
    db.insert(
        "loans",
        id=loan,
        item_id=item_id,
        member_id=member_id,
        lent_at=timestamp(),
        due_on=due.isoformat(),
    )
    db.run("UPDATE items SET status = 'on_loan' WHERE id = ?", item_id)
    return fetch(db, "loans", loan, "LOAN_NOT_FOUND")


@tool(read_only=False)
def return_item(
    db: Database,
    loan_id: Annotated[str, Field(min_length=3, max_length=20, description="e.g. L-5009")],
    note: Annotated[str, Field(max_length=200, description="The state it is in")],
) -> dict:
    """Take back a tool; a late fee is booked."""
    loan = fetch(db, "loans", loan_id, "LOAN_NOT_FOUND")
    if loan["returned_at"] is not None:
        raise ToolError("ALREADY_RETURNED", f"{loan_id} came back on {loan['returned_at']}")
    late = max(0, (now().date() - date.fromisoformat(loan["due_on"])).days)
    if late:
        db.insert(
            "payments",
            id=new_id("payment", "P-"),
            member_id=loan["member_id"],
            kind="late_fee",
            amount_cents=late * FEE_CENTS,
            loan_id=loan_id,
            at=timestamp(),
        )
    db.run("UPDATE loans SET returned_at = ?, note = ? WHERE id = ?", timestamp(), note, loan_id)
    db.run("UPDATE items SET status = 'available' WHERE id = ?", loan["item_id"])
    return {**fetch(db, "loans", loan_id, "LOAN_NOT_FOUND"), "fee_cents": late * FEE_CENTS}


@tool(read_only=False)
def reserve_item(db: Database, member_id: MemberId, item_id: ItemId) -> dict:
    """Put a member on the waiting list for a tool."""
    fetch(db, "members", member_id, "MEMBER_NOT_FOUND")
    fetch(db, "items", item_id, "ITEM_NOT_FOUND")
    if any(place["member_id"] == member_id for place in waiting_for(db, item_id)):
        raise ToolError("ALREADY_WAITING", f"{member_id} waits for {item_id} already")
    reservation = new_id("reservation", "R-")
    db.insert(
        "reservations",
        id=reservation,
        item_id=item_id,
        member_id=member_id,
        created_at=timestamp(),
        status="waiting",
    )
    return fetch(db, "reservations", reservation, "RESERVATION_NOT_FOUND")


@tool(read_only=False)
def cancel_reservation(
    db: Database,
    reservation_id: Annotated[str, Field(min_length=3, max_length=20, description="e.g. R-301")],
) -> dict:
    """Take a member off a waiting list."""
    place = fetch(db, "reservations", reservation_id, "RESERVATION_NOT_FOUND")
    if place["status"] != "waiting":
        raise ToolError("NOT_WAITING", f"{reservation_id} is {place['status']}")
    db.run("UPDATE reservations SET status = 'cancelled' WHERE id = ?", reservation_id)
    return fetch(db, "reservations", reservation_id, "RESERVATION_NOT_FOUND")


@tool(read_only=False)
def report_fault(
    db: Database, item_id: ItemId, fault: Annotated[str, Field(min_length=3, max_length=200)]
) -> dict:
    """Put a tool on the list of repairs; it is not lent until that is done."""
    item = fetch(db, "items", item_id, "ITEM_NOT_FOUND")
    if item["status"] == "on_loan":
        raise ToolError("ITEM_ON_LOAN", f"{item['name']} is out: take it back first")
    if item["status"] == "in_repair":
        raise ToolError("ALREADY_IN_REPAIR", f"{item['name']} is on the list")
    repair = new_id("repair", "F-")
    db.insert(
        "repairs",
        id=repair,
        item_id=item_id,
        fault=fault,
        reported_at=timestamp(),
        status="open",
    )
    db.run("UPDATE items SET status = 'in_repair' WHERE id = ?", item_id)
    return fetch(db, "repairs", repair, "REPAIR_NOT_FOUND")
